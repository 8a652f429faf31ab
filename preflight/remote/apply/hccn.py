"""Device NICs, through hccn_tool. Its exit codes collide and some failures end with 0: judged are its words, and what
it then shows (hccn_tool sources of the 910B driver: internal codes modulo 256)."""

import ipaddress
import re
import shutil
import time

from apply.kinds import Kind
from apply.tools import ENVIRONMENT, StepError, call

BUSY_SECONDS = 15  # how long a busy hccn_tool is asked again
SETTLE_SECONDS = 3  # how long a device may take to show what it was told
HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
CONF = "/etc/hccn.conf"  # every -s rewrites it


def hccn(device, *words):
    """One call's text, stdout and stderr together. `busy` comes on stdout, from any other user of the tool."""
    if not re.match(r"[0-9]{1,2}$", device):
        raise StepError("%r is not a device id" % device)
    tool = shutil.which("hccn_tool", path=ENVIRONMENT["PATH"]) or HCCN_TOOL
    pause = 0.1
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        _, out, err = call(tool, "-i", device, *words)
        text = (out + err).strip()
        if "hccn_tool is busy" not in text:
            return text
        if time.monotonic() + pause > deadline:
            raise StepError("hccn_tool was busy for %d s; something else on this host keeps calling it" % BUSY_SECONDS)
        time.sleep(pause)
        pause = min(2.0, pause * 2)


def hccn_get(device, command, *patterns):
    """The patterns' first groups, or None where the tool says that nothing is set."""
    text = hccn(device, "-" + command, "-g")
    found = [re.search(pattern, text, re.MULTILINE) for pattern in patterns]
    if all(found):
        return [match.group(1) for match in found]
    if not text or "preset there" in text:  # old 910A drivers print nothing
        return None
    raise StepError("hccn_tool -i %s -%s -g: %s" % (device, command, text[-300:]))


def hccn_set(device, command, *words):
    if None in words:
        raise StepError("hccn_tool cannot unset the %s; device %s keeps it until it is reset" % (command, device))
    text = hccn(device, "-" + command, "-s", *words)
    if "successfully" not in text:
        raise StepError("hccn_tool -i %s -%s -s %s: %s" % (device, command, " ".join(words), text[-300:] or "no word"))


def read_device_address(device):
    found = hccn_get(device, "ip", r"^ipaddr:\s*([\d.]+)", r"^netmask:\s*([\d.]+)")
    return found and str(ipaddress.IPv4Interface("/".join(found)))


def write_device_address(device, value):
    interface = value and ipaddress.IPv4Interface(value)
    hccn_set(device, "ip", "address", value and str(interface.ip), "netmask", value and str(interface.netmask))


def read_device_gateway(device):
    found = hccn_get(device, "gateway", r"^default gateway:\s*([\d.]+)")
    return found and found[0]


def write_device_gateway(device, value):
    hccn_set(device, "gateway", "gateway", value)


def read_device_detect(device):
    found = hccn_get(device, "netdetect", r"^netdetect addr(?:ess)?:\s*([\d.]+)")
    return None if not found or found[0] == "0.0.0.0" else found[0]


def write_device_detect(device, value):
    hccn_set(device, "netdetect", "address", value)


KINDS = {
    "device-address": Kind(read_device_address, write_device_address, settle=SETTLE_SECONDS, rewrites=(CONF,)),
    "device-gateway": Kind(read_device_gateway, write_device_gateway, settle=SETTLE_SECONDS, rewrites=(CONF,)),
    "device-detect": Kind(read_device_detect, write_device_detect, settle=SETTLE_SECONDS, rewrites=(CONF,)),
}
