"""State of a host that a verdict depends on: STATE of docs/gate.md. Also used by remote/publish.py.

A run is valid as long as the state stays the same. Checks that depend on a changed part run again.
"""

import os

FILE_LIMIT = 64 * 1024  # bytes read of one of these files
ASCEND = "/usr/local/Ascend"


def state(root="/"):
    """Return {"boot", "kernel", "driver", "nics"}; "" where a host lacks one of them.

    `root` is the folder of the host's files, for tests.
    """
    return {
        "boot": text(root, "proc/sys/kernel/random/boot_id"),
        "kernel": text(root, "proc/sys/kernel/osrelease"),
        "driver": driver(root),
        "nics": nics(root),
    }


def text(root, path):
    """Return the file without the blanks around it, "" where it cannot be read."""
    return content(root, path).decode("utf-8", "replace").strip()


def content(root, path):
    try:
        with open(os.path.join(root, path), "rb") as file:
            return file.read(FILE_LIMIT)
    except OSError:
        return b""


def driver(root="/"):
    """Return the sha256 of the file with the driver's version: Ascend's or NVIDIA's."""
    for path in (ascend(root).lstrip("/") + "/driver/version.info", "sys/module/nvidia/version"):
        data = content(root, path)
        if data:
            return sha256(data)
    return ""


def ascend(root="/"):
    """Return the path of Ascend's driver: the one that its installer recorded, or the usual place."""
    for line in text(root, "etc/ascend_install.info").splitlines():
        name, _, place = line.partition("=")
        if name == "Driver_Install_Path_Param" and place.strip():
            return place.strip()
    return ASCEND


def sha256(data):
    """Return the sha256 in hexadecimal, from Python's own function where there is one. hashlib loads OpenSSL, which
    takes as long as reading and judging a verdict."""
    for module in ("_sha256", "_sha2", "hashlib"):
        try:
            return __import__(module).sha256(data).hexdigest()
        except ImportError:
            continue
    raise ImportError("this Python has no sha256")


def nics(root="/"):
    """Return {name: how often its carrier came or went since boot} of the host's own NICs, which belong to a device. A
    container has none: then all but the loopback count."""
    try:
        names = [name for name in sorted(os.listdir(os.path.join(root, "sys/class/net"))) if name != "lo"]
    except OSError:
        return {}
    own_names = own_nics(root) or names
    counts = {name: text(root, "sys/class/net/%s/carrier_changes" % name) for name in own_names[:64]}
    return {name: int(count) for name, count in counts.items() if count.isdigit()}


def own_nics(root="/"):
    """Return the NICs that are a device of the machine: none in a container with its own network."""
    folder = os.path.join(root, "sys/class/net")
    try:
        return [name for name in sorted(os.listdir(folder)) if os.path.exists("%s/%s/device" % (folder, name))]
    except OSError:
        return []
