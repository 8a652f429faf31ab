"""What the inventory says: the cluster as its operator wants it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Network

from preflight.model.gate import GatePolicy
from preflight.model.ip import is_ipv4
from preflight.model.ports import PortSet


class Product(StrEnum):
    """The accelerator generation of the cluster; one cluster has one."""

    ATLAS_A1 = "atlas-a1"
    ATLAS_A2 = "atlas-a2"
    ATLAS_A3 = "atlas-a3"
    NVIDIA = "nvidia"
    CPU = "cpu"

    @property
    def is_npu(self) -> bool:
        return self.value.startswith("atlas-")


class Fabric(StrEnum):
    """How the device NICs are wired: through switches, or by fibre between two servers (no gateway, no LLDP, rails
    do not reach each other)."""

    SWITCHED = "switched"
    DIRECT = "direct"


class FirewallPolicy(StrEnum):
    """What the operator wants of the host firewall: open for the cluster, off, or left alone."""

    ALLOW = "allow"
    OFF = "off"
    LEAVE = "leave"


@dataclass(frozen=True)
class Device:
    """One accelerator of a host as the inventory plans it; `None` where the inventory says nothing."""

    index: int  # physical id: N of /dev/davinciN, the -i of hccn_tool
    address: IPv4Interface | None = None
    gateway: IPv4Address | None = None
    detect: IPv4Address | None = None
    mtu: int | None = None


@dataclass(frozen=True)
class Bastion:
    """A jump host. `user` and `port` fall back to what `ssh` itself would use."""

    host: str
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class Ssh:
    """How a host is reached. `None` means: as ~/.ssh/config and ssh's defaults have it."""

    user: str | None = None
    port: int | None = None
    key: str | None = None  # absolute path of a private key
    known_hosts: str | None = None  # absolute path, instead of ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts
    bastion: Bastion | None = None
    sudo: bool = False  # run host programs through sudo
    transport: str = "fabric"  # fabric | openssh | local


@dataclass(frozen=True)
class ProbeSettings:
    """How the probe gets to the place where jobs really run, and what it runs there."""

    python: str = "python3"
    setup: str = ""  # a shell line before python, such as `source …/set_env.sh`
    wrapper: tuple[str, ...] = ()  # argv in front of python: docker exec -i X, enroot start …
    user: str = ""  # run as this user through sudo -u
    backend: str = "gloo"  # hccl | nccl | gloo
    transport: str = ""  # by which NCCL is to send between hosts: ib (RDMA, RoCE too) | socket; "": whichever it takes
    sizes: tuple[int, ...] = (8, 1 << 20, 16 << 20)  # bytes per rank
    init: str = "store"  # how all ranks together meet: store (preflight's own) | env | tcp | file, as jobs do
    shared_dir: str = ""  # of all hosts, for init "file"
    step_deadline: float = 60.0  # seconds a single step may take before its ranks are called missing
    via: str = "ssh"  # how `preflight probe` reaches hosts: ssh | slurm | mpi
    idle: bool = False  # the operator says: these hosts are ours, disturbing them is fine
    expect: Mapping[str, float] = field(default_factory=dict)  # scope → GB/s of busbw that all_reduce is to have


@dataclass(frozen=True)
class HostSetup:
    """What else the operator wants on every host; nothing unless asked for."""

    hosts_file: bool = False  # the cluster's names in /etc/hosts
    memlock: str = ""  # as limits.conf(5) writes it: KiB, or "unlimited"
    nofile: int = 0
    profile: Mapping[str, str] | None = None  # HCCL_* variables on top of those that follow from the inventory


OVER_SSH = frozenset({"mpirun", "perseusrun", "horovodrun", "deepspeed"})


@dataclass(frozen=True)
class JobInputs:
    """What a job reads and what has to be the same on all hosts; absolute paths where jobs run."""

    requirements: tuple[str, ...] = ()  # files, compared by their bytes
    datasets: tuple[str, ...] = ()  # folders, compared by the names and sizes of what is in them
    project: str = ""  # the folder of its programs, to be of one file system on all hosts
    imports: tuple[str, ...] = ()  # top-level packages that its programs import
    launcher: str = ""  # what starts it; "": the inventory does not say

    @property
    def over_ssh(self) -> bool:
        """Whether the launcher gets from host to host by ssh, without a password."""
        return self.launcher in OVER_SSH


@dataclass(frozen=True)
class Machine:
    """What the operator says of the hosts' GPUs and NICs. None: as preflight knows the model, else as most have it."""

    nvlinks: int | None = None
    nvlink_speed: float | None = None  # GB/s of one link, each way
    mig: bool = False  # the GPUs are to be cut into MIG instances
    rdma: tuple[str, ...] = ()  # RDMA devices that jobs use, mlx5_0 …; empty: those that are active on most hosts


@dataclass(frozen=True)
class Host:
    """One server. `address` is what is connected to; `nic` is an interface name or a CIDR that names one."""

    name: str
    address: str
    ssh: Ssh = field(default_factory=Ssh)
    nic: str | None = None
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class Waiver:
    """A finding that a person has accepted: shown as a warning until it expires."""

    check: str
    host: str  # a host name, or "*"
    owner: str
    reason: str
    expires: date


@dataclass(frozen=True)
class Cluster:
    """The inventory, read and resolved: every host with every device written out."""

    name: str
    product: Product
    hosts: tuple[Host, ...]
    cidrs: tuple[IPv4Network | IPv6Network, ...] = ()  # of its hosts; the firewall is opened for these
    fabric: Fabric = Fabric.SWITCHED
    hccl_ports: PortSet = field(default_factory=PortSet)
    hccl_host_range: str = ""  # HCCL_HOST_SOCKET_PORT_RANGE where jobs set it: the hccl_ports, or "auto" and no port
    job_ports: PortSet = field(default_factory=PortSet)  # all others that a job binds
    port_names: Mapping[int, str] = field(default_factory=dict)  # of job_ports: 29500 → "master"; the master's first
    firewall: FirewallPolicy = FirewallPolicy.ALLOW
    firewall_off_at_boot: bool = False  # with policy off: disable the firewall's service, too
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    waivers: tuple[Waiver, ...] = ()
    setup: HostSetup = field(default_factory=HostSetup)
    job: JobInputs = field(default_factory=JobInputs)
    gate: GatePolicy = field(default_factory=GatePolicy)
    superpod: bool = False  # the servers (of Atlas A3) stand in a super-pod
    machine: Machine = field(default_factory=Machine)
    amp: bool = False  # the NPUs (of Atlas A1) are in AMP mode: their addresses are planned in one subnet

    @property
    def ports(self) -> PortSet:
        """All ports that a job binds explicitly on a host: to be reserved, free, and let through."""
        return self.hccl_ports | self.job_ports if self.product.is_npu else self.job_ports

    def purpose(self, port: int) -> str:
        """Who of the job binds one of `ports`, for messages."""
        return "HCCL" if self.product.is_npu and port in self.hccl_ports else self.port_names.get(port, "job")

    @property
    def listens_anywhere(self) -> bool:
        """Whether jobs listen on ports that the kernel chooses: gloo and NCCL do; HCCL has a range of its own, unless
        HCCL_HOST_SOCKET_PORT_RANGE is "auto"."""
        return not self.product.is_npu or self.hccl_host_range == "auto"

    @cached_property
    def planned_for(self) -> Mapping[str, str]:
        """Device address → the host that it is planned for."""
        return {str(device.address.ip): host.name for host in self.hosts for device in host.devices if device.address}

    @cached_property
    def host_lines(self) -> tuple[str, ...]:
        """The lines of /etc/hosts that name its hosts."""
        return tuple(f"{host.address} {host.name}" for host in self.hosts if host.name != host.address)

    @cached_property
    def ipv4_hosts(self) -> Mapping[str, str]:
        """Host name → address, of the hosts whose address in the inventory is one of IPv4 and no name."""
        return {host.name: host.address for host in self.hosts if is_ipv4(host.address)}

    @property
    def device_count(self) -> int:
        return sum(len(host.devices) for host in self.hosts)
