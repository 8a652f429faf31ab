"""RDMA NICs, and the path between them and the GPUs, from sysfs and /proc. The only program is ibv_devinfo, started
only for a port of InfiniBand: its MTU is in no file."""

# ruff: noqa: ARG001  (the sections have one signature)

import os
import re
import time

from collect.tools import attempt, each, find, listing, word

INFINIBAND = "/sys/class/infiniband"
PCI = "/sys/bus/pci/devices"
OF_DEVICE = ("fw_ver", "hca_type")
OF_PORT = ("state", "phys_state", "rate", "link_layer", "lid", "sm_lid")
COUNTERS = ("counters", "hw_counters")
ATTRIBUTES = ("types", "ndevs")
MOST_DEVICES = 64
MOST_SLOTS = 512  # GIDs of a port
APART = 0.5  # seconds between two readings of the counters
OF_DEVINFO = ("hca_id:", "port:", "state:", "max_mtu:", "active_mtu:", "link_layer:")
VERBS_SECONDS = 3  # limit of ibv_devinfo, which can hang with the firmware
GPU_CLASSES = ("0x0300", "0x0302")
NVIDIA = "0x10de"
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
ACS, MOST_CAPABILITIES = 0x000D, 64


def look_rdma(request, deadline):
    """Return the facts about RDMA NICs. Each device has a thread, so that firmware that hangs costs only itself."""
    all_names = sorted(listing(INFINIBAND))
    names = all_names[:MOST_DEVICES]
    start = time.monotonic()
    texts = each(names, lambda name: lines_of(name, ports), deadline - 1)
    if texts:
        time.sleep(max(0, min(APART, deadline - time.monotonic() - 1)))
    later_texts = each(texts, lambda name: lines_of(name, counters), deadline - 0.5)
    functions = pci_functions(names)
    bridges = sorted({address for entry in functions for address in entry["path"][:-1]})
    return {
        "infiniband": joined(texts),
        "later": joined(later_texts),
        "seconds": time.monotonic() - start,
        "silent": [name for name in names if name not in texts],
        "left_out": len(all_names) - len(names),
        "functions": functions,
        "acs": {address: acs(os.path.join(PCI, address, "config")) for address in bridges},
        **kernel_facts(),
        "devinfo": port_mtus(texts, deadline),
        "dmi": [word("/sys/class/dmi/id/" + name) for name in ("sys_vendor", "product_name")],
    }


def pci_functions(nics):
    """Return the PCI functions of all GPUs and of the NICs."""
    functions = [function("gpu", address, os.path.join(PCI, address)) for address in gpus()]
    functions += [function("nic", name, os.path.join(INFINIBAND, name, "device")) for name in nics]
    return [entry for entry in functions if entry["path"]]  # soft RoCE is on no bus


def kernel_facts():
    """Return the modules, the IOMMUs and the processor's report that matter to the path between NIC and GPU."""
    return {
        "uverbs": sum(name.startswith("uverbs") for name in listing("/dev/infiniband")),
        "peermem": any(os.path.isdir("/sys/module/" + name) for name in ("nvidia_peermem", "nv_peer_mem")),
        "driver": word("/proc/driver/nvidia/version"),
        "iommus": sorted(listing("/sys/class/iommu"))[:MOST_DEVICES],
        "iommu_arguments": [part for part in word("/proc/cmdline").split() if "iommu" in part][:20],
        "hypervisor": is_guest(),
    }


def joined(texts):
    """Return the texts of all devices, in the order of the devices' names."""
    return "".join(texts[name] for name in sorted(texts))


def lines_of(device, files):
    """Return lines like `mlx5_0/ports/1/state: 4: ACTIVE`, as grep -rs would print the files."""
    base = os.path.join(INFINIBAND, device)
    values = ((path, word(os.path.join(base, path))) for path in files(base))
    return "".join("%s/%s: %s\n" % (device, path, value) for path, value in values if value and "\n" not in value)


def port_mtus(texts, deadline):
    """Return the answer of ibv_devinfo about ports; None without it, or without a port of InfiniBand.

    The ports' identities (GUIDs) stay on the host.
    """
    tool = find("ibv_devinfo") if any(": InfiniBand\n" in text for text in texts.values()) else None
    if not tool:
        return None
    answer = attempt([tool], min(deadline - 0.5, time.monotonic() + VERBS_SECONDS))
    lines = [line for line in answer["out"].splitlines(True) if line.strip().startswith(OF_DEVINFO)]
    return dict(answer, out="".join(lines))


def ports(base):
    """Yield the wanted files of a device, as paths below it."""
    yield from OF_DEVICE
    for port in numbers(os.path.join(base, "ports")):
        for name in OF_PORT:
            yield "ports/%s/%s" % (port, name)
        for slot in numbers(os.path.join(base, "ports", port, "gids"))[:MOST_SLOTS]:
            path = "ports/%s/gids/%s" % (port, slot)
            if word(os.path.join(base, path)).strip("0:"):
                yield path
                for name in ATTRIBUTES:
                    yield "ports/%s/gid_attrs/%s/%s" % (port, name, slot)
    yield from counters(base)


def counters(base):
    for port in numbers(os.path.join(base, "ports")):
        for folder in COUNTERS:
            for name in sorted(listing(os.path.join(base, "ports", port, folder))):
                if name != "lifespan":  # the time for which the driver keeps its readings
                    yield "ports/%s/%s/%s" % (port, folder, name)


def numbers(folder):
    return sorted(filter(str.isdigit, listing(folder)), key=int)


def gpus():
    """Yield the PCI addresses of NVIDIA's GPUs."""
    for address in sorted(listing(PCI)):
        kind = word(os.path.join(PCI, address, "class"))
        if kind.startswith(GPU_CLASSES) and word(os.path.join(PCI, address, "vendor")) == NVIDIA:
            yield address


def function(kind, name, link):
    """Return a PCI function. Its bridges are the folders of its path:
    /sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0."""
    return {
        "kind": kind,
        "name": name,
        "path": [part for part in os.path.realpath(link).split("/") if ADDRESS.fullmatch(part)],
        "numa_node": word(os.path.join(link, "numa_node")),
        "iommu": word(os.path.join(link, "iommu_group", "type")),
    }


def acs(path):
    """Return a bridge's ACS control register from its configuration space. 0: it has none. None: only root may read it.

    PCI Express Base Specification: extended capabilities begin at 0x100, each with its id and the offset of the next
    one.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(4096)
    except OSError:
        return None
    if len(data) <= 64:
        return None
    at = 0x100
    for _ in range(MOST_CAPABILITIES):
        if not 0x100 <= at <= len(data) - 8:
            break
        header = int.from_bytes(data[at : at + 4], "little")
        if header & 0xFFFF == ACS:
            return int.from_bytes(data[at + 6 : at + 8], "little")
        at = header >> 20 & 0xFFC
    return 0


def is_guest():
    """Return whether the processors report a hypervisor below them, as those of x86 do."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            head = file.read(64 * 1024)
    except OSError:
        return False
    return any(line.startswith("flags") and " hypervisor" in line for line in head.splitlines())
