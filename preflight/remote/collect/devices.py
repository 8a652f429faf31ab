"""The driver's versions, its device nodes, and the accelerators on the PCI bus, whatever the vendor's tools say."""

# ruff: noqa: ARG001  (the sections have one signature)

import grp
import os
import pwd
import stat

from collect.tools import LookError, command, find, listing, read

USUAL = "/usr/local/Ascend"
NODES = ("davinci_manager", "hisi_hdc", "devmm_svm")
PCI_FILES = ("vendor", "device", "class")
HUAWEI, ACCELERATOR = "0x19e5", "0x1200"  # PCI vendor, and class (its first 16 bits): processing accelerators


def look_driver(request, deadline):
    base = installed_in()
    return {name: read(os.path.join(base, name, "version.info")) for name in ("driver", "firmware")}


def installed_in():
    """Where driver and firmware are: as their installer says, or in the usual place."""
    base = USUAL
    for line in (read("/etc/ascend_install.info") or "").splitlines():
        if line.startswith("Driver_Install_Path_Param="):
            base = line.partition("=")[2].strip() or base
    return base


def look_device_nodes(request, deadline):
    numbered = [name for name in listing("/dev") if name[:7] == "davinci" and name[7:].isdigit()]
    nodes = [node("/dev/" + name) for name in [*sorted(numbered, key=lambda name: int(name[7:])), *NODES]]
    tool = find("lspci")
    listed = command([tool, "-D", "-nn", "-d", "19e5:"], deadline) if tool else None
    return {
        "nodes": [found for found in nodes if found],
        "install": read("/etc/ascend_install.info"),
        "lspci": listed,
        "pci": pci_devices() if not listed or listed["code"] else [],
    }


def node(path):
    """The owner and mode of a device node; None where there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LookError("%s cannot be looked at: %s" % (path, error.strerror)) from None
    return {
        "path": path,
        "device": stat.S_ISCHR(found.st_mode),
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "gid": found.st_gid,
        "user": name_of(pwd.getpwuid, found.st_uid),
        "group": name_of(grp.getgrgid, found.st_gid),
    }


def name_of(look_up, number):
    try:
        return look_up(number)[0]
    except KeyError:
        return ""


def pci_devices():
    """[[bus, PCI device id]] of Huawei's accelerators, from the kernel where lspci is missing."""
    found = []
    for bus in sorted(listing("/sys/bus/pci/devices")):
        words = {name: (read("/sys/bus/pci/devices/%s/%s" % (bus, name)) or "").strip() for name in PCI_FILES}
        if words["vendor"] == HUAWEI and words["class"].startswith(ACCELERATOR):
            found.append([bus, words["device"][2:]])
    return found
