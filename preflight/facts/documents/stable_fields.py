"""Facts that stay the same on an unchanged host. Comparisons of runs leave out all others.

`RESTLESS` is the only list of fields that comparisons leave out. A test checks its names against the types. All other
fields are compared, so a new field is compared until it is added here.
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
from preflight.facts.sections.neighbours import SshVisit
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

# Times, counters, load, amounts free at the moment, processes, and copies of other fields.
RESTLESS: dict[type, tuple[str, ...]] = {
    HostFacts: ("clock", "sockets", "arrivals"),
    Os: ("open_run", "preflight"),
    Sysctl: ("open_files",),
    Firewall: ("login",),
    SharedMemory: ("free", "left", "left_bytes"),
    Naming: ("reverse", "seconds"),
    SshVisit: ("said",),
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

# Fields that identify an element of a list, as the index does a device. Other lists are compared as a whole.
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
    SshVisit: ("host", "port"),
    Gpu: ("bus",),
    PciGpu: ("bus",),
    GpuNvLinks: ("index",),
    NvLink: ("number",),
    TopologyRow: ("device",),
    RdmaPort: ("device", "port"),
    Gid: ("device", "port", "index"),
    PciFunction: ("name",),
}

# Facts with lists in no fixed order, as resolvers and kernels give them.
UNORDERED = ("names", "naming.localhost", "naming.full_name", "network")

_OF_CONTAINERS = ("veth", "cali", "lxc", "tap", "vnet")  # interfaces that come and go with containers and guests


def is_passing(item: Any) -> bool:
    """Return whether an element of a list exists only while a container or guest runs."""
    return isinstance(item, Interface) and item.name.startswith(_OF_CONTAINERS)


_COUNTED = re.compile(r"packets \d+ bytes \d+|\[\d+:\d+\]")  # of a firewall's rules, where they count


def steady_text(value: Any) -> str:
    """Return a scalar as text, without a firewall's counts."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _COUNTED.sub("counted", str(value))
