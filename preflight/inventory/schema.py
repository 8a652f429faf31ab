"""The shape of hosts.toml: one pydantic model a table. Cross-checks between tables are in `resolve`."""

import re
import shlex
from datetime import date
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from preflight.model.cluster import Fabric, FirewallPolicy, Product
from preflight.model.ports import PortSet

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _network(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("should be a network in quotes, such as 10.1.0.0/24")
    try:
        return IPv4Network(value)
    except ValueError as error:
        try:
            meant = IPv4Network(value, strict=False)
        except ValueError:
            raise ValueError(f"{value!r} is not a network such as 10.1.0.0/24") from error
        raise ValueError(f"{value!r} has bits of a host set; the network is {meant}") from error


def _address(value: Any) -> Any:
    try:
        return IPv4Address(value if isinstance(value, str) else "")
    except ValueError as error:
        raise ValueError(f"{value!r} is not an IPv4 address such as 10.1.0.11") from error


def _interface(value: Any) -> Any:
    try:
        if "/" not in value:
            raise ValueError(value)
        return IPv4Interface(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is not an address with its mask, such as 192.168.100.101/24") from error


def _ports(value: Any) -> Any:
    if not isinstance(value, list):
        raise ValueError('should be a list, such as ["29500", "29400-29401"]')
    return PortSet.parse(",".join(str(item) for item in value))


def _size(value: Any) -> Any:
    match = re.fullmatch(r"(\d+) ?(B|KiB|MiB|GiB)", value) if isinstance(value, str) else None
    if match and int(match[1]) * _UNITS[match[2]] >= 8:
        return int(match[1]) * _UNITS[match[2]]
    raise ValueError(f"{value!r} is not a size of at least 8 bytes; write 8B, 64KiB, 1MiB or 1GiB")


def _words(value: Any) -> Any:
    return shlex.split(value) if isinstance(value, str) else value


Network = Annotated[IPv4Network, BeforeValidator(_network)]
Address = Annotated[IPv4Address, BeforeValidator(_address)]
Interface = Annotated[IPv4Interface, BeforeValidator(_interface)]
Ports = Annotated[Any, BeforeValidator(_ports, json_schema_input_type=list[int | str])]
Size = Annotated[int, BeforeValidator(_size, json_schema_input_type=str)]
Words = Annotated[list[StrictStr], BeforeValidator(_words, json_schema_input_type=str | list[str])]
Port = Annotated[StrictInt, Field(ge=1, le=65535)]
DeviceCount = Annotated[StrictInt, Field(ge=0, le=64)]
Text = Annotated[StrictStr, Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ClusterTable(_Table):
    name: Text
    product: Product
    cidrs: list[Network] = []
    fabric: Fabric = Fabric.SWITCHED
    devices: DeviceCount | None = None


class SshTable(_Table):
    user: Text | None = None
    port: Port | None = None
    key: Text | None = None
    known_hosts: Text | None = None
    bastion: Text | None = None
    sudo: StrictBool | None = None
    transport: Literal["fabric", "openssh", "local"] | None = None


class NetworkTable(_Table):
    nic: Text | None = None


class FourSubnets(_Table):
    plan: Literal["four-subnets"]
    subnets: Annotated[list[Network], Field(min_length=4, max_length=4)]
    first: Annotated[StrictInt, Field(ge=1)] = 11
    gateways: Annotated[list[Address], Field(min_length=4, max_length=4)] | None = None
    detect: StrictStr | None = None


class OneSubnet(_Table):
    plan: Literal["one-subnet"]
    subnet: Network
    first: Address | None = None
    gateway: Address | None = None
    detect: StrictStr | None = None


class PortsTable(_Table):
    hccl_base: Annotated[StrictInt, Field(ge=1024, le=65520)] = 60000
    hccl_count: Annotated[StrictInt, Field(ge=1, le=4096)] = 32
    job: Ports = PortSet.parse("29500")


class FirewallTable(_Table):
    policy: FirewallPolicy = FirewallPolicy.ALLOW


class ProbeTable(_Table):
    python: Text = "python3"
    setup: StrictStr = ""
    exec: Words = []
    user: StrictStr = ""
    backend: Literal["hccl", "nccl", "gloo"] | None = None
    sizes: Annotated[list[Size], Field(min_length=1)] = [8, 1 << 20, 16 << 20]
    step_deadline: Annotated[float, Field(gt=0, le=86400)] | None = None
    idle: StrictBool = False


class HostTable(_Table):
    name: Text
    address: Text | None = None
    ssh: SshTable = SshTable()
    nic: Text | None = None
    devices: DeviceCount | None = None
    device_addresses: list[Interface] | None = None
    gateways: list[Address] | None = None
    detect: list[Address] | None = None


class WaiverTable(_Table):
    check: Text
    host: Text
    owner: Text
    reason: Text
    expires: date


class Document(_Table):
    """hosts.toml as a whole."""

    cluster: ClusterTable
    ssh: SshTable = SshTable()
    network: NetworkTable = NetworkTable()
    device_addresses: Annotated[FourSubnets | OneSubnet, Field(discriminator="plan")] | None = None
    ports: PortsTable = PortsTable()
    firewall: FirewallTable = FirewallTable()
    probe: ProbeTable = ProbeTable()
    hosts: Annotated[list[HostTable], Field(min_length=1)]
    waivers: list[WaiverTable] = []
