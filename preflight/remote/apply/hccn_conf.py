"""/etc/hccn.conf, the settings made with hccn_tool: one `key_<device>=value` a line. Devices are restored from it at
boot.

The tool rewrites it with every setting (driver source: cfg.c). The first line of a repeated key counts, and setting the
key drops all of its lines.
"""

import fcntl
import ipaddress

from apply.files import read_file

CONF = "/etc/hccn.conf"


def prepare_conf():
    """Create the file if it is missing, and end its last line with a newline. The tool does nothing without the file,
    which the driver's installation makes, and appends its line to an unfinished one."""
    with open(CONF, "ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the tool does
        if file.seek(0, 2):
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")


def saved_settings(device):
    """Return a device's settings in the file; an address counts with its mask only."""
    settings = {}
    for line in (read_file(CONF) or "").splitlines():
        name, _, value = line.strip().partition("=")
        if name.endswith("_" + device) and not line.lstrip().startswith("#"):
            settings.setdefault(name[: -len(device) - 1], value.strip())
    mask = settings.pop("netmask", "")
    if "address" in settings:
        settings["address"] = whole_address(settings["address"], mask)
    return settings


def whole_address(address, mask):
    try:
        return str(ipaddress.IPv4Interface("%s/%s" % (address, mask))) if mask else None
    except ValueError:
        return None


def parse_target(target):
    """Return the device and keys of a target: `3 address gateway` → ("3", ["address", "gateway"])."""
    words = target.split()
    return words[0], words[1:]


def settings_text(values, keys):
    return " ".join("%s %s" % (key, values.get(key) or "none") for key in keys)
