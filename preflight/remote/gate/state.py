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
    """sha256 of the file that names the driver's version: Ascend's, where its installer put it, or NVIDIA's."""
    base = ASCEND
    for line in text(root, "etc/ascend_install.info").splitlines():
        if line.startswith("Driver_Install_Path_Param="):
            base = line.partition("=")[2].strip() or base
    for path in (base.lstrip("/") + "/driver/version.info", "sys/module/nvidia/version"):
        found = content(root, path)
        if found:
            from hashlib import sha256

            return sha256(found).hexdigest()
    return ""


def nics(root="/"):
    """{name: how often its carrier came or went since boot} of the host's own NICs: those of a device; in a container,
    which has none, all but the loopback."""
    folder = os.path.join(root, "sys/class/net")
    try:
        names = [name for name in sorted(os.listdir(folder)) if name != "lo"]
    except OSError:
        return {}
    own = [name for name in names if os.path.exists("%s/%s/device" % (folder, name))] or names
    counts = {name: text(root, "sys/class/net/%s/carrier_changes" % name) for name in own[:64]}
    return {name: int(count) for name, count in counts.items() if count.isdigit()}
