"""Accelerators of either vendor, whatever the inventory's product: device nodes and the PCI bus."""

import os
import time

from collect.npu_smi import NPU_SMI
from collect.tools import attempt, device_numbers, find, listing, word

PCI = "/sys/bus/pci/devices"
HUAWEI, NVIDIA = "0x19e5", "0x10de"
CLASSES = {HUAWEI: ("0x1200",), NVIDIA: ("0x0300", "0x0302")}  # processing accelerators; displays and 3D controllers
QUERY_SECONDS = 10


def look_accelerators(request, deadline):
    """Return {"pci": [[vendor, device id]], "npu_nodes", "gpu_nodes", "npu_smi"}.

    The two in the middle are numbers of device nodes. The last is the answer of `npu-smi info`, if there are NPUs and
    no other section runs it.
    """
    npu_nodes, gpu_nodes = len(device_numbers("davinci")), len(device_numbers("nvidia"))
    facts = {"pci": pci_devices(), "npu_nodes": npu_nodes, "gpu_nodes": gpu_nodes, "npu_smi": None}
    npus = npu_nodes or any(vendor == HUAWEI for vendor, _ in facts["pci"])
    tool = find(*NPU_SMI) if npus and "npu_smi" not in request["deadlines"] else None
    if tool:
        facts["npu_smi"] = attempt([tool, "info"], min(deadline, time.monotonic() + QUERY_SECONDS))
    return facts


def pci_devices():
    devices = []
    for bus in sorted(listing(PCI)):
        vendor, kind, device = (word(os.path.join(PCI, bus, name), 20) for name in ("vendor", "class", "device"))
        if kind.startswith(CLASSES.get(vendor, ("no class",))):
            devices.append([vendor, device])
    return devices
