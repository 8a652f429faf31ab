"""Types of single values in hosts.toml: text, ports, addresses, sizes. A wrong value raises ValueError."""

import re
import shlex
from datetime import date
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, StrictInt, StrictStr

from preflight.inventory.errors import shown
from preflight.inventory.hostset import expand
from preflight.model.cluster import Bastion
from preflight.model.gate import DrainLimit
from preflight.model.ports import PortSet

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_LARGEST_SIZE = 64 << 30  # bytes: no device has more memory for one tensor
_MOST_FILES = 1048576  # default of fs.nr_open in Linux
_MOST_NODES = 65536  # hosts of an inventory
_LONGEST_DEADLINE = 86400.0  # seconds
_FASTEST = 10000.0  # GB/s
_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # seconds
_LEAST_AGE, _MOST_AGE = 60, 365 * 86400  # seconds for which a verdict is valid
_BASTION = re.compile(
    r"(?:(?P<user>[^@:\s-][^@:\s]*)@)?(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?"
)


def _printable(value: str) -> str:
    if value.isprintable():
        return value
    wrong = next(character for character in value if not character.isprintable())
    raise ValueError(f"{shown(value)} has an unprintable character: {wrong!r}")


def _login(value: str) -> str:
    if re.fullmatch(r"[^\s:-][^\s:]*", value):
        return value
    raise ValueError(f"{shown(value)} is not a user name")


def _login_or_none(value: str) -> str:
    return _login(value) if value else ""


def _at_home(value: str) -> str:
    try:
        return str(Path(value).expanduser())
    except RuntimeError as error:
        raise ValueError(f"{shown(value)}: there is no such home directory") from error


N = TypeVar("N", IPv4Network, IPv6Network)


def _network(value: Any) -> IPv4Network:
    return _parse_network(IPv4Network, value, "10.1.0.0/24")


def _network_of_hosts(value: Any) -> IPv4Network | IPv6Network:
    if isinstance(value, str) and ":" in value:
        return _parse_network(IPv6Network, value, "10.1.0.0/24 or fd00:1::/64")
    return _network(value)


def _parse_network(kind: type[N], value: Any, example: str) -> N:
    text = value if isinstance(value, str) else ""
    try:
        return kind(text)
    except ValueError as error:
        try:
            corrected = kind(text, strict=False)
        except ValueError:
            raise ValueError(f"{shown(value)} is not a network such as {example}") from error
        raise ValueError(f"{shown(value)} has host bits set. The network is {corrected}.") from error


def _address(value: Any) -> IPv4Address:
    try:
        return IPv4Address(value if isinstance(value, str) else "")
    except ValueError as error:
        raise ValueError(f"{shown(value)} is not an IPv4 address such as 10.1.0.11") from error


def _interface(value: Any) -> IPv4Interface:
    try:
        if isinstance(value, str) and re.fullmatch(r"[0-9.]+/[0-9]+", value):
            return IPv4Interface(value)
    except ValueError:
        pass
    raise ValueError(f"{shown(value)} is not an address with a prefix length, such as 192.168.100.101/24")


def _detect(value: Any) -> str | IPv4Address:
    if value in ("gateway", "next-host"):
        return str(value)
    try:
        return _address(value)
    except ValueError as error:
        raise ValueError(f'{shown(value)} is neither "gateway", "next-host" nor an address') from error


def _nic(value: str) -> str:
    """Return an interface name that the kernel accepts (`dev_valid_name` in net/core/dev.c), or a network."""
    if "/" in value:
        return str(_network(value))
    if re.fullmatch(r"[^\s:-][^\s:]{0,14}", value) and value not in (".", ".."):
        return value
    raise ValueError(f"{shown(value)} is neither an interface such as eth0 nor a network such as 10.1.0.0/24")


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise ValueError(f"should be text in quotes, found {shown(value)}")
    return expand(value)


def _bastion(value: Any) -> Bastion:
    match = _BASTION.fullmatch(value) if isinstance(value, str) else None
    if not match or (match["port"] and not 1 <= int(match["port"]) <= 65535):
        raise ValueError(f"{shown(value)} should look like user@jump.example:22, with an IPv6 address in brackets")
    (host,) = expand(match["v6"] or match["host"])
    return Bastion(host, match["user"], int(match["port"]) if match["port"] else None)


def _ports(value: Any) -> PortSet:
    items = _listed(value, '["29500", "29400-29401"]')
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise ValueError(f"{shown(item)} is neither a port nor a range such as 60000-60031")
    ports = PortSet.parse(",".join(str(item) for item in items))
    if 0 in ports:
        raise ValueError("0 is not a valid port for a job")
    return ports


def _host_range(value: Any) -> str | PortSet:
    """Return ports for HCCL_HOST_SOCKET_PORT_RANGE, or "auto" for the kernel's choice."""
    if value == "auto":
        return "auto"
    if not isinstance(value, list):
        raise ValueError(f'should be "auto" or a list such as ["61000-61063"], found {shown(value)}')
    ports = _ports(value)
    if not ports:
        raise ValueError('should be "auto" or a list such as ["61000-61063"], found an empty list')
    return ports


def _size(value: Any) -> int:
    match = re.fullmatch(r"([0-9]{1,11}) ?(B|KiB|MiB|GiB)", value) if isinstance(value, str) else None
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if size and size % 8 == 0 and size <= _LARGEST_SIZE:
        return size
    raise ValueError(
        f"{shown(value)} is not a size: a multiple of 8 bytes up to 64GiB, such as 8B, 64KiB, 1MiB or 1GiB"
    )


def _limits(value: Any) -> dict[str, str | int]:
    """Return the limits of `true` or of a table. An empty result leaves the host's limits unchanged.

    memlock is as in limits.conf: KiB or "unlimited".
    """
    if isinstance(value, bool):
        return {"memlock": "unlimited", "nofile": _MOST_FILES} if value else {}
    if not isinstance(value, dict):
        raise ValueError(f"should be true, false or a table with memlock and nofile, found {shown(value)}")
    return {key: _limit(key, limit) for key, limit in value.items()}


def _limit(key: str, limit: Any) -> str | int:
    if key == "memlock":
        return "unlimited" if limit == "unlimited" else str(_kibibytes(limit))
    if key != "nofile":
        raise ValueError(f"unknown key {shown(key)}. The keys are memlock and nofile.")
    if isinstance(limit, int) and not isinstance(limit, bool) and 1024 <= limit <= 2**31:
        return limit
    raise ValueError(f"nofile should be a number of files from 1024 to 2147483648, found {shown(limit)}")


def _kibibytes(value: Any) -> int:
    try:
        return _size(value) // 1024 or 1
    except ValueError as error:
        raise ValueError(f'memlock should be "unlimited" or a size such as 64GiB, found {shown(value)}') from error


def _profile(value: Any) -> dict[str, str] | None:
    """Return the HCCL_ variables of a table, {} for `true`, None for no profile."""
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict):
        raise ValueError(f"should be true, false or a table of HCCL_ variables, found {shown(value)}")
    for name, text in value.items():
        if not re.fullmatch(r"HCCL_[A-Z0-9_]+", name):
            raise ValueError(f"{shown(name)} is not an HCCL variable such as HCCL_CONNECT_TIMEOUT")
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"{name} should be text in quotes, found {shown(text)}")
    return dict(value)


def _seconds(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LONGEST_DEADLINE:
        return float(value)
    raise ValueError(f"should be a number of seconds above 0 and up to {_LONGEST_DEADLINE:.0f}, found {shown(value)}")


def _age(value: Any) -> float:
    match = re.fullmatch(r"([0-9]{1,8}) ?([smhd])", value) if isinstance(value, str) else None
    seconds = int(match[1]) * _SPANS[match[2]] if match else 0
    if _LEAST_AGE <= seconds <= _MOST_AGE:
        return float(seconds)
    raise ValueError(f'should be a time from 1m to 365d, such as "90m", "24h" or "7d", found {shown(value)}')


def _drain_limit(value: Any) -> DrainLimit:
    """Return a share of the nodes (`"10%"`) or a number of them."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_NODES:
        return DrainLimit(value, None)
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) ?%", value) if isinstance(value, str) else None
    if match and float(match[1]) <= 100:
        return DrainLimit(None, float(match[1]))
    raise ValueError(f'should be a number of nodes, or a percentage such as "10%", found {shown(value)}')


def _checks(value: Any) -> tuple[str, ...]:
    """Return words in the form of --only. The inventory does not know which checks exist."""
    items = _listed(value, '["NPU107", "ports", "PRB"]')
    for item in items:
        if not (isinstance(item, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,39}", item)):
            raise ValueError(f"{shown(item)} is not a check id, the start of one, or an area")
    if len({item.lower() for item in items}) < len(items):
        raise ValueError("a word occurs twice")
    return tuple(items)


def _bandwidth(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _FASTEST:
        return float(value)
    raise ValueError(f"should be GB/s above 0 and up to {_FASTEST:.0f}, such as 20.0, found {shown(value)}")


def _remote_paths(value: Any) -> tuple[str, ...]:
    """Return absolute paths on the hosts, without `~`, which differs between users."""
    items = _listed(value, '["/data/imagenet"]')
    paths: list[str] = []
    for item in items:
        path = _remote_path(item)
        if path in paths:
            raise ValueError(f"{shown(item)} occurs twice")
        paths.append(path)
    return tuple(paths)


def _remote_path(value: Any) -> str:
    path = value.rstrip("/") if isinstance(value, str) else ""
    if not path.startswith("/"):
        raise ValueError(f"{shown(value)} is not an absolute path such as /data/imagenet")
    return _printable(path)


def _modules(value: Any) -> tuple[str, ...]:
    """Return names of top-level packages: a search for a submodule would import its package."""
    names = _listed(value, '["torch", "torch_npu"]')
    return _all_fit(names, r"[A-Za-z_]\w{0,99}", "top-level package such as torch or torch_npu", "package")


def _rdma_devices(value: Any) -> tuple[str, ...]:
    """Return names of /sys/class/infiniband."""
    names = _listed(value, '["mlx5_0", "mlx5_1"]')
    return _all_fit(names, r"[A-Za-z][\w.-]{0,60}", "RDMA device such as mlx5_0", "device")


def _listed(value: Any, example: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"should be a list such as {example}, found {shown(value)}")
    return value


def _all_fit(names: list[Any], pattern: str, example: str, noun: str) -> tuple[str, ...]:
    for name in names:
        if not (isinstance(name, str) and re.fullmatch(pattern, name, re.ASCII)):
            raise ValueError(f"{shown(name)} is not a valid {example}")
    if len(set(names)) < len(names):
        raise ValueError(f"a {noun} occurs twice")
    return tuple(names)


def _remote_folder(value: Any) -> str:
    """Return an absolute path that is valid in a URL without escapes: torch reads it from file://."""
    if not isinstance(value, str) or not re.fullmatch(r"(?:/[\w.+@-]+)+/?", value, re.ASCII):
        raise ValueError(f"should be an absolute path of letters, digits and ._+@-, found {shown(value)}")
    return value.rstrip("/")


def _words(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"{shown(value)} is not a command line: {str(error).lower()}") from error


Line = Annotated[StrictStr, AfterValidator(_printable)]
Text = Annotated[StrictStr, Field(min_length=1), AfterValidator(_printable)]
Login = Annotated[Text, AfterValidator(_login)]
LoginOrNone = Annotated[Line, AfterValidator(_login_or_none)]
FilePath = Annotated[Text, AfterValidator(_at_home)]
Nic = Annotated[Text, AfterValidator(_nic)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names, json_schema_input_type=str)]
BastionText = Annotated[InstanceOf[Bastion], BeforeValidator(_bastion, json_schema_input_type=str)]
Network = Annotated[IPv4Network, BeforeValidator(_network)]
NetworkOfHosts = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network_of_hosts)]
Address = Annotated[IPv4Address, BeforeValidator(_address)]
Interface = Annotated[IPv4Interface, BeforeValidator(_interface)]
Detect = Annotated[Literal["gateway", "next-host"] | IPv4Address, BeforeValidator(_detect, json_schema_input_type=str)]
RemotePaths = Annotated[tuple[str, ...], BeforeValidator(_remote_paths, json_schema_input_type=list[str])]
RemotePath = Annotated[str, BeforeValidator(_remote_path)]
Modules = Annotated[tuple[str, ...], BeforeValidator(_modules, json_schema_input_type=list[str])]
RdmaDevices = Annotated[tuple[str, ...], BeforeValidator(_rdma_devices, json_schema_input_type=list[str])]
RemoteFolder = Annotated[str, BeforeValidator(_remote_folder)]
Ports = Annotated[InstanceOf[PortSet], BeforeValidator(_ports, json_schema_input_type=list[int | str])]
HostRange = Annotated[
    Literal["auto"] | InstanceOf[PortSet],
    BeforeValidator(_host_range, json_schema_input_type=Literal["auto"] | list[int | str]),
]
Limits = Annotated[dict[str, str | int], BeforeValidator(_limits, json_schema_input_type=bool | dict[str, str | int])]
Profile = Annotated[dict[str, str] | None, BeforeValidator(_profile, json_schema_input_type=bool | dict[str, str])]
Size = Annotated[int, BeforeValidator(_size, json_schema_input_type=str)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
Age = Annotated[float, BeforeValidator(_age, json_schema_input_type=str)]
DrainAtMost = Annotated[InstanceOf[DrainLimit], BeforeValidator(_drain_limit, json_schema_input_type=int | str)]
Checks = Annotated[tuple[str, ...], BeforeValidator(_checks, json_schema_input_type=list[str])]
Bandwidth = Annotated[float, BeforeValidator(_bandwidth)]
Words = Annotated[list[Text], BeforeValidator(_words, json_schema_input_type=str | list[str])]
Day = Annotated[date, Field(strict=True)]
# The launchers of `preflight launch`, and Horovod's own.
Launcher = Literal[
    "torchrun",
    "torch.distributed.launch",
    "spawn",
    "shell",
    "mpirun",
    "perseusrun",
    "horovodrun",
    "srun",
    "deepspeed",
    "msrun",
    "torch_npu_run",
]
Port = Annotated[StrictInt, Field(ge=1, le=65535)]
DeviceCount = Annotated[StrictInt, Field(ge=0, le=64)]
Mtu = Annotated[StrictInt, Field(ge=68, le=9702)]  # the range of hccn_tool
