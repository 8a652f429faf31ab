"""The rank table of live hosts, with the addresses that their devices have. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from preflight.facts.sections.chips import Chips, SuperPod
from preflight.facts.types import ClusterFacts, Hccn, HostFacts, Missing, Reading, Unreachable
from preflight.model.cluster import Cluster, Host
from preflight.ranktable.rules import ip, why_addresses
from preflight.ranktable.types import RankedDevice, RankTable, Server, number_ranks


class ServerOrder(StrEnum):
    """Order of servers, and so of ranks."""

    MINDSPORE = "mindspore"  # lexical by server_id, which MindSpore needs and HCCL takes
    INVENTORY = "inventory"


@dataclass(frozen=True)
class BuildOptions:
    """Choices of the caller. `devices`: ids on every host, or all devices of the inventory if it is empty.

    `version`: "1.0", "1.2", or that of the product if it is empty.
    """

    devices: tuple[int, ...] = ()
    order: ServerOrder = ServerOrder.MINDSPORE
    version: str = ""


@dataclass(frozen=True)
class BuildResult:
    """The table, or None if anything is `lacking` or `unseen`. The tuples have a sentence for each finding.

    `differences` are those between the devices and the plan of the inventory.
    """

    table: RankTable | None
    differences: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def version_of(cluster: Cluster, options: BuildOptions) -> str:
    """Return the version asked for, else 1.2 for servers in a super-pod."""
    return options.version or ("1.2" if cluster.superpod else "1.0")


def in_order(hosts: Sequence[Host], order: ServerOrder = ServerOrder.MINDSPORE) -> list[Host]:
    """Return the hosts in the order of their servers. The server_id is a host's address."""
    return sorted(hosts, key=lambda host: host.address) if order is ServerOrder.MINDSPORE else list(hosts)


def build(cluster: Cluster, hosts: Sequence[Host], facts: ClusterFacts, options: BuildOptions) -> BuildResult:
    """Return the rank table of `hosts`, with their devices and addresses from `facts`."""
    version, findings = version_of(cluster, options), _Findings()
    entries: list[tuple[Server, SuperPod | None]] = []
    for host in in_order(hosts, options.order):
        host_facts = facts.hosts.get(host.name)
        if not isinstance(host_facts, HostFacts) or not isinstance(host_facts.hccn, Hccn):
            findings.unseen.append(_why_unseen(host, host_facts))
            continue
        numbers = options.devices or tuple(device.index for device in host.devices)
        chips = _super_pods(host, host_facts, numbers, findings) if version == "1.2" else {}
        devices = _devices(host, host_facts.hccn, numbers, chips, findings)
        host_ip = host.address if version == "1.2" and ip(host.address) else ""
        entries.append((Server(host.address, devices, (), host_ip=host_ip), next(iter(chips.values()), None)))
    table = _table(version, _pods_together(entries))
    _check_addresses(cluster, table, findings)
    return BuildResult(
        table if findings.is_complete else None,
        tuple(findings.differences),
        tuple(findings.lacking),
        tuple(findings.unseen),
    )


@dataclass
class _Findings:
    differences: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not self.lacking and not self.unseen


def _why_unseen(host: Host, facts: HostFacts | Unreachable | None) -> str:
    if isinstance(facts, HostFacts):
        why = facts.hccn.error if isinstance(facts.hccn, Missing) else "the devices were not checked"
    else:
        why = facts.summary.removeprefix(f"{host.name}: ") if facts else "no facts were collected"
    return f"{host.name}: {why}"


def _super_pods(host: Host, facts: HostFacts, numbers: Sequence[int], findings: _Findings) -> Mapping[int, SuperPod]:
    """Return the place in its super-pod for each device that npu-smi has one for."""
    if not isinstance(facts.chips, Chips):
        why = facts.chips.error if isinstance(facts.chips, Missing) else "not checked"
        findings.unseen.append(f"{host.name}: super device ids are unknown ({why})")
        return {}
    readings = {chip.device: chip.superpod for chip in facts.chips.chips}
    places: dict[int, SuperPod] = {}
    for number in numbers:
        reading = readings.get(number)
        if reading and reading.value:
            places[number] = reading.value
        else:
            why = (reading and reading.error) or "npu-smi does not report it"
            findings.unseen.append(f"{host.name}: device {number}: super device id unknown ({why})")
    return places


def _devices(
    host: Host, hccn: Hccn, numbers: Sequence[int], chips: Mapping[int, SuperPod], findings: _Findings
) -> tuple[RankedDevice, ...]:
    readings = {device.index: device.address for device in hccn.devices}
    plan = {device.index: str(device.address.ip) for device in host.devices if device.address}
    devices = []
    for number in numbers:
        if number not in readings:
            findings.lacking.append(f"{host.name} has no device {number}")
            continue
        address = readings[number].value or ""
        _check_plan(f"{host.name}: device {number}", readings[number], plan.get(number, address), findings)
        sdid = str(chips[number].sdid) if number in chips else ""
        devices.append(RankedDevice(0, number, (), device_ip=address, super_device_id=sdid))
    return tuple(devices)


def _check_plan(device: str, address: Reading, planned: str, findings: _Findings) -> None:
    """Compare a device's address with the inventory."""
    if address.error:
        findings.unseen.append(f"{device}: address unknown ({address.error})")
    elif (address.value or "") != planned:
        has = f"has {address.value}" if address.value else "has no address"
        findings.differences.append(f"{device} {has}, but the inventory plans {planned}")


def _pods_together(entries: Sequence[tuple[Server, SuperPod | None]]) -> list[tuple[Server, SuperPod | None]]:
    """Return the servers of each super-pod together, in the order of the pods' first servers."""
    pods = list(dict.fromkeys(place.pod for _, place in entries if place))
    return sorted(entries, key=lambda entry: pods.index(entry[1].pod) if entry[1] else len(pods))


def _table(version: str, entries: Sequence[tuple[Server, SuperPod | None]]) -> RankTable:
    servers: dict[int, list[str]] = {}  # of each super-pod
    for server, place in entries:
        if place:
            servers.setdefault(place.pod, []).append(server.id)
    pods = [(str(number), tuple(names)) for number, names in servers.items()]
    return number_ranks(version, [server for server, _ in entries], pods)


def _check_addresses(cluster: Cluster, table: RankTable, findings: _Findings) -> None:
    """Add devices without an address to `lacking`, if the table needs their address."""
    condition = why_addresses(table.version, len(table.servers), len(table.super_pods), cluster.product)
    unread = {sentence.partition(": address unknown")[0] for sentence in findings.unseen}
    names = {host.address: host.name for host in cluster.hosts}
    for server, device in table.ranked_devices if condition else ():
        name = f"{names[server.id]}: device {device.device_id}"
        if not device.device_ip and name not in unread:
            findings.lacking.append(f"{name} has no address. It is required {condition}")
