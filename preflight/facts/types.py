"""Typed facts of one host from one round trip. A section is a value or `Missing`; there is no third state.

Field names are the JSON of `preflight facts`. Addresses and networks are text as the tools print them. Checks turn them
into `ipaddress` objects. A tuple's order is the order of the source.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from preflight.facts.parsers.ascend.device_nodes import DeviceNodes
from preflight.facts.parsers.ascend.packages import Package
from preflight.facts.reading import NOT_SET, Found
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

Reading = Found[str]  # one word of a tool about a device


@dataclass(frozen=True)
class Unreachable:
    """A host that gave no facts at all, with the transport's reason."""

    trouble: str  # a transport's ErrorKind
    summary: str
    remedy: str
    commands: tuple[str, ...] = ()

    @property
    def fix(self) -> str:
        """Return the remedy with its commands, for a line of text."""
        return ": ".join(filter(None, (self.remedy, "; ".join(self.commands))))


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
    user: str  # the user of the collector
    root: bool
    machine_id: str = ""  # /etc/machine-id; empty: none
    open_run: str = ""  # a run that is changing this host, or was interrupted during its changes
    remove_ipc: bool | None = None  # logind removes a user's shared memory at its last logout; None: not known
    refused: Unreachable | None = None  # why sudo did not make the collector root, though the inventory requests it
    preflight: tuple[OwnProcess, ...] = ()  # preflight's processes on the host, without the collector's own
    printed: str = ""  # the last line that the login shell or Python printed before the answer


@dataclass(frozen=True)
class Clock:
    """The host's clock. `offset`: seconds that it is ahead of the controller's, within ± `uncertainty` seconds.

    It is compared with the middle of the collector's round trip.
    """

    offset: float
    uncertainty: float


@dataclass(frozen=True)
class SysctlFile:
    """A *.conf file of a folder of sysctl.d(5), or /etc/sysctl.conf, about `net.ipv4.ip_local_reserved_ports`.

    It sets the key, hides a file of the same name that does, or cannot be read. `value`: the value in its last line for
    the key (None: no such line). `text`: the whole file, if it mentions the key. `writable` is False for files of the
    distribution (/usr/lib, /lib), which are never edited.
    """

    path: str
    value: str | None = None
    text: str = ""
    writable: bool = True
    target: str = ""  # the target of `path`, if that is a symbolic link
    error: str = ""  # why it could not be read


@dataclass(frozen=True)
class Tuned:
    """The setting of the key by tuned, after the boot: `value`, from the profile `source`.

    With `reapply` (its default), tuned then reads the files of /run/sysctl.d, /etc/sysctl.d and /etc/sysctl.conf again.
    """

    profile: str  # names of the active profiles
    source: str
    value: str
    reapply: bool = True
    text: str = ""  # the whole profile
    error: str = ""  # why tuned's setting is not known


@dataclass(frozen=True)
class Sysctl:
    reserved_ports: str  # net.ipv4.ip_local_reserved_ports as the kernel prints it
    local_port_range: tuple[int, int]
    reserved_files: tuple[SysctlFile, ...]  # folder by folder; a folder comes before others with files that it hides
    somaxconn: int = 0  # 0: not known
    syn_backlog: int = 0  # net.ipv4.tcp_max_syn_backlog; 0: not known
    open_files: int = 0  # of the whole host, from fs.file-nr; 0: not known
    most_files: int = 0  # the host's limit of open files, from fs.file-nr; 0: not known
    read_only: bool = False  # /proc/sys cannot be written at all, as in most containers
    tuned: Tuned | None = None  # None: tuned is not used, or its profile does not set the key


@dataclass(frozen=True)
class Socket:
    """A TCP socket, in any state, on one of the job's ports."""

    state: str  # LISTEN, ESTAB, TIME-WAIT … as ss prints it
    local_address: str
    local_port: int
    remote_address: str
    remote_port: int
    process: str | None = None  # None: not visible to the collector's user (or none, in TIME-WAIT)
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
    """The host's addresses of names, by its configured files and services."""

    hostname: tuple[str, ...]  # addresses that its own name resolves to
    # Inventory host name → addresses, or none if it does not resolve: of the first host, and of names that resolve to
    # other addresses than in the inventory. It has all names if `planned` is 0.
    cluster: dict[str, tuple[str, ...]]
    resolved: int = 0  # names that were resolved
    planned: int = 0  # names in the inventory at that time


@dataclass(frozen=True)
class SharedMemory:
    """The state of /dev/shm in the jobs' view.

    `left`, `left_bytes`: how many files of NCCL no process has mapped, and their bytes.
    """

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
    shm: SharedMemory | None = None  # None: not collected


@dataclass(frozen=True)
class Versions:
    """Versions of the packages that a job loads. None: not installed.

    They are read from metadata and version files, without imports.
    """

    python: str | None  # of the inventory's probe.python, behind probe.setup and wrapper
    torch: str | None
    torch_npu: str | None
    numpy: str | None
    driver: str | None
    firmware: str | None
    cann: str | None
    packages: dict[str, Package] = field(default_factory=dict)  # driver, firmware, cann, if their files have the data
    unread: dict[str, str] = field(default_factory=dict)  # version file → why it is not understood


@dataclass(frozen=True)
class HccnDevice:
    """Readings of hccn_tool for one device."""

    index: int
    address: Reading
    netmask: Reading
    link: Reading  # UP | DOWN
    net_health: Reading  # Success, Init, Fault …
    detect: Reading
    gateway: Reading
    tls: Reading  # "0" disabled, "1" enabled
    config_status: Reading  # SUCCESS, NONE, FAIL …
    leaf: Reading = NOT_SET  # LLDP system name of the switch; None: not known
    mtu: Reading = NOT_SET


@dataclass(frozen=True)
class Hccn:
    devices: tuple[HccnDevice, ...]


@dataclass(frozen=True)
class HccnConf:
    """The file /etc/hccn.conf: key_<device>=value lines. `present` False: no such file."""

    present: bool
    entries: dict[str, str]  # "address_0" → "10.0.0.1"
    text: str = ""  # the whole file, so that a fix can keep what it does not change


@dataclass(frozen=True)
class NpuChip:
    device: int  # physical id
    name: str  # 910A, 910B3, Ascend910 …
    health: str
    busy_percent: int | None
    npu: int | None = None  # npu-smi's own number, for its option `-i`
    chip: int = 0  # the chip's number in its NPU, for the option `-c` of npu-smi
    bus: str = ""  # "0000:C1:00.0"
    hbm_used: int | None = None  # MB; None: the product has none, or the tool does not print it
    hbm_total: int | None = None
    ddr_used: int | None = None  # MB; 310 and 310P have DDR instead of HBM, 910A has both
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
    processes_listed: bool = True  # False: the process table is missing or incomplete, so the busy NPUs are not known


@dataclass(frozen=True)
class HostFacts:
    """All sections of one host.

    A section is `None` if the product does not have it, or if it is in DEEP or ON_REQUEST and was not requested.
    """

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
    arrivals: Arrivals | Missing = field(default_factory=Arrivals)  # connections to this host that other hosts report

    def section(self, name: str) -> Any:
        """Return a section by its name. Raises AttributeError for an unknown name."""
        return getattr(self, name)


SECTIONS = tuple(section.name for section in fields(HostFacts))
DEEP = ("nic", "chips", "device_nodes", "job", "load")  # sections that --basic leaves out
# Sections that are collected only if the inventory requires them, and the reason why they are missing.
_NOT_OVER_SSH = "--basic, or [job] in the inventory names no launcher that works over ssh on the hosts themselves"
ON_REQUEST = {"shells": _NOT_OVER_SSH, "neighbours": _NOT_OVER_SSH}


@dataclass(frozen=True)
class ClusterFacts:
    """The facts of all hosts, by name."""

    hosts: dict[str, HostFacts | Unreachable]
