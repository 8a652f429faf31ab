"""Device NICs, through hccn_tool. Its exit codes collide and some failures end with 0, so its text and the values that
it then shows decide. Source: hccn_tool of the 910B driver (internal codes modulo 256).

Calls are made one after the other: if two write at once, the tool refuses one of them. Every setting also goes to
/etc/hccn.conf, from which devices are restored at boot; see hccn_conf.py.
"""

import ipaddress
import re
import shutil
import time

from apply.hccn_conf import CONF, parse_target, prepare_conf, saved_settings, settings_text
from apply.kinds import ChangeKind
from apply.tools import ENVIRONMENT, StepError, call

BUSY_SECONDS = 15  # limit of the retries while hccn_tool is busy
SETTLE_SECONDS = 3  # limit for a device to show a new setting
RESTORING_SECONDS = 30  # limit for a device's restore just after boot
HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
LOG = "/var/log/hccn_tool/hccn_config.log"

# Part of an error message → meaning and remedy.
REFUSALS = (
    (
        "is conflicted",
        "another device on this host has the address, or the driver reserves its range. "
        "Set another address in the inventory",
    ),
    (
        "Inconsistent address and mask",
        "the address is the network address of its network. Set another address in the inventory",
    ),
    ("broadcast address", "the address is the broadcast address of its network. Set another address in the inventory"),
    ("Unable to configure gateway", "a gateway needs a device address. Set an address in the inventory"),
    (
        "segment of configured gateway",
        "the gateway is not in the device's network. Correct the gateway in the inventory",
    ),
    ("mtu you input is out of", "this device does not support the MTU. Change device_mtu in the inventory"),
    ("hccn.conf can't access", CONF + " cannot be read or written"),
    ("permission denied", "hccn_tool needs root"),
    ("not supported on this product", "this product does not support the setting"),
    ("device is not exist", "the host has no such device. Compare the inventory with ls /dev/davinci*"),
    (
        "Control link unreachable",
        "the device's NIC does not respond. Check the device with npu-smi info, then reset it",
    ),
    ("Recovery failed", "the reason is in " + LOG),
)


def hccn(device, *words):
    """Return one call's text, stdout and stderr together. `busy` comes on stdout, caused by any other user of the
    tool."""
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
            message = "hccn_tool was busy for %d s. End the other program on this host that keeps calling hccn_tool"
            raise StepError(message % BUSY_SECONDS)
        time.sleep(pause)
        pause = min(2.0, pause * 2)


def refusal_error(device, words, text):
    """Return the error for a call that did not do what it should have."""
    report = "hccn_tool -i %s %s: %s" % (device, " ".join(words), text[-300:] or "no word")
    meaning = next((meaning for part, meaning in REFUSALS if part in text), "")
    return StepError("%s (%s)" % (meaning, report) if meaning else report)


restored_devices = set()  # devices with a finished restore


def await_restored(device):
    """Wait until the device is restored. At boot, a script in the background restores all devices, and settings made
    meanwhile are lost."""
    deadline = time.monotonic() + RESTORING_SECONDS
    while device not in restored_devices:
        if "status:START" not in hccn(device, "-cfg", "status"):  # an old tool does not know this query
            restored_devices.add(device)
        elif time.monotonic() >= deadline:
            message = "device %s is still being restored from %s after %d s. The details are in %s"
            raise StepError(message % (device, CONF, RESTORING_SECONDS, LOG))
        else:
            time.sleep(0.5)


def hccn_get(device, command, *patterns):
    """Return the patterns' first groups, or None where the tool reports that nothing is set."""
    await_restored(device)
    text = hccn(device, "-" + command, "-g")
    matches = [re.search(pattern, text, re.MULTILINE) for pattern in patterns]
    if all(matches):
        return [match.group(1) for match in matches]
    if not text or "preset there" in text:  # old 910A drivers print nothing
        return None
    raise refusal_error(device, ["-" + command, "-g"], text)


def hccn_do(device, *words):
    prepare_conf()
    text = hccn(device, *words)
    if "successfully" not in text:
        raise refusal_error(device, words, text)


def hccn_set(device, command, *words):
    if None in words:
        raise StepError(
            "hccn_tool cannot remove the %s. Device %s keeps this setting until the next reset" % (command, device)
        )
    hccn_do(device, "-" + command, "-s", *words)


def read_address(device):
    fields = hccn_get(device, "ip", r"^ipaddr:\s*([\d.]+)", r"^netmask:\s*([\d.]+)")
    return fields and str(ipaddress.IPv4Interface("/".join(fields)))


def write_address(device, value):
    """Set the address, and the gateway again if it is in the new network: with its address, a device loses its
    gateway."""
    gateway = value and read_gateway(device)
    interface = value and ipaddress.IPv4Interface(value)
    hccn_set(device, "ip", "address", value and str(interface.ip), "netmask", value and str(interface.netmask))
    is_in_network = gateway and ipaddress.IPv4Address(gateway) in interface.network
    if is_in_network and read_gateway(device) != gateway:
        write_gateway(device, gateway)


def read_gateway(device):
    fields = hccn_get(device, "gateway", r"^default gateway:\s*([\d.]+)")
    return fields and fields[0]


def write_gateway(device, value):
    hccn_set(device, "gateway", "gateway", value)


def read_detect(device):
    fields = hccn_get(device, "netdetect", r"^netdetect addr(?:ess)?:\s*([\d.]+)")
    return None if not fields or fields[0] == "0.0.0.0" else fields[0]


def write_detect(device, value):
    hccn_set(device, "netdetect", "address", value)


def read_mtu(device):
    fields = hccn_get(device, "mtu", r"^mtu:\s*(\d+)")
    return fields and fields[0]


def write_mtu(device, value):
    hccn_set(device, "mtu", "size", value)


# Key of /etc/hccn.conf → reader and writer of that setting on a device.
SETTINGS = {
    "address": (read_address, write_address),
    "gateway": (read_gateway, write_gateway),
    "netdetect": (read_detect, write_detect),
    "mtu": (read_mtu, write_mtu),
}


def read_saved(target):
    device, keys = parse_target(target)
    return settings_text(saved_settings(device), keys)


def write_saved(target, value):
    """Write the file's lines by repeating the device's settings. Raise StepError for another value, which would change
    the device."""
    device, keys = parse_target(target)
    if read_recovery(target) != value:
        raise StepError(
            "the settings of device %s are now %s. Run the same command again" % (device, read_recovery(target))
        )
    for key in keys:
        read, write = SETTINGS[key]
        write(device, read(device))


def read_recovery(target):
    device, keys = parse_target(target)
    return settings_text({key: SETTINGS[key][0](device) for key in keys}, keys)


def write_recovery(target, value):
    device, keys = parse_target(target)
    if settings_text(saved_settings(device), keys) != value:
        raise StepError("%s was changed in the meantime. Run the same command again" % CONF)
    hccn_do(device, "-cfg", "recovery")


def kind(read, write, upsets=()):
    return ChangeKind(read, write, settle=SETTLE_SECONDS, rewrites=(CONF,), upsets=upsets)


KINDS = {
    "device-address": kind(read_address, write_address, upsets=("device-gateway",)),
    "device-gateway": kind(read_gateway, write_gateway),
    "device-detect": kind(read_detect, write_detect),
    "device-mtu": kind(read_mtu, write_mtu),
    "device-saved": kind(read_saved, write_saved),
    "device-recovery": kind(read_recovery, write_recovery),
}
