"""/etc/hccn.conf: what hccn_tool has been told, `key_<device>=value` a line; devices are restored from it at boot.

The tool rewrites it with every setting (driver source: cfg.c): of a key that stands there twice the first line counts,
and setting it drops both.
"""

import fcntl
import ipaddress

from apply.files import read_file

CONF = "/etc/hccn.conf"


def prepare_conf():
    """The tool does nothing without the file, which the driver's installation makes, and glues its line to a last one
    that has no newline."""
    with open(CONF, "ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the tool does
        if file.seek(0, 2):
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")


def saved(device):
    """What the file says of a device's settings; an address counts with its mask only."""
    found = {}
    for line in (read_file(CONF) or "").splitlines():
        name, _, value = line.strip().partition("=")
        if name.endswith("_" + device) and not line.lstrip().startswith("#"):
            found.setdefault(name[: -len(device) - 1], value.strip())
    mask = found.pop("netmask", "")
    if "address" in found:
        found["address"] = whole_address(found["address"], mask)
    return found


def whole_address(address, mask):
    try:
        return str(ipaddress.IPv4Interface("%s/%s" % (address, mask))) if mask else None
    except ValueError:
        return None


def stated(target):
    """`3 address gateway` → ("3", ["address", "gateway"])"""
    words = target.split()
    return words[0], words[1:]


def spelled(values, keys):
    return " ".join("%s %s" % (key, values.get(key) or "none") for key in keys)
