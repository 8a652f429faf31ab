"""Services of systemd: running state, and start at boot."""

import re

from apply.kinds import ChangeKind
from apply.tools import StepError, call, must


def unit(target):
    if not re.match(r"[\w@.-]+$", target) or target.startswith("-"):
        raise StepError("%r is not a unit name" % target)
    return target


def read_active(target):
    """Return "active" or "inactive"; a unit that is starting counts as active. Without a service manager, systemctl
    prints no state."""
    _, out, err = call("systemctl", "is-active", unit(target))
    if not out.strip():
        raise StepError(
            "no service manager is available: systemctl prints %s" % (err.strip().replace("\n", " ")[:300] or "nothing")
        )
    return "active" if out.strip() in ("active", "activating", "reloading") else "inactive"


def write_active(target, value):
    must("systemctl", "start" if value == "active" else "stop", unit(target))


def read_at_boot(target):
    """Return systemctl's own word: enabled, disabled, masked, static …"""
    _, out, err = call("systemctl", "is-enabled", unit(target))
    if not out.strip():
        raise StepError("systemctl is-enabled %s: %s" % (target, err.strip()[:300] or "no word"))
    return out.strip()


def write_at_boot(target, value):
    must("systemctl", "enable" if value == "enabled" else "disable", unit(target))


KINDS = {
    "service": ChangeKind(read_active, write_active, settle=5),
    "service-at-boot": ChangeKind(read_at_boot, write_at_boot),
}
