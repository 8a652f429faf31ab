"""Typed facts: what one round trip says about one host. A section is a value or `Missing`; there is no third state.

Field names are the JSON of `preflight facts`. Addresses and networks are text as the tools print them; checks turn
them into `ipaddress` objects. A tuple's order is the order of the source.
"""

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from preflight.facts.parsers.ascend.device_nodes import DeviceNodes
from preflight.facts.parsers.ascend.packages import Package
from preflight.facts.reading import Found
from preflight.facts.reading import Missing as Missing
from preflight.facts.sections.accelerators import Accelerators
from preflight.facts.sections.chips import Chips
from preflight.facts.sections.environment import Environment
from preflight.facts.sections.firewall import Arrivals, Firewall
from preflight.facts.sections.job import Job
from preflight.facts.sections.load import Load
from preflight.facts.sections.naming import Naming
from preflight.facts.sections.neighbours import Neighbours
from preflight.facts.sections.nic import Nic
from preflight.facts.sections.nvidia import Nvidia
from preflight.facts.sections.rdma import Rdma
from preflight.facts.sections.shells import Shells

Reading = Found[str]  # one word that a device says of itself


@dataclass(frozen=True)
class Unreachable:
    """A host that gave no facts at all: the transport's word for why."""

    trouble: str  # a transport's ErrorKind
    summary: str
    remedy: str


@dataclass(frozen=True)
class OwnProcess:
    """A process of preflight on a host. `this_run`: of the run that collected these facts."""

    pid: int
    name: str
    this_run: bool = False


@dataclass(frozen=True)
class Os:
    id: str  # ID of /etc/os-release: debian, ubuntu, openeuler …
    version: str  # VERSION_ID
    kernel: str
    arch: str
    hostname: str
    user: str  # the user the collector ran as
    root: bool
    machine_id: str = ""  # /etc/machine-id; empty: none
    open_run: str = ""  # a run that is changing this host, or was cut off while it did
    remove_ipc: bool | None = None  # logind removes a user's shared memory at its last logout; None: not known
    refused: Unreachable | None = None  # why sudo did not make the collector root, though the inventory asks for it
    preflight: tuple[OwnProcess, ...] = ()  # preflight's processes on the host, without the collector's own
    printed: str = ""  # the last line that the login shell or Python printed before the answer


@dataclass(frozen=True)
class Clock:
    """`offset`: seconds the host is ahead of the controller, taken against the middle of the collector's round trip;
    true within ± `uncertainty` seconds."""

    offset: float
    uncertainty: float


@dataclass(frozen=True)
class SysctlFile:
    """A *.conf file of a folder of sysctl.d(5), or /etc/sysctl.conf, that has to do with
    `net.ipv4.ip_local_reserved_ports`: it sets the key, hides a file of the same name that does, or cannot be read.

    `value` is what its last line for the key sets (None: no line does), `text` the whole file where it mentions the
    key. `writable` is False for files of the distribution (/usr/lib, /lib): never edited."""

    path: str
    value: str | None = None
    text: str = ""
    writable: bool = True
    target: str = ""  # where `path` is a symbolic link: the file it leads to
    error: str = ""  # why it could not be read


@dataclass(frozen=True)
class Tuned:
    """tuned sets the key too, after the boot: `value`, from the profile `source`. With `reapply` (its default), it
    reads the files of /run/sysctl.d, /etc/sysctl.d and /etc/sysctl.conf once more afterwards."""

    profile: str  # names of the active profiles
    source: str
    value: str
    reapply: bool = True
    text: str = ""  # the whole profile
    error: str = ""  # why it is not known what tuned sets


@dataclass(frozen=True)
class Sysctl:
    reserved_ports: str  # net.ipv4.ip_local_reserved_ports as the kernel prints it
    local_port_range: tuple[int, int]
    reserved_files: tuple[SysctlFile, ...]  # folder by folder, a folder that hides another one's files first
    somaxconn: int = 0  # 0: not known
    syn_backlog: int = 0  # net.ipv4.tcp_max_syn_backlog; 0: not known
    open_files: int = 0  # of the whole host, and the most that may be: fs.file-nr; 0: not known
    most_files: int = 0
    read_only: bool = False  # /proc/sys cannot be written at all, as in most containers
    tuned: Tuned | None = None  # None: tuned is not used, or its profile does not set the key


@dataclass(frozen=True)
class Socket:
    """A TCP socket, in any state, whose local port is one of the job's ports."""

    state: str  # LISTEN, ESTAB, TIME-WAIT … in the words of ss
    local_address: str
    local_port: int
    remote_address: str
    remote_port: int
    process: str | None = None  # None: not visible to the user who looked (or none, in TIME-WAIT)
    pid: int | None = None


@dataclass(frozen=True)
class Sockets:
    on_job_ports: tuple[Socket, ...]


@dataclass(frozen=True)
class Interface:
    name: str
    up: bool
    mtu: int
    mac: str
    addresses: tuple[str, ...]  # "10.1.0.11/24", IPv6 too


@dataclass(frozen=True)
class Route:
    destination: str  # "default" or CIDR
    gateway: str | None
    interface: str


@dataclass(frozen=True)
class Network:
    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class Names:
    """How the host resolves names (the files and services it is configured with)."""

    hostname: tuple[str, ...]  # addresses its own name resolves to
    cluster: dict[str, tuple[str, ...]]  # inventory host name → addresses; empty: does not resolve


@dataclass(frozen=True)
class SharedMemory:
    """What /dev/shm is where jobs run. `left`: files of NCCL that no process has mapped, and their bytes."""

    mode: int  # 0o1777
    free: int  # bytes that its user may still take
    left: int = 0
    left_bytes: int = 0


@dataclass(frozen=True)
class Limits:
    nofile_soft: int  # -1: unlimited
    nofile_hard: int
    memlock_soft: int  # bytes, -1: unlimited
    shm_bytes: int  # size of /dev/shm
    stack_soft: int = 0  # bytes, -1: unlimited; 0: not known
    shm: SharedMemory | None = None  # None: not looked at


@dataclass(frozen=True)
class Versions:
    """Versions of what a job loads; None: not installed. Read from metadata and version files, nothing imported."""

    python: str | None  # of the inventory's probe.python, behind probe.setup and wrapper
    torch: str | None
    torch_npu: str | None
    numpy: str | None
    driver: str | None
    firmware: str | None
    cann: str | None
    packages: dict[str, Package] = field(default_factory=dict)  # driver, firmware, cann: as far as their files tell
    unread: dict[str, str] = field(default_factory=dict)  # version file → what of it is not understood


@dataclass(frozen=True)
class HccnDevice:
    """What hccn_tool says of one device."""

    index: int
    address: Reading
    netmask: Reading
    link: Reading  # UP | DOWN
    net_health: Reading  # Success, Init, Fault …
    detect: Reading
    gateway: Reading
    tls: Reading  # "0" disabled, "1" enabled
    config_status: Reading  # SUCCESS, NONE, FAIL …
    leaf: Reading = field(default_factory=Reading)  # LLDP system name of the switch; None: not known
    mtu: Reading = field(default_factory=Reading)


@dataclass(frozen=True)
class Hccn:
    devices: tuple[HccnDevice, ...]


@dataclass(frozen=True)
class HccnConf:
    """/etc/hccn.conf: key_<device>=value lines. `present` False: no such file."""

    present: bool
    entries: dict[str, str]  # "address_0" → "10.0.0.1"
    text: str = ""  # the whole file, so that a fix can keep what it does not change


@dataclass(frozen=True)
class NpuChip:
    device: int  # physical id
    name: str  # 910A, 910B3, Ascend910 …
    health: str
    busy_percent: int | None
    npu: int | None = None  # npu-smi's own number, which `-i` of npu-smi takes
    chip: int = 0  # of its NPU, the `-c` of npu-smi
    bus: str = ""  # "0000:C1:00.0"
    hbm_used: int | None = None  # MB; None: the product has none, or the tool does not tell
    hbm_total: int | None = None
    ddr_used: int | None = None  # MB; 310 and 310P have DDR in the place of HBM, 910A has both
    ddr_total: int | None = None


@dataclass(frozen=True)
class NpuProcess:
    device: int
    pid: int
    name: str
    user: str | None = None  # None: not known on the host (another PID namespace, or it has ended)
    memory: int | None = None  # MB


@dataclass(frozen=True)
class NpuSmi:
    version: str
    chips: tuple[NpuChip, ...]
    processes: tuple[NpuProcess, ...]
    processes_listed: bool = True  # False: the tool prints no process table, or not of all: who is busy is not known


@dataclass(frozen=True)
class HostFacts:
    """All sections of one host. A section that the product does not have is `None`; so is one of DEEP or ON_REQUEST
    that was not asked for."""

    os: Os | Missing
    clock: Clock | Missing
    sysctl: Sysctl | Missing
    sockets: Sockets | Missing
    network: Network | Missing
    firewall: Firewall | Missing
    names: Names | Missing
    limits: Limits | Missing
    versions: Versions | Missing
    environment: Environment | Missing = field(default_factory=lambda: Missing("the facts do not hold it"))
    naming: Naming | Missing = field(default_factory=lambda: Missing("the facts do not hold it"))
    hccn: Hccn | Missing | None = None
    hccn_conf: HccnConf | Missing | None = None
    npu_smi: NpuSmi | Missing | None = None
    nic: Nic | Missing | None = None
    chips: Chips | Missing | None = None
    device_nodes: DeviceNodes | Missing | None = None
    job: Job | Missing | None = None
    load: Load | Missing | None = None
    nvidia: Nvidia | Missing | None = None
    shells: Shells | Missing | None = None
    neighbours: Neighbours | Missing | None = None
    rdma: Rdma | Missing | None = None
    accelerators: Accelerators | Missing | None = None  # None: an older collector
    arrivals: Arrivals | Missing = field(
        default_factory=Arrivals
    )  # what other hosts' looks brought home about this one

    def section(self, name: str) -> Any:
        """A section by its name; raises AttributeError for a name that is none."""
        return getattr(self, name)


SECTIONS = tuple(section.name for section in fields(HostFacts))
DEEP = ("nic", "chips", "device_nodes", "job", "load")  # sections that --basic leaves out
# Sections that are asked for only where the inventory wants them, and what it lacks otherwise.
_NOT_OVER_SSH = "--basic, or [job] of the inventory names no launcher that works over ssh on the hosts themselves"
ON_REQUEST = {"shells": _NOT_OVER_SSH, "neighbours": _NOT_OVER_SSH}


@dataclass(frozen=True)
class ClusterFacts:
    """Facts of all hosts, by name."""

    hosts: dict[str, HostFacts | Unreachable]


@dataclass(frozen=True, slots=True)
class Ping:
    """One ping of the second round, of several packets. `peer` is "node02/3" or "gateway"; `error`: could not look.

    `purpose`: "reach" (does it answer at all), "mtu" (as much data as goes into one packet), "hccs" (`-hccs_ping` to a
    vNIC of Atlas A3, whose answers are known from source only).
    """

    host: str
    device: int
    address: str
    peer: str
    sent: int = 0
    received: int = 0
    milliseconds: float | None = None  # median of the replies
    error: str = ""
    size: int = 0  # bytes of data a packet; 0: the tool's own
    plane_faults: int = 0  # of "hccs": replies that came and whose plane is not well
    purpose: Literal["reach", "mtu", "hccs"] = "reach"
