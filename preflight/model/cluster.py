"""The cluster as its operator wants it, from the inventory."""

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
    """The accelerator generation of the cluster. A cluster has one."""

    ATLAS_A1 = "atlas-a1"
    ATLAS_A2 = "atlas-a2"
    ATLAS_A3 = "atlas-a3"
    NVIDIA = "nvidia"
    CPU = "cpu"

    @property
    def is_npu(self) -> bool:
        return self.value.startswith("atlas-")


class Fabric(StrEnum):
    """Wiring of the device NICs: through switches, or by fibre between two servers.

    Without switches there is no gateway and no LLDP, and rails do not reach each other.
    """

    SWITCHED = "switched"
    DIRECT = "direct"


class FirewallPolicy(StrEnum):
    """The host firewall that the operator wants: open for the cluster, off, or unmanaged."""

    ALLOW = "allow"
    OFF = "off"
    LEAVE = "leave"


@dataclass(frozen=True)
class Device:
    """One accelerator of a host, as planned by the inventory. `None`: the inventory says nothing."""

    index: int  # physical id: N of /dev/davinciN, the -i of hccn_tool
    address: IPv4Interface | None = None
    gateway: IPv4Address | None = None
    detect: IPv4Address | None = None
    mtu: int | None = None


@dataclass(frozen=True)
class Bastion:
    """A jump host. `user` and `port` fall back to those of `ssh`."""

    host: str
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class Ssh:
    """SSH settings of a host. `None`: those of ~/.ssh/config and of ssh."""

    user: str | None = None
    port: int | None = None
    key: str | None = None  # absolute path of a private key
    known_hosts: str | None = None  # absolute path, instead of ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts
    bastion: Bastion | None = None
    sudo: bool = False  # run host programs through sudo
    transport: str = "fabric"  # fabric | openssh | local


@dataclass(frozen=True)
class ProbeSettings:
    """The environment in which jobs run, and the probe's work there."""

    python: str = "python3"
    setup: str = ""  # a shell line before python, such as `source …/set_env.sh`
    wrapper: tuple[str, ...] = ()  # argv in front of python: docker exec -i X, enroot start …
    user: str = ""  # run as this user through sudo -u
    backend: str = "gloo"  # hccl | nccl | gloo
    transport: str = ""  # NCCL's transport between hosts: ib (RDMA, also RoCE) | socket; "": NCCL's choice
    sizes: tuple[int, ...] = (8, 1 << 20, 16 << 20)  # bytes per rank
    init: str = "store"  # meeting of all ranks: store (preflight's own) | env | tcp | file, as in jobs
    shared_dir: str = ""  # shared by all hosts, for init "file"
    step_deadline: float = 60.0  # seconds that one step may take before its ranks count as hung
    via: str = "ssh"  # way of `preflight probe` to the hosts: ssh | slurm | mpi
    idle: bool = False  # the operator allows to disturb these hosts
    expect: Mapping[str, float] = field(default_factory=dict)  # scope → expected busbw of all_reduce, GB/s


@dataclass(frozen=True)
class HostSetup:
    """Further settings that the operator wants on every host. All are off by default."""

    hosts_file: bool = False  # the cluster's names in /etc/hosts
    memlock: str = ""  # as limits.conf(5) writes it: KiB, or "unlimited"
    nofile: int = 0
    profile: Mapping[str, str] | None = None  # HCCL_* variables on top of those that follow from the inventory


OVER_SSH = frozenset({"mpirun", "perseusrun", "horovodrun", "deepspeed"})


@dataclass(frozen=True)
class JobInputs:
    """Inputs of a job that must be equal on all hosts. Paths are absolute, where jobs run."""

    requirements: tuple[str, ...] = ()  # files, compared by their bytes
    datasets: tuple[str, ...] = ()  # folders, compared by the names and sizes of their files
    project: str = ""  # the folder of its programs, on one file system for all hosts
    imports: tuple[str, ...] = ()  # top-level packages that its programs import
    launcher: str = ""  # its launcher; "": the inventory does not say

    @property
    def over_ssh(self) -> bool:
        """True if the launcher goes from host to host by ssh, without a password."""
        return self.launcher in OVER_SSH


@dataclass(frozen=True)
class Machine:
    """GPUs and NICs of the hosts. None: as preflight knows the model, else as on most hosts."""

    nvlinks: int | None = None
    nvlink_speed: float | None = None  # GB/s of one link, each way
    mig: bool = False  # the GPUs must be divided into MIG instances
    rdma: tuple[str, ...] = ()  # RDMA devices that jobs use, mlx5_0 …; empty: those that are active on most hosts


@dataclass(frozen=True)
class Host:
    """One server. `address` is the SSH target. `nic` is an interface name, or a CIDR that contains its address."""

    name: str
    address: str
    ssh: Ssh = field(default_factory=Ssh)
    nic: str | None = None
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class Waiver:
    """A finding that a person has accepted. It shows as a warning until it expires."""

    check: str
    host: str  # a host name, or "*"
    owner: str
    reason: str
    expires: date


@dataclass(frozen=True)
class Cluster:
    """The inventory, resolved: every host with every device."""

    name: str
    product: Product
    hosts: tuple[Host, ...]
    cidrs: tuple[IPv4Network | IPv6Network, ...] = ()  # networks of its hosts, for which the firewall is opened
    fabric: Fabric = Fabric.SWITCHED
    hccl_ports: PortSet = field(default_factory=PortSet)
    hccl_host_range: str = ""  # HCCL_HOST_SOCKET_PORT_RANGE if jobs set it: the hccl_ports, or "auto" and no port
    job_ports: PortSet = field(default_factory=PortSet)  # all other ports that a job binds
    port_names: Mapping[int, str] = field(default_factory=dict)  # of job_ports: 29500 → "master"; the master's first
    firewall: FirewallPolicy = FirewallPolicy.ALLOW
    firewall_off_at_boot: bool = False  # with policy off: also disable the firewall's service
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    waivers: tuple[Waiver, ...] = ()
    setup: HostSetup = field(default_factory=HostSetup)
    job: JobInputs = field(default_factory=JobInputs)
    gate: GatePolicy = field(default_factory=GatePolicy)
    superpod: bool = False  # the servers (Atlas A3) are in a super-pod
    machine: Machine = field(default_factory=Machine)
    amp: bool = False  # the NPUs (Atlas A1) are in AMP mode, with all addresses in one subnet

    @property
    def ports(self) -> PortSet:
        """All ports that a job binds explicitly on a host. They must be reserved, free, and open."""
        return self.hccl_ports | self.job_ports if self.product.is_npu else self.job_ports

    def purpose(self, port: int) -> str:
        """Return the part of the job that binds one of `ports`, for messages."""
        return "HCCL" if self.product.is_npu and port in self.hccl_ports else self.port_names.get(port, "job")

    @property
    def listens_anywhere(self) -> bool:
        """True if jobs listen on ports that the kernel chooses.

        gloo and NCCL do. HCCL has its own range, unless HCCL_HOST_SOCKET_PORT_RANGE is "auto".
        """
        return not self.product.is_npu or self.hccl_host_range == "auto"

    @cached_property
    def by_name(self) -> Mapping[str, Host]:
        return {host.name: host for host in self.hosts}

    @cached_property
    def planned_for(self) -> Mapping[str, str]:
        """Device address → its planned host."""
        return {str(device.address.ip): host.name for host in self.hosts for device in host.devices if device.address}

    @cached_property
    def host_lines(self) -> tuple[str, ...]:
        """The lines of /etc/hosts for its hosts."""
        return tuple(f"{host.address} {host.name}" for host in self.hosts if host.name != host.address)

    @cached_property
    def ipv4_hosts(self) -> Mapping[str, str]:
        """Host name → address, for hosts that have an IPv4 address in the inventory and no name."""
        return {host.name: host.address for host in self.hosts if is_ipv4(host.address)}

    @property
    def device_count(self) -> int:
        return sum(len(host.devices) for host in self.hosts)
