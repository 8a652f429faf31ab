"""Addresses of a lab: the management network, the plan of device addresses, and hosts.toml with both."""

import ipaddress
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from preflight.lab.spec import Spec

# RFC 2544 reserves this block for tests between networks, so no real network of the machine should use it.
MANAGEMENT_BLOCK = ipaddress.IPv4Network("198.18.0.0/15")
FIRST_HOST = 11

FOUR_SUBNETS = tuple(f"192.168.{third}.0/24" for third in range(100, 104))
ONE_SUBNET = "192.168.100.0/22"
FIRST_DEVICE = 11

HCCL_BASE, HCCL_COUNT = 60000, 32
JOB_PORT = 29500

SET_ENV = "/usr/local/Ascend/ascend-toolkit/set_env.sh"


@dataclass(frozen=True)
class Management:
    """The management network of one lab."""

    network: ipaddress.IPv4Network

    @property
    def controller(self) -> str:
        """The controller's address, with the prefix length."""
        return f"{self.network.network_address + 1}/{self.network.prefixlen}"

    def host(self, number: int) -> str:
        """Return the address of host `number` (0-based), without the prefix length."""
        return str(self.network.network_address + FIRST_HOST + number)


def choose_network(hosts: int, taken: Iterable[ipaddress.IPv4Network]) -> ipaddress.IPv4Network:
    """Return the first block that holds `hosts` and touches none of `taken`: a /24, or larger beyond 200 hosts."""
    occupied = list(taken)
    prefix = 24 if hosts <= 200 else 23
    for network in MANAGEMENT_BLOCK.subnets(new_prefix=prefix):
        if not any(network.overlaps(used) for used in occupied):
            return network
    raise OSError(f"no free /{prefix} is left in {MANAGEMENT_BLOCK}")


def four_subnets(spec: Spec) -> bool:
    """Return whether devices 0/4, 1/5, 2/6 and 3/7 need a subnet each.

    Atlas A1 in SMP mode requires that. Other products need only one subnet.
    """
    return spec.product == "atlas-a1"


def device_subnets(spec: Spec) -> tuple[str, ...]:
    """Return the subnets of the plan, in order."""
    return FOUR_SUBNETS if four_subnets(spec) else (ONE_SUBNET,)


def gateway_of(subnet: str) -> str:
    """Return the gateway of a device subnet, its first address (in a switched fabric)."""
    return str(ipaddress.IPv4Network(subnet)[1])


def inventory(spec: Spec, management: Management) -> str:
    """Return the text of hosts.toml, as an operator would describe the lab. It does not reveal that this is a lab."""
    sections = [
        _section(
            "cluster",
            name="lab",
            product=spec.product,
            cidrs=[str(management.network)],
            fabric=spec.fabric,
            devices=spec.devices,
        ),
        _section("ssh", user=spec.user, port=22, key="id_ed25519", known_hosts="known_hosts", sudo=spec.user != "root"),
        _section("network", nic="eth0"),
    ]
    if spec.device_nics:
        sections.append(_device_addresses(spec))
    sections += [
        _section("ports", hccl_base=HCCL_BASE, hccl_count=HCCL_COUNT, job=[str(JOB_PORT)]),
        _section("firewall", policy="allow"),
        _section(
            "probe",
            python=sys.executable,
            **({"setup": f"source {SET_ENV}"} if spec.is_npu else {}),
            backend="hccl" if spec.is_npu else "gloo",
            idle=True,
        ),
    ]
    addresses = [ipaddress.IPv4Address(management.host(number)) for number in range(spec.hosts)]
    # A range is written in the last octet only, so hosts beyond a /24 get another table.
    for _, members in groupby(zip(spec.host_names, addresses, strict=True), key=lambda pair: int(pair[1]) >> 8):
        group = list(members)
        sections.append(
            _section(
                "[hosts]",
                name=_folded([name for name, _ in group]),
                address=_folded([str(address) for _, address in group]),
            )
        )
    return "\n".join(sections)


def _device_addresses(spec: Spec) -> str:
    subnets = device_subnets(spec)
    gateways = [gateway_of(subnet) for subnet in subnets]
    switched = spec.fabric == "switched"
    detect = {"detect": "gateway"} if switched else {}
    if four_subnets(spec):
        routers = {"gateways": gateways} if switched else {}
        return _section(
            "device_addresses", plan="four-subnets", subnets=list(subnets), first=FIRST_DEVICE, **routers, **detect
        )
    router = {"gateway": gateways[0]} if switched else {}
    first = str(ipaddress.IPv4Network(subnets[0])[FIRST_DEVICE])
    return _section("device_addresses", plan="one-subnet", subnet=subnets[0], first=first, **router, **detect)


def _section(title: str, /, **values: str | int | bool | list[str]) -> str:
    return "".join([f"[{title}]\n", *(f"{key} = {_toml(value)}\n" for key, value in values.items())])


def _toml(value: str | int | bool | list[str]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _folded(names: list[str]) -> str:
    """Fold names that differ in their last number only: node01 … node12 → node[01-12]."""
    if len(names) == 1:
        return names[0]
    stem = names[0].rstrip("0123456789")
    return f"{stem}[{names[0][len(stem) :]}-{names[-1][len(stem) :]}]"
