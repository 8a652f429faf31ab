"""Identity of the network that this host is in. It equals that of the machine that runs preflight if both are the same
host."""

import os

from apply.tools import StepError

BOOT_ID = "/proc/sys/kernel/random/boot_id"
NO_PERSON = (
    "the firewall is not changed, because preflight runs on this host and cannot test connections from other machines. "
    "Run the same command in a terminal and confirm the change there, or run preflight on another machine"
)


def network_id():
    """Return this boot and this network namespace as one text, empty where the kernel does not give them."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return "%s %s" % (file.read().strip(), os.readlink("/proc/self/ns/net"))
    except OSError:
        return ""


def is_own(request):
    """Return whether the request comes from this host: its connections go over lo and pass every firewall."""
    return bool(request["caller"]) and request["caller"] == network_id()


def require_person(request):
    """Raise StepError where no connection shows that other machines get in, and no person can say so."""
    if is_own(request) and not request["person"]:
        raise StepError(NO_PERSON)
