"""The rank table of live hosts: addresses as the devices have them, in the order that is asked for. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from preflight.facts.chips import Chips, SuperPod
from preflight.facts.types import ClusterFacts, Hccn, HccnDevice, HostFacts, Missing, Unreachable
from preflight.model.cluster import Cluster, Host
from preflight.ranktable.rules import ip, why_addresses
from preflight.ranktable.types import RankedDevice, RankTable, Server, numbered


class Order(StrEnum):
    """Of servers, and so of ranks."""

    MINDSPORE = "mindspore"  # lexical by server_id, which MindSpore needs and HCCL takes
    INVENTORY = "inventory"


@dataclass(frozen=True)
class Wanted:
    """`devices`: ids, the same of every host; empty: all that the inventory has. `version`: "1.0" or "1.2"; empty: as
    the product has it."""

    devices: tuple[int, ...] = ()
    order: Order = Order.MINDSPORE
    version: str = ""


@dataclass(frozen=True)
class Built:
    """`table` is None where something is `lacking`, or `unseen`: a sentence for each. `differences`: the same between
    the devices and what the inventory plans."""

    table: RankTable | None
    differences: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def version_of(cluster: Cluster, wanted: Wanted) -> str:
    """1.2 where the inventory says that the servers stand in a super-pod."""
    return wanted.version or ("1.2" if cluster.superpod else "1.0")


def build(cluster: Cluster, hosts: Sequence[Host], facts: ClusterFacts, wanted: Wanted) -> Built:
    """The table of `hosts` by what `facts` say of them."""
    version, told = version_of(cluster, wanted), _Told()
    entries: list[tuple[Server, SuperPod | None]] = []
    for host in in_order(hosts, wanted.order):
        found = facts.hosts.get(host.name)
        if not isinstance(found, HostFacts) or not isinstance(found.hccn, Hccn):
            told.unseen.append(_away(host, found))
            continue
        numbers = wanted.devices or tuple(device.index for device in host.devices)
        readings = {device.index: device for device in found.hccn.devices}
        chips = _super_pods(host, found, numbers, told) if version == "1.2" else {}
        devices = tuple(
            device for number in numbers if (device := _device(host, number, readings, chips, told)) is not None
        )
        host_ip = host.address if version == "1.2" and ip(host.address) else ""
        entries.append((Server(host.address, devices, (), host_ip=host_ip), next(iter(chips.values()), None)))
    table = _table(version, _pods_together(entries))
    _addresses(cluster, table, told)
    whole = not told.lacking and not told.unseen
    return Built(table if whole else None, tuple(told.differences), tuple(told.lacking), tuple(told.unseen))


@dataclass
class _Told:
    differences: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


def _away(host: Host, found: HostFacts | Unreachable | None) -> str:
    if isinstance(found, HostFacts):
        why = found.hccn.error if isinstance(found.hccn, Missing) else "its devices were not looked at"
        return f"{host.name}: {why}"
    return f"{host.name}: {found.summary.removeprefix(f'{host.name}: ') if found else 'it has no facts'}"


def _device(
    host: Host, number: int, readings: Mapping[int, HccnDevice], chips: Mapping[int, SuperPod], told: _Told
) -> RankedDevice | None:
    reading = readings.get(number)
    if reading is None:
        told.lacking.append(f"{host.name} has no device {number}")
        return None
    if reading.address.error:
        told.unseen.append(f"{host.name}: device {number}: its address could not be read: {reading.address.error}")
    address = reading.address.value or ""
    planned = next((str(one.address.ip) for one in host.devices if one.index == number and one.address), "")
    if planned and not reading.address.error and address != planned:
        has = f"has {address}" if address else "has no address"
        told.differences.append(f"{host.name}: device {number} {has}, the inventory plans {planned}")
    sdid = str(chips[number].sdid) if number in chips else ""
    return RankedDevice(0, number, (), device_ip=address, super_device_id=sdid)


def _super_pods(host: Host, facts: HostFacts, numbers: Sequence[int], told: _Told) -> Mapping[int, SuperPod]:
    """Device → its place in its super-pod."""
    if not isinstance(facts.chips, Chips):
        why = facts.chips.error if isinstance(facts.chips, Missing) else "not looked at"
        told.unseen.append(f"{host.name}: its super device ids: {why}")
        return {}
    chips = {chip.device: chip.superpod for chip in facts.chips.chips}
    for number in numbers:
        if number not in chips or chips[number].value is None:
            why = (chips[number].error if number in chips else "") or "npu-smi does not tell it"
            told.unseen.append(f"{host.name}: device {number}: its super device id: {why}")
    return {number: found for number in numbers if number in chips and (found := chips[number].value)}


def in_order(hosts: Sequence[Host], order: Order = Order.MINDSPORE) -> list[Host]:
    """As a table has them: server_id is a host's address."""
    return sorted(hosts, key=lambda host: host.address) if order is Order.MINDSPORE else list(hosts)


def _pods_together(entries: Sequence[tuple[Server, SuperPod | None]]) -> list[tuple[Server, SuperPod | None]]:
    """Pods in the order of their first servers."""
    pods = list(dict.fromkeys(pod.pod for _, pod in entries if pod))
    return sorted(entries, key=lambda entry: pods.index(entry[1].pod) if entry[1] else len(pods))


def _table(version: str, entries: Sequence[tuple[Server, SuperPod | None]]) -> RankTable:
    members: dict[int, list[str]] = {}
    for server, place in entries:
        if place:
            members.setdefault(place.pod, []).append(server.id)
    pods = [(str(number), tuple(names)) for number, names in members.items()]
    return numbered(version, [server for server, _ in entries], pods)


def _addresses(cluster: Cluster, table: RankTable, told: _Told) -> None:
    """Devices without an address, where the table has to have one."""
    why = why_addresses(table.version, len(table.servers), len(table.super_pods), cluster.product)
    unread = {sentence.partition(": its address")[0] for sentence in told.unseen}
    names = {host.address: host.name for host in cluster.hosts}
    for server, device in table.placed if why else ():
        name = f"{names[server.id]}: device {device.device_id}"
        if not device.device_ip and name not in unread:
            told.lacking.append(f"{name} has no address, which {why} have to have")
