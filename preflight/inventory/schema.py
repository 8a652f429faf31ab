"""Schema of hosts.toml: one pydantic model for each table. `contradictions` compares the tables with each other."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from preflight.inventory.fields import (
    Address,
    Age,
    Bandwidth,
    BastionText,
    Checks,
    Day,
    Detect,
    DeviceCount,
    DrainAtMost,
    FilePath,
    HostRange,
    Interface,
    Launcher,
    Limits,
    Line,
    Login,
    LoginOrNone,
    Modules,
    Mtu,
    Names,
    Network,
    NetworkOfHosts,
    Nic,
    Port,
    Ports,
    Profile,
    RdmaDevices,
    RemoteFolder,
    RemotePath,
    RemotePaths,
    Seconds,
    Size,
    Text,
    Words,
)
from preflight.model.cluster import Fabric, FirewallPolicy, Product
from preflight.model.gate import UNKNOWN, Context, DrainLimit, GatePolicy, Unknown
from preflight.model.ports import PortSet

LAST_PORT = 65535
NAMED_PORTS = ("master", "rendezvous", "mindspore", "volcano")
ARRAYS_OF_TABLES = ("hosts", "waivers")


class _SchemaTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ClusterTable(_SchemaTable):
    name: Text
    product: Product
    cidrs: list[NetworkOfHosts] = []
    fabric: Fabric = Fabric.SWITCHED
    devices: DeviceCount | None = None
    superpod: StrictBool = False
    device_mtu: Mtu | None = None


class MachineTable(_SchemaTable):
    """NVLinks and MIG mode of every GPU, and the RDMA devices that jobs use.

    Missing values come from preflight's data about the model, or from the majority of the hosts.
    """

    nvlinks: Annotated[StrictInt, Field(ge=0, le=64)] | None = None
    nvlink_speed: Bandwidth | None = None
    mig: StrictBool = False
    rdma: RdmaDevices = ()


class SshTable(_SchemaTable):
    user: Login | None = None
    port: Port | None = None
    key: FilePath | None = None
    known_hosts: FilePath | None = None
    bastion: BastionText | None = None
    sudo: StrictBool | None = None
    transport: Literal["fabric", "openssh", "local"] | None = None


class NetworkTable(_SchemaTable):
    nic: Nic | None = None


class _AddressPlan(_SchemaTable):
    """Common part of both plans: the place of each host among the addresses.

    `by` "order" uses the hosts' order in the file. `by` "name" uses the number in the host's name, or its `slot`;
    a host then keeps its addresses when others are added. `first_host` is the number of the first host.
    """

    by: Literal["order", "name"] = "order"
    first_host: Annotated[StrictInt, Field(ge=0)] = 1
    detect: Detect | None = None


class FourSubnets(_AddressPlan):
    """Plan for Atlas A1 in SMP mode: devices j and j + 4 share subnet j."""

    plan: Literal["four-subnets"]
    subnets: Annotated[list[Network], Field(min_length=4, max_length=4)]
    first: Annotated[StrictInt, Field(ge=1)] = 11
    gateways: Annotated[list[Address], Field(min_length=4, max_length=4)] | None = None


class OneSubnet(_AddressPlan):
    """Plan with consecutive addresses by host and device. `per_host` is the number of addresses a host, `by` name."""

    plan: Literal["one-subnet"]
    subnet: Network
    first: Address | None = None
    gateway: Address | None = None
    per_host: Annotated[StrictInt, Field(ge=1, le=64)] = 16


class PortsTable(_SchemaTable):
    hccl_base: Annotated[StrictInt, Field(ge=1024, le=65520)] = 60000
    hccl_count: Annotated[StrictInt, Field(ge=1, le=4096)] = 32
    hccl_host_range: HostRange | None = None
    master: Port = 29500
    rendezvous: Port | None = None
    mindspore: Port | None = None
    volcano: Port | None = None
    job: Ports = PortSet()

    @property
    def hccl(self) -> PortSet:
        """Return the host ports that HCCL binds, without numbers above the last port."""
        if self.hccl_host_range is not None:
            return self.hccl_host_range if isinstance(self.hccl_host_range, PortSet) else PortSet()
        return PortSet.of([(self.hccl_base, min(self.hccl_base + self.hccl_count - 1, LAST_PORT))])

    @property
    def named(self) -> dict[int, str]:
        """Return port → key; for two keys with one port, the first."""
        named = {getattr(self, key): key for key in reversed(NAMED_PORTS) if getattr(self, key) is not None}
        return dict(reversed(named.items()))


class FirewallTable(_SchemaTable):
    policy: FirewallPolicy = FirewallPolicy.ALLOW
    disable_at_boot: StrictBool = False


class HostSetupTable(_SchemaTable):
    hosts_file: StrictBool = False
    limits: Limits = {}
    profile: Profile = None


class ExpectTable(_SchemaTable):
    """Expected bus bandwidth in GB/s, by the probe's scopes."""

    pair: Bandwidth | None = None
    rail: Bandwidth | None = None
    host: Bandwidth | None = None
    all: Bandwidth | None = None


class ProbeTable(_SchemaTable):
    python: Text = "python3"
    setup: Line = ""
    exec: Words = []
    user: LoginOrNone = ""
    backend: Literal["hccl", "nccl", "gloo"] | None = None
    transport: Literal["ib", "socket"] | None = None
    sizes: Annotated[list[Size], Field(min_length=1)] = [8, 1 << 20, 16 << 20]
    init: Literal["store", "env", "tcp", "file"] = "store"
    shared_dir: RemoteFolder | None = None
    step_deadline: Seconds | None = None
    via: Literal["ssh", "slurm", "mpi"] = "ssh"
    idle: StrictBool = False
    expect: ExpectTable = ExpectTable()


class JobTable(_SchemaTable):
    requirements: RemotePaths = ()
    datasets: RemotePaths = ()
    project: RemotePath | None = None
    imports: Modules = ()
    launcher: Launcher | None = None


class UnknownTable(_SchemaTable):
    """Policy for a job on a host with an unknown verdict, by the caller of the gate."""

    prolog: Unknown = UNKNOWN[Context.PROLOG]
    epilog: Unknown = UNKNOWN[Context.EPILOG]
    task: Unknown = UNKNOWN[Context.TASK]
    health: Unknown = UNKNOWN[Context.HEALTH]
    controller: Unknown = UNKNOWN[Context.CONTROLLER]
    job: Unknown = UNKNOWN[Context.JOB]
    init: Unknown = UNKNOWN[Context.INIT]


class GateTable(_SchemaTable):
    max_age: Age = GatePolicy.max_age
    probe_max_age: Age = GatePolicy.probe_max_age
    need_probe: StrictBool = False
    required: Checks = ()
    optional: Checks = ()
    off: Checks = ()
    unknown: UnknownTable = UnknownTable()
    drain_at_most: DrainAtMost = DrainLimit()
    undrain: StrictBool = False
    requeues: Annotated[StrictInt, Field(ge=0, le=100)] = GatePolicy.requeues


class HostTable(_SchemaTable):
    name: Names
    address: Names | None = None
    ssh: SshTable = SshTable()
    nic: Nic | None = None
    devices: DeviceCount | None = None
    slot: Annotated[StrictInt, Field(ge=0)] | None = None
    device_addresses: list[Interface] | None = None
    gateways: list[Address] | None = None
    detect: list[Address] | None = None

    @property
    def range_fits(self) -> bool:
        """Return true unless the range of addresses has another length than the range of names."""
        return not self.address or len(self.address) == len(self.name)


class WaiverTable(_SchemaTable):
    check: Text
    host: Text
    owner: Text
    reason: Text
    expires: Day


class Document(_SchemaTable):
    """The whole hosts.toml."""

    cluster: ClusterTable
    machine: MachineTable = MachineTable()
    ssh: SshTable = SshTable()
    network: NetworkTable = NetworkTable()
    device_addresses: Annotated[FourSubnets | OneSubnet, Field(discriminator="plan")] | None = None
    ports: PortsTable = PortsTable()
    firewall: FirewallTable = FirewallTable()
    host_setup: HostSetupTable = HostSetupTable()
    probe: ProbeTable = ProbeTable()
    job: JobTable = JobTable()
    gate: GateTable = GateTable()
    hosts: Annotated[list[HostTable], Field(min_length=1)]
    waivers: list[WaiverTable] = []
