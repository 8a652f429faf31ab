"""Addresses of RoCE ports: the GIDs that NCCL takes, and their networks; the size of RDMA packets."""

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Interface, IPv4Network
from typing import Any

from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.majority import Odd, odd_ones
from preflight.facts.parsers.rdma import Gid, RdmaPort
from preflight.facts.sections.job import Job
from preflight.facts.sections.rdma import Rdma
from preflight.facts.types import Interface, Network
from preflight.model.finding import Finding
from preflight.rules.nics.rdma import (
    NVIDIA,
    Place,
    chosen,
    counted,
    gids_of,
    index,
    interface,
    is_link_local,
    roce_mtu,
    used,
)

_Jobs = Mapping[str, Job | None]
_LINK_LAYERS = {"RoCE": "Ethernet", "InfiniBand": "InfiniBand"}
LARGEST = 4096  # bytes of data that a packet can have
# Expected value, and remedy of smaller packets.
_LARGER_ROCE = ("MTU 4192 or more", "set MTU 9000 on this interface on all hosts, and on the switches")
_LARGER_INFINIBAND = (
    f"an active MTU of {LARGEST}",
    f"set MTU {LARGEST} on the HCA, the switches and the subnet manager's partitions",
)


def _variables(job: Job | None) -> Mapping[str, str]:
    return job.variables if job else {}


@dataclass(frozen=True)
class _GidChoices:
    """The GIDs that NCCL takes.

    `gids`: host, active RoCE port that counts and that jobs use, and the GID there. `without`: host → why it has no
    such port."""

    gids: list[tuple[str, RdmaPort, Gid | None]] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)

    def interfaces(self, network: Mapping[str, Network]) -> Iterator[tuple[str, RdmaPort, Gid, Interface]]:
        """Yield host, port and GID with the GID's interface, where it is known."""
        for name, port, gid in self.gids:
            if gid and (nic := interface(network[name], gid)):
                yield name, port, gid, nic

    def skipped(self, scribe: All, hosts: Iterable[str], compared: Collection[str] = ()) -> Iterator[Finding]:
        """Yield a skip for each of the hosts that was not compared, since such a host has not passed."""
        for name in hosts:
            if name not in compared:
                yield scribe.skip(self.without.get(name, "nothing to compare"), host=name)


def _used_ports(
    scribe: All, rdma: Mapping[str, Rdma], job: _Jobs, kind: str
) -> Iterator[tuple[str, list[RdmaPort], str]]:
    """Yield each host with its active ports that count and that jobs use, and the reason if jobs use none of them."""
    places = counted(scribe.cluster, rdma.values())
    for name, host in rdma.items():
        active = [port for port in places.active(host) if port.link_layer == _LINK_LAYERS[kind]]
        ports = used(scribe.cluster, job[name], active) if active else f"no active {kind} port to check"
        yield (name, [], ports) if isinstance(ports, str) else (name, ports, "")


def _choose_gids(scribe: All, rdma: Mapping[str, Rdma], job: _Jobs) -> _GidChoices:
    gid_choices = _GidChoices()
    for name, ports, reason in _used_ports(scribe, rdma, job, "RoCE"):
        if reason:
            gid_choices.without[name] = reason
        gids = ((name, port, chosen(gids_of(rdma[name], port), _variables(job[name]))) for port in ports)
        gid_choices.gids.extend(gids)
    return gid_choices


@cluster_check(
    "RDM104",
    "RDMA GID selection",
    products=NVIDIA,
    several=False,
    optional=("job",),
)
def routable(scribe: All, rdma: Mapping[str, Rdma], job: _Jobs) -> Iterator[Finding]:
    """Why: For every address of its interface, a RoCE port has one GID for RoCE v1 and one for RoCE v2. If
    NCCL_IB_GID_INDEX is set, NCCL takes the GID at that index without checking it. Without the variable, NCCL 2.21 and
    later search for an IPv4 address with RoCE v2.

    Result: FAIL if the GID begins with fe80 ("Call to ibv_modify_qp failed with error Connection timed out"). FAIL if
    the index has no GID (the same error with "Invalid argument"). FAIL if the interface has no address, so that NCCL
    finds no GID.

    Check manually:
      env | grep NCCL_IB
      show_gids
    Without show_gids:
      grep -r . /sys/class/infiniband/mlx5_0/ports/1/gids
      grep -r . /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types

    Fix: Unset NCCL_IB_GID_INDEX. If the port has no GID, give the interface its address. If the port has only IPv6
    addresses, set the address family in the jobs' environment.
      export NCCL_IB_ADDR_FAMILY=AF_INET6
    """
    gid_choices = _choose_gids(scribe, rdma, job)
    yield from gid_choices.skipped(scribe, gid_choices.without)
    for name, port, gid in gid_choices.gids:
        gids, wanted = gids_of(rdma[name], port), index(_variables(job[name]))
        setting = f"NCCL_IB_GID_INDEX={wanted}" if wanted is not None else "NCCL"
        details: dict[str, Any] = {
            "host": name,
            "evidence": tuple(f"GID index {entry.index}: {entry.gid} (RoCE {entry.kind})" for entry in gids[:20]),
        }
        if not gids:
            yield scribe.unknown(f"{name}: {port.device}: the GIDs could not be read", host=name)
        elif gid is None and wanted is not None:
            yield scribe.bad(
                f"{name}: {port.device}: {setting} selects an empty slot (slots in use: {_slots(gids)})",
                found="empty",
                remedy="unset NCCL_IB_GID_INDEX in the jobs' environment, or set it to a slot in use",
                **details,
            )
        elif gid is not None and is_link_local(gid):
            why, remedy = _link_local_reason(gid, gids, wanted)
            yield scribe.bad(
                f"{name}: {port.device}: {setting} selects {gid.gid}, a link-local GID that is not routed{why}",
                found=gid.gid,
                expected="the GID of an IP address",
                remedy=remedy,
                **details,
            )


def _link_local_reason(gid: Gid, gids: list[Gid], wanted: int | None) -> tuple[str, str]:
    """Return why NCCL takes a link-local GID, and the remedy."""
    if wanted is not None:
        return "", "unset NCCL_IB_GID_INDEX in the jobs' environment, or set it to the slot of an IP address"
    nic = gid.netdev or "the interface"
    routable_gids = [entry for entry in gids if not is_link_local(entry)]
    if not routable_gids:
        return f", because {nic} has no other GID", f"assign an IP address to {nic}"
    if routable_gids[0].address is None:
        why = f". {nic} has only IPv6 addresses, and NCCL_IB_ADDR_FAMILY is not AF_INET6"
        return why, "set NCCL_IB_ADDR_FAMILY=AF_INET6 in the jobs' environment on all hosts"
    why = f". {nic} has only IPv4 addresses, and NCCL_IB_ADDR_FAMILY is AF_INET6"
    return why, "unset NCCL_IB_ADDR_FAMILY in the jobs' environment"


def _slots(gids: list[Gid]) -> str:
    return ", ".join(str(gid.index) for gid in gids[:8]) + (" …" if len(gids) > 8 else "")


@cluster_check("RDM105", "RDMA GID types across hosts", products=NVIDIA, optional=("job",))
def one_kind(scribe: All, rdma: Mapping[str, Rdma], job: _Jobs) -> Iterator[Finding]:
    """Why: A port gets its GIDs in the order in which addresses are added. The same index may be RoCE v2 on one host,
    and RoCE v1 or an IPv6 address on another host. Queue pairs with different types of GIDs cannot connect. The error
    is "Call to ibv_modify_qp failed with error Invalid argument".

    Result: FAIL if the types differ between hosts. WARN if all hosts use RoCE v1, because it is not routed, and
    switches do not spread it over their links.

    Check manually: On both hosts, compare the line with the index in NCCL_IB_GID_INDEX:
      show_gids

    Fix: Unset NCCL_IB_GID_INDEX on all hosts. NCCL 2.21 and later find the right GID without it.
    """
    gid_choices = _choose_gids(scribe, rdma, job)
    words = _kinds(gid_choices)
    yield from gid_choices.skipped(scribe, rdma, words)
    odd = list(odd_ones(words))
    for odd_host in odd:
        yield scribe.bad(
            f"{odd_host.host}: NCCL uses {odd_host.value}, but {odd_host.usual} on {odd_host.elsewhere}",
            host=odd_host.host,
            peer=odd_host.others[0],
            expected=odd_host.usual,
            found=odd_host.value,
            remedy="unset NCCL_IB_GID_INDEX in the jobs' environment, or set it to a slot with RoCE v2 on all hosts",
        )
    if not odd and any("v1" in word for word in words.values()):
        for name, word in words.items():
            yield scribe.warn(
                f"{name}: NCCL uses {word}, which cannot be routed",
                host=name,
                expected="RoCE v2",
                found=word,
                remedy="unset NCCL_IB_GID_INDEX and NCCL_IB_ROCE_VERSION_NUM in the jobs' environment",
            )


def _kinds(gid_choices: _GidChoices) -> dict[str, str]:
    """Return the kinds of the GIDs that NCCL takes, by host, as text for a sentence."""
    kinds: dict[str, dict[str, None]] = defaultdict(dict)  # in order, once each
    for name, _, gid in gid_choices.gids:
        if gid is not None and not is_link_local(gid):
            kinds[name][f"RoCE {gid.kind} over {'IPv4' if gid.address else 'IPv6'}"] = None
    return {name: " and ".join(kinds_of_host) for name, kinds_of_host in kinds.items()}


@dataclass(frozen=True)
class _Packets:
    """The packets that a port sends.

    `size`: bytes of data in a packet. `setting`: the setting that decides the size. `command`, `expected` and `remedy`:
    those of a size that is too small."""

    size: int
    setting: str
    command: str
    expected: str
    remedy: str


@dataclass(frozen=True)
class _PortPackets:
    """The packets that the same port sends on each host."""

    device: str
    by_host: Mapping[str, _Packets]

    @cached_property
    def odd(self) -> list[Odd[int]]:
        return list(odd_ones({name: packets.size for name, packets in self.by_host.items()}))


@cluster_check("RDM106", "RDMA MTU across hosts", products=NVIDIA, several=False, optional=("job",))
def packets(scribe: All, rdma: Mapping[str, Rdma], network: Mapping[str, Network], job: _Jobs) -> Iterator[Finding]:
    """Why: The interface's MTU determines the payload of a RoCE packet: 4096 bytes for an MTU of 4192 or more, and 1024
    bytes for 1500. An InfiniBand port has a separate active MTU. If the two ends differ, the end with the smaller MTU
    fails with "IBV_WC_LOC_LEN_ERR", or "local access violation work queue error".

    Result: FAIL if the sizes differ between hosts. WARN if all hosts have less than 4096 bytes. This costs speed, and
    NCCL's GPU-initiated networking (GIN) requires 4096 bytes.

    Check manually: On all hosts:
      ibv_devinfo | grep active_mtu
      ip link show

    Fix: Set the same MTU on all hosts, with NIC from the finding. Also set it in the network configuration and on the
    switches. For InfiniBand, set the MTU of the HCAs, the switches and the subnet manager's partitions.
      ip link set NIC mtu 9000
    """
    gid_choices, unread = _choose_gids(scribe, rdma, job), dict[str, str]()
    sent: dict[Place, dict[str, _Packets]] = defaultdict(dict)
    for name, port, _, nic in gid_choices.interfaces(network):
        setting = f"{nic.name} has MTU {nic.mtu}"
        command = f"ip link set {shlex.quote(nic.name)} mtu 9000"
        sent[port.device, port.port][name] = _Packets(roce_mtu(nic.mtu), setting, command, *_LARGER_ROCE)
    for name, ports, _ in _used_ports(scribe, rdma, job, "InfiniBand"):
        for port in ports:
            if port.mtu is not None:
                setting = f"{port.device} has an active MTU of {port.mtu}"
                sent[port.device, port.port][name] = _Packets(
                    port.mtu, setting, f"ibv_devinfo -d {port.device}", *_LARGER_INFINIBAND
                )
            elif rdma[name].mtu_unread:
                unread[name] = rdma[name].mtu_unread
            elif name in gid_choices.without:
                gid_choices.without[name] = "the MTU of the InfiniBand ports is unknown: ibv_devinfo reported none"
    comparisons = [_PortPackets(device, by_host) for (device, _), by_host in sorted(sent.items())]
    yield from _other_sizes(scribe, comparisons)
    for name, error in unread.items():  # even if its RoCE ports are fine
        yield scribe.unknown(f"{name}: the MTU of the InfiniBand ports is unknown: {error}", host=name)
    small = _small_packets(comparisons)
    yield from gid_choices.skipped(scribe, rdma, {*_compared(comparisons), *small, *unread})
    for name, packets in sorted(small.items()):
        yield scribe.warn(
            f"{name}: RDMA packets are smaller than {LARGEST} bytes: {packets.setting}",
            host=name,
            expected=packets.expected,
            found=packets.setting,
            remedy=packets.remedy,
            commands=(scribe.on(name, packets.command),),
        )


def _other_sizes(scribe: All, ports: Sequence[_PortPackets]) -> Iterator[Finding]:
    for port in ports:
        for odd in port.odd:
            yield scribe.bad(
                f"{odd.host}: {port.device} uses {odd.value}-byte RDMA packets ({port.by_host[odd.host].setting}), but "
                f"{odd.usual}-byte packets on {odd.elsewhere}",
                host=odd.host,
                peer=odd.others[0],
                expected=f"{odd.usual} bytes",
                found=f"{odd.value} bytes",
                remedy="choose one MTU for all hosts and switches, then change the hosts with another MTU",
            )


def _small_packets(ports: Sequence[_PortPackets]) -> dict[str, _Packets]:
    """Return the packets below the largest size, by host, of its first port that sends the same on all hosts."""
    alike = [port for port in reversed(ports) if not port.odd]
    return {name: packets for port in alike for name, packets in port.by_host.items() if packets.size < LARGEST}


def _compared(ports: Sequence[_PortPackets]) -> set[str]:
    """Return the hosts that differ, and those with every port in which hosts differ."""
    hosts = {name for port in ports for name in port.by_host}
    odd_ports = [port for port in ports if port.odd]
    return hosts.intersection(*(port.by_host for port in odd_ports)) | {
        odd.host for port in odd_ports for odd in port.odd
    }


@cluster_check("RDM107", "RDMA device naming across hosts", products=NVIDIA, optional=("job",))
def same_rails(scribe: All, rdma: Mapping[str, Rdma], network: Mapping[str, Network], job: _Jobs) -> Iterator[Finding]:
    """Why: NCCL connects the first RDMA device of one host to the first RDMA device of another host, by name. If mlx5_0
    is in rail 0 on one host and in rail 1 on another, packets have to cross rails. Many fabrics do not support that.
    The job then hangs or fails with "Got completion with error 12".

    Result: FAIL if hosts with the same networks have them on different devices. If every host has separate, routed
    networks, nothing is compared.

    Check manually: On both hosts:
      rdma link show
      ip -4 -brief address show

    Fix: Connect each RDMA device to the same rail on all hosts. Or give the devices persistent names
    (udev, rdma-core's 60-rdma-persistent-naming.rules).
    """
    gid_choices = _choose_gids(scribe, rdma, job)
    groups = _rail_groups(_networks(gid_choices, network))
    compared = {name for group in groups for name in group.rails}
    odd_names = {odd.host for group in groups for odd in group.odd}
    yield from gid_choices.skipped(scribe, rdma if odd_names else gid_choices.without, compared)
    if any(group.is_undecided for group in groups):
        # Hosts of other networks cannot decide which of these is right, and must not make a majority by passing.
        for name in sorted(compared - odd_names):
            yield scribe.skip(
                "the host has the same rails as the others in its networks, but hosts in other networks differ "
                "without a majority",
                host=name,
            )
    for group in groups:
        yield from _other_rails(scribe, group)


_Rails = tuple[tuple[str, str], ...]  # RDMA devices and their networks, in order


@dataclass(frozen=True)
class _RailGroup:
    """Two or more hosts with the same networks."""

    rails: Mapping[str, _Rails]

    @cached_property
    def odd(self) -> list[Odd[_Rails]]:
        return list(odd_ones(self.rails))

    @property
    def is_undecided(self) -> bool:
        """Return whether the hosts differ without a majority."""
        return 0 < len(self.odd) == len(self.rails)


def _networks(gid_choices: _GidChoices, network: Mapping[str, Network]) -> dict[str, dict[str, IPv4Network]]:
    """Return host → RDMA device → the network of the address that NCCL takes there."""
    networks: dict[str, dict[str, IPv4Network]] = defaultdict(dict)
    for name, port, gid, nic in gid_choices.interfaces(network):
        for address in (IPv4Interface(text) for text in nic.addresses if ":" not in text):
            if str(address.ip) == gid.address:
                networks[name][port.device] = address.network
    return networks


def _rail_groups(networks: Mapping[str, Mapping[str, IPv4Network]]) -> list[_RailGroup]:
    """Return the groups of hosts that have the same networks, more than one."""
    groups: dict[frozenset[IPv4Network], dict[str, _Rails]] = defaultdict(dict)
    for name, by_device in networks.items():
        if len(set(by_device.values())) > 1:
            rails = sorted((device, str(rail)) for device, rail in by_device.items())
            groups[frozenset(by_device.values())][name] = tuple(rails)
    return [_RailGroup(rails) for rails in groups.values() if len(rails) > 1]


def _other_rails(scribe: All, group: _RailGroup) -> Iterator[Finding]:
    for odd in group.odd:
        usual = dict(odd.usual)
        differences = [(device, rail) for device, rail in odd.value if usual.get(device) != rail]
        device, rail = differences[0] if differences else odd.value[0]
        yield scribe.bad(
            f"{odd.host}: {device} is in {rail}, but in {usual.get(device, 'no network')} on {odd.elsewhere}",
            host=odd.host,
            peer=odd.others[0],
            evidence=tuple(
                f"{name}: {', '.join(map(' '.join, rails))}"
                for name, rails in ((odd.host, odd.value), (odd.others[0], odd.usual))
            ),
            remedy="compare the addresses, cables and device names of both hosts with the plan, "
            "then change the host that differs",
        )
