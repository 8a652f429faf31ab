"""Which facts stay as they are while nobody changes anything: the others say nothing about what changed.

`RESTLESS` is the one list of fields that are left out of a comparison. A test holds its names against the types. All
that is not in it is compared, so that a field that is added later is compared until somebody puts it here.
"""

import re
from typing import Any

from preflight.facts.parsers.ascend.device_nodes import Accelerator, DeviceNode
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Clocks, Ecc, Gpu, Gpus, Pcie, Power
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink import GpuNvLinks, NvLink, NvLinks
from preflight.facts.parsers.nvidia.nvidia_smi.topology import GpuTopology, TopologyRow
from preflight.facts.parsers.rdma.gids import Gid
from preflight.facts.parsers.rdma.port import RdmaPort
from preflight.facts.sections.chips import Chip, Hccs, Usages
from preflight.facts.sections.firewall import Firewall, IptablesChain, NftChain, SavedRules, Zone
from preflight.facts.sections.load import Load
from preflight.facts.sections.naming import Naming
from preflight.facts.sections.neighbours import Visit
from preflight.facts.sections.nic import NicDevice, Optics
from preflight.facts.sections.nvidia import Nvidia, PciGpu
from preflight.facts.sections.rdma import PciFunction, Rdma
from preflight.facts.types import (
    HccnConf,
    HccnDevice,
    HostFacts,
    Interface,
    NpuChip,
    NpuSmi,
    Os,
    SharedMemory,
    Sysctl,
    SysctlFile,
)

# Times, counters, load, what is free at the moment, processes; and what stands in another field, too.
RESTLESS: dict[type, tuple[str, ...]] = {
    HostFacts: ("clock", "sockets", "arrivals"),
    Os: ("open_run", "preflight"),
    Sysctl: ("open_files",),
    Firewall: ("login",),
    SharedMemory: ("free", "left", "left_bytes"),
    Naming: ("reverse", "seconds"),
    Visit: ("said",),
    Load: ("wanted", "others", "seconds", "busiest"),
    HccnConf: ("text",),  # its lines are `entries`
    NpuSmi: ("processes",),
    NpuChip: ("busy_percent", "hbm_used", "ddr_used"),
    NicDevice: ("history", "packets", "resources", "arp", "bandwidth"),
    Optics: ("temperature", "tx_power", "rx_power"),
    Usages: ("hbm", "aicore"),
    Hccs: ("retries", "errors", "first_error_lane"),
    Nvidia: ("log", "nvlink_errors"),
    Gpus: ("unread",),
    Gpu: (
        "performance_state",
        "slowed_by",
        "memory_used",
        "temperature",
        "memory_temperature",
        "processes",
    ),
    Pcie: ("generation", "replays"),  # an idle link slows down
    Power: ("draw",),
    Clocks: ("sm", "memory"),
    Ecc: ("volatile", "aggregate"),
    NvLinks: ("unread",),
    GpuTopology: ("unread",),
    Rdma: ("counters", "later", "seconds", "unread", "mtu_unread"),
}

# What an element of a list is known by, a device by its number; other lists are compared as a whole.
KNOWN_BY: dict[type, tuple[str, ...]] = {
    HccnDevice: ("index",),
    NicDevice: ("index",),
    NpuChip: ("device",),
    Chip: ("device",),
    Interface: ("name",),
    SysctlFile: ("path",),
    NftChain: ("family", "table", "name"),
    IptablesChain: ("program",),
    SavedRules: ("path",),
    Zone: ("name",),
    DeviceNode: ("path",),
    Accelerator: ("bus",),
    Visit: ("host", "port"),
    Gpu: ("bus",),
    PciGpu: ("bus",),
    GpuNvLinks: ("index",),
    NvLink: ("number",),
    TopologyRow: ("device",),
    RdmaPort: ("device", "port"),
    Gid: ("device", "port", "index"),
    PciFunction: ("name",),
}

# Whose lists have no order: resolvers and kernels give them as they come.
UNORDERED = ("names", "naming.localhost", "naming.full_name", "network")

_OF_CONTAINERS = ("veth", "cali", "lxc", "tap", "vnet")  # interfaces that come and go with containers and guests


def is_passing(item: Any) -> bool:
    """Of a list: what is there while a container or guest runs."""
    return isinstance(item, Interface) and item.name.startswith(_OF_CONTAINERS)


_COUNTED = re.compile(r"packets \d+ bytes \d+|\[\d+:\d+\]")  # of a firewall's rules, where they count


def steady_text(value: Any) -> str:
    """A scalar in the words of a comparison."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _COUNTED.sub("counted", str(value))
