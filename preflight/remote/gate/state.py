"""What changes when a host does: STATE of docs/gate.md. Also used by remote/publish.py.

A look is good for as long as this stays the same; what depends on a part that has changed is tested again."""

import os

FILE_LIMIT = 64 * 1024  # bytes read of one of these files
ASCEND = "/usr/local/Ascend"


def state(root="/"):
    """{"boot", "kernel", "driver", "nics"}; "" where a host has no such thing.

    `root` is for tests: the folder in which the host's files stand."""
    return {
        "boot": text(root, "proc/sys/kernel/random/boot_id"),
        "kernel": text(root, "proc/sys/kernel/osrelease"),
        "driver": driver(root),
        "nics": nics(root),
    }


def text(root, path):
    """The file without the blanks around it, "" where it cannot be read."""
    return content(root, path).decode("utf-8", "replace").strip()


def content(root, path):
    try:
        with open(os.path.join(root, path), "rb") as file:
            return file.read(FILE_LIMIT)
    except OSError:
        return b""


def driver(root="/"):
    """sha256 of the file that names the driver's version: Ascend's or NVIDIA's."""
    for path in (ascend(root).lstrip("/") + "/driver/version.info", "sys/module/nvidia/version"):
        found = content(root, path)
        if found:
            return sha256(found)
    return ""


def ascend(root="/"):
    """Where Ascend's driver is: as its installer says, or in the usual place."""
    for line in text(root, "etc/ascend_install.info").splitlines():
        name, _, place = line.partition("=")
        if name == "Driver_Install_Path_Param" and place.strip():
            return place.strip()
    return ASCEND


def sha256(data):
    """In hexadecimal. Python's own function where it is to be had: hashlib loads OpenSSL, which takes as long as to
    read and judge a verdict."""
    for module in ("_sha256", "_sha2", "hashlib"):
        try:
            return __import__(module).sha256(data).hexdigest()
        except ImportError:
            continue
    raise ImportError("this Python has no sha256")


def nics(root="/"):
    """{name: how often its carrier came or went since boot} of the host's own NICs: those of a device; in a container,
    which has none, all but the loopback."""
    try:
        names = [name for name in sorted(os.listdir(os.path.join(root, "sys/class/net"))) if name != "lo"]
    except OSError:
        return {}
    own = own_nics(root) or names
    counts = {name: text(root, "sys/class/net/%s/carrier_changes" % name) for name in own[:64]}
    return {name: int(count) for name, count in counts.items() if count.isdigit()}


def own_nics(root="/"):
    """The NICs that are a device of the machine: none in a container with a network of its own."""
    folder = os.path.join(root, "sys/class/net")
    try:
        return [name for name in sorted(os.listdir(folder)) if os.path.exists("%s/%s/device" % (folder, name))]
    except OSError:
        return []
