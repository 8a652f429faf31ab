"""Versions of the driver, its device nodes, and the accelerators on the PCI bus, without the vendor's tools."""

# ruff: noqa: ARG001  (the sections have one signature)

import grp
import os
import pwd
import stat
import time

from collect.tools import LookError, attempt, device_numbers, find, listing, read

USUAL = "/usr/local/Ascend"
NODES = ("davinci_manager", "hisi_hdc", "devmm_svm")
PCI_FILES = ("vendor", "device", "class")
INSTALL = "/etc/ascend_install.info"
LSPCI_SECONDS = 5  # a call that hangs leaves time for the rest of the section
HUAWEI, ACCELERATOR = "0x19e5", "0x1200"  # PCI vendor, and class (its first 16 bits): processing accelerators


def look_driver(request, deadline):
    base = installed_in()
    return {name: read(os.path.join(base, name, "version.info")) for name in ("driver", "firmware")}


def installed_in():
    """Return the folder of driver and firmware: the one that their installer recorded, or the usual place."""
    base = USUAL
    for line in (installed()[0] or "").splitlines():
        if line.startswith("Driver_Install_Path_Param="):
            base = line.partition("=")[2].strip() or base
    return base


def installed():
    """Return the text of INSTALL, and the reason if it cannot be read. In a container it may be a directory, which an
    engine creates where the host has no such file."""
    try:
        return read(INSTALL), ""
    except LookError as error:
        return None, str(error)


def look_device_nodes(request, deadline):
    names = ["davinci%d" % number for number in sorted(device_numbers("davinci"))]
    nodes = [node("/dev/" + name) for name in [*names, *NODES]]
    tool = find("lspci")
    lspci_deadline = min(deadline, time.monotonic() + LSPCI_SECONDS)
    lspci = attempt([tool, "-D", "-nn", "-d", "19e5:"], lspci_deadline) if tool else None
    install, trouble = installed()
    return {
        "nodes": [entry for entry in nodes if entry],
        "install": install,
        "install_trouble": trouble,
        "lspci": lspci,
        "pci": pci_devices() if not lspci or lspci["code"] else [],
    }


def node(path):
    """Return the owner and mode of a device node; None where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LookError("%s cannot be checked: %s" % (path, error.strerror)) from None
    return {
        "path": path,
        "device": stat.S_ISCHR(status.st_mode),
        "mode": stat.S_IMODE(status.st_mode),
        "uid": status.st_uid,
        "gid": status.st_gid,
        "user": name_of(pwd.getpwuid, status.st_uid),
        "group": name_of(grp.getgrgid, status.st_gid),
    }


def name_of(look_up, number):
    try:
        return look_up(number)[0]
    except KeyError:
        return ""


def pci_devices():
    """Return [[bus, PCI device id]] of Huawei's accelerators, from the kernel where lspci is missing."""
    devices = []
    for bus in sorted(listing("/sys/bus/pci/devices")):
        values = {name: (read("/sys/bus/pci/devices/%s/%s" % (bus, name)) or "").strip() for name in PCI_FILES}
        if values["vendor"] == HUAWEI and values["class"].startswith(ACCELERATOR):
            devices.append([bus, values["device"][2:]])
    return devices
