"""Addresses of RoCE ports: the GIDs that NCCL takes, and their networks; the size of RDMA packets."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv4Network
from typing import Any

from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.majority import odd_ones
from preflight.facts.parsers.rdma import Gid, RdmaPort
from preflight.facts.sections.job import Job
from preflight.facts.sections.rdma import Rdma
from preflight.facts.types import Network
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

LARGEST = 4096  # bytes of data that a packet can have


def _variables(job: Job | None) -> Mapping[str, str]:
    return job.variables if job else {}


@dataclass(frozen=True)
class _Taken:
    """The GIDs that NCCL takes.

    `gids`: host, active RoCE port that counts and that jobs use, and the GID there. `without`: host → why it has no
    such port."""

    gids: list[tuple[str, RdmaPort, Gid | None]] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)

    def skipped(self, all_: All, hosts: Iterable[str]) -> Iterator[Finding]:
        """Yield a skip for each host without anything to compare, since such a host has not passed."""
        for name in hosts:
            yield all_.skip(self.without.get(name, "nothing there to be compared"), host=name)


def _taken(all_: All, rdma: Mapping[str, Rdma], job: Mapping[str, Job | None]) -> _Taken:
    places, gid_choices = counted(all_.cluster, rdma.values()), _Taken()
    for name, host in rdma.items():
        roce = [port for port in places.active(host) if port.link_layer == "Ethernet"]
        ports = used(all_.cluster, job[name], roce)
        if isinstance(ports, str):
            gid_choices.without[name] = ports if roce else "no RoCE port that counts is active"
        else:
            gid_choices.gids.extend((name, port, chosen(gids_of(host, port), _variables(job[name]))) for port in ports)
    return gid_choices


@cluster_check(
    "RDM104",
    "NCCL finds a GID that other hosts reach on every RoCE port",
    products=NVIDIA,
    several=False,
    optional=("job",),
)
def routable(all_: All, rdma: Mapping[str, Rdma], job: Mapping[str, Job | None]) -> Iterator[Finding]:
    """Why: a RoCE port has a GID for every address of its interface, in a version 1 and a version 2. With
    NCCL_IB_GID_INDEX NCCL takes the one of that slot, whatever it is: one that begins with fe80 ends in "Call to
    ibv_modify_qp failed with error Connection timed out", an empty slot in "Invalid argument". Without it NCCL 2.21 and
    later look for an IPv4 address in version 2, and find none where the interface has no address.

    Check manually: show_gids; or grep . /sys/class/infiniband/mlx5_0/ports/1/{gids,gid_attrs/types}/*; env | grep
    NCCL_IB

    Fix: unset NCCL_IB_GID_INDEX; where there is no GID: give the interface its address; where there is IPv6 alone:
    export NCCL_IB_ADDR_FAMILY=AF_INET6
    """
    gid_choices = _taken(all_, rdma, job)
    yield from gid_choices.skipped(all_, gid_choices.without)
    for name, port, gid in gid_choices.gids:
        gids, wanted = gids_of(rdma[name], port), index(_variables(job[name]))
        setting = f"NCCL_IB_GID_INDEX={wanted}" if wanted is not None else "NCCL's own choice"
        details: dict[str, Any] = {
            "host": name,
            "evidence": tuple(f"{entry.index} {entry.gid} {entry.kind}" for entry in gids[:20]),
        }
        if not gids:
            yield all_.unknown(f"{name}: {port.device}: its GIDs could not be read", host=name)
        elif gid is None and wanted is not None:
            yield all_.bad(
                f"{name}: {port.device}: {setting} is an empty slot; there are {_slots(gids)}",
                found="empty",
                remedy="unset NCCL_IB_GID_INDEX, or set it to one that is there",
                **details,
            )
        elif gid is not None and is_link_local(gid):
            why, remedy = _of_the_link(gid, gids, wanted)
            yield all_.bad(
                f"{name}: {port.device}: {setting} is {gid.gid}, which reaches no further than the link{why}",
                found=gid.gid,
                expected="a GID of an address",
                remedy=remedy,
                **details,
            )


def _of_the_link(gid: Gid, there: list[Gid], wanted: int | None) -> tuple[str, str]:
    """Return why NCCL takes a link-local GID, and the remedy."""
    if wanted is not None:
        return "", "unset NCCL_IB_GID_INDEX, or set it to the slot of an address"
    nic = gid.netdev or "the interface"
    routable_gids = [entry for entry in there if not is_link_local(entry)]
    if not routable_gids:
        return f": {nic} seems to have no address", f"ip address add ADDRESS/LENGTH dev {gid.netdev or 'INTERFACE'}"
    if routable_gids[0].address is None:
        why = f": {nic} has IPv6 addresses alone, and NCCL looks for IPv4 unless NCCL_IB_ADDR_FAMILY says otherwise"
        return why, "export NCCL_IB_ADDR_FAMILY=AF_INET6 on all hosts"
    return f": {nic} has IPv4 addresses alone, and NCCL_IB_ADDR_FAMILY is AF_INET6", "unset NCCL_IB_ADDR_FAMILY"


def _slots(gids: list[Gid]) -> str:
    return ", ".join(str(gid.index) for gid in gids[:8]) + (" …" if len(gids) > 8 else "")


@cluster_check("RDM105", "The GIDs that NCCL takes are of one kind on all hosts", products=NVIDIA, optional=("job",))
def one_kind(all_: All, rdma: Mapping[str, Rdma], job: Mapping[str, Job | None]) -> Iterator[Finding]:
    """Why: slots are filled in the order in which addresses come, so one index may be RoCE v2 on one host and v1, or an
    IPv6 address, on the next. Queue pairs of two kinds do not connect: "Call to ibv_modify_qp failed with error Invalid
    argument". All of them RoCE v1 is a warning: it is not routed, and switches do not spread it over their links.

    Check manually: show_gids   (on both hosts, at the index of NCCL_IB_GID_INDEX)

    Fix: unset NCCL_IB_GID_INDEX on all hosts: NCCL 2.21 and later look for the right one by themselves
    """
    kinds: dict[str, dict[str, None]] = defaultdict(dict)  # in order, once each
    gid_choices = _taken(all_, rdma, job)
    for name, _, gid in gid_choices.gids:
        if gid is not None and not is_link_local(gid):
            kinds[name][f"RoCE {gid.kind} with {'IPv4' if gid.address else 'IPv6'}"] = None
    words = {name: " and ".join(kinds_of_host) for name, kinds_of_host in kinds.items()}
    yield from gid_choices.skipped(all_, [name for name in rdma if name not in words])
    odd = list(odd_ones(words))
    for odd_host in odd:
        yield all_.bad(
            f"{odd_host.host}: NCCL takes GIDs of {odd_host.value}, {odd_host.elsewhere} of {odd_host.usual}",
            host=odd_host.host,
            peer=odd_host.others[0],
            expected=odd_host.usual,
            found=odd_host.value,
            remedy="unset NCCL_IB_GID_INDEX on all hosts, or set it to a slot that is RoCE v2 on all",
        )
    if not odd and any("v1" in word for word in words.values()):
        for name, word in words.items():
            yield all_.warn(
                f"{name}: NCCL takes GIDs of {word}, which is not routed",
                host=name,
                expected="RoCE v2",
                found=word,
                remedy="unset NCCL_IB_GID_INDEX and NCCL_IB_ROCE_VERSION_NUM",
            )


@dataclass(frozen=True)
class _Packets:
    """The packets that a port sends.

    `size`: bytes of data in a packet. `said`: the setting that decides the size."""

    size: int
    said: str
    is_roce: bool


@cluster_check(
    "RDM106", "RDMA packets are equally large on all hosts", products=NVIDIA, several=False, optional=("job",)
)
def packets(
    all_: All, rdma: Mapping[str, Rdma], network: Mapping[str, Network], job: Mapping[str, Job | None]
) -> Iterator[Finding]:
    """Why: the MTU of the interface decides how much data a RoCE packet has: 4096 bytes from an MTU of 4192 on, 1024
    with 1500. A port of InfiniBand has an active MTU of its own. Where two ends differ, the larger packet is an error
    of the smaller end: "IBV_WC_LOC_LEN_ERR", or "local access violation work queue error". Less than 4096 everywhere is
    a warning: it costs speed, and NCCL's communication from within kernels (GIN) wants 4096.

    Check manually: ibv_devinfo | grep active_mtu; ip link show   (on all hosts)

    Fix: ip link set NIC mtu 9000 on all hosts, lasting in the network's configuration, and as large on the switches;
    of InfiniBand: the MTU that HCA and switches are set to, and the subnet manager's partitions
    """
    gid_choices = _taken(all_, rdma, job)
    sent: dict[Place, dict[str, _Packets]] = defaultdict(dict)
    for name, port, gid in gid_choices.gids:
        nic = interface(network[name], gid) if gid else None
        if nic:
            setting = f"{nic.name} has MTU {nic.mtu}"
            sent[port.device, port.port][name] = _Packets(roce_mtu(nic.mtu), setting, is_roce=True)
    unread = dict[str, str]()
    for name, port in _infiniband(all_, rdma, job):
        if port.mtu is not None:
            setting = f"{port.device} has an active MTU of {port.mtu}"
            sent[port.device, port.port][name] = _Packets(port.mtu, setting, is_roce=False)
        elif rdma[name].mtu_unread:
            unread[name] = rdma[name].mtu_unread
        elif name in gid_choices.without:
            gid_choices.without[name] = "the MTU of its InfiniBand ports is not known: ibv_devinfo told none"
    small, reported = dict[str, _Packets](), set[str]()
    compared = {name for by_host in sent.values() for name in by_host}
    for place, by_host in sorted(sent.items()):
        odd = list(odd_ones({name: packets.size for name, packets in by_host.items()}))
        for odd_host in odd:
            yield all_.bad(
                f"{odd_host.host}: {place[0]} sends packets of {odd_host.value} bytes, {odd_host.elsewhere} of "
                f"{odd_host.usual}: {by_host[odd_host.host].said}",
                host=odd_host.host,
                peer=odd_host.others[0],
                expected=f"{odd_host.usual} bytes",
                found=f"{odd_host.value} bytes",
                remedy="the same MTU on all hosts, and on the switches between them",
            )
        if not odd:
            small = {name: packets for name, packets in by_host.items() if packets.size < LARGEST} | small
        reported |= {odd_host.host for odd_host in odd}
        compared &= set(by_host) if odd else compared
    for name, why in unread.items():  # even if its RoCE ports are fine
        yield all_.unknown(f"{name}: the MTU of its InfiniBand ports is not known: {why}", host=name)
    yield from gid_choices.skipped(
        all_, [name for name in rdma if name not in compared | reported | set(small) | set(unread)]
    )
    for name, packets in sorted(small.items()):
        yield all_.warn(
            f"{name}: RDMA packets have less than {LARGEST} bytes: {packets.said}",
            host=name,
            expected="MTU 4192 or more" if packets.is_roce else f"an active MTU of {LARGEST}",
            found=packets.said,
            remedy="ip link set NIC mtu 9000 on all hosts, and as much on the switches"
            if packets.is_roce
            else "ibv_devinfo | grep mtu; set HCA, switches and the subnet manager's partitions to 4096",
        )


def _infiniband(all_: All, rdma: Mapping[str, Rdma], job: Mapping[str, Job | None]) -> Iterator[tuple[str, RdmaPort]]:
    """Yield host and port of each active InfiniBand port that counts and that jobs use."""
    places = counted(all_.cluster, rdma.values())
    for name, host in rdma.items():
        ports = used(all_.cluster, job[name], [port for port in places.active(host) if port.link_layer == "InfiniBand"])
        if not isinstance(ports, str):
            yield from ((name, port) for port in ports)


@cluster_check(
    "RDM107", "An RDMA device's name stands for the same network on every host", products=NVIDIA, optional=("job",)
)
def same_rails(
    all_: All, rdma: Mapping[str, Rdma], network: Mapping[str, Network], job: Mapping[str, Job | None]
) -> Iterator[Finding]:
    """Why: NCCL connects the first device of a host to the first of another, by their names. Where mlx5_0 is in rail 0
    on one host and in rail 1 on the next, packets have to cross the rails, which many fabrics cannot: "Got completion
    with error 12", or a job that hangs. Hosts are compared that have the same networks; where every host has its own,
    and all is routed, there is nothing to compare.

    Check manually: rdma link show; ip -4 -brief address show   (on both hosts)

    Fix: give the interfaces the addresses of the same rails on all hosts, or names that last to the devices (udev,
    rdma-core's 60-rdma-persistent-naming.rules)
    """
    tables: dict[str, dict[str, IPv4Network]] = defaultdict(dict)
    gid_choices = _taken(all_, rdma, job)
    for name, port, gid in gid_choices.gids:
        nic = interface(network[name], gid) if gid else None
        addresses = [IPv4Interface(text) for text in nic.addresses if ":" not in text] if nic else []
        for address in addresses:
            if gid and str(address.ip) == gid.address:
                tables[name][port.device] = address.network
    alike: dict[frozenset[IPv4Network], dict[str, tuple[tuple[str, str], ...]]] = defaultdict(dict)
    for name, table in tables.items():
        if len(set(table.values())) > 1:
            alike[frozenset(table.values())][name] = tuple(sorted((key, str(value)) for key, value in table.items()))
    compared = {name for hosts in alike.values() if len(hosts) > 1 for name in hosts}
    odd = [list(odd_ones(hosts)) for hosts in alike.values()]
    if any(odd):
        yield from gid_choices.skipped(all_, [name for name in rdma if name not in compared])
    else:
        yield from gid_choices.skipped(all_, gid_choices.without)
    if any(len(odd_hosts) == len(hosts) for odd_hosts, hosts in zip(odd, alike.values(), strict=True) if odd_hosts):
        # Hosts of other networks cannot decide which of these is right, and must not make a majority by passing.
        odd_names = {odd_host.host for odd_hosts in odd for odd_host in odd_hosts}
        for name in sorted(compared - odd_names):
            yield all_.skip("as on the hosts with the same networks; of others nobody is known to be right", host=name)
    for odd_hosts in odd:
        for odd_host in odd_hosts:
            usual = dict(odd_host.usual)
            differences = [(device, place) for device, place in odd_host.value if usual.get(device) != place]
            device, place = differences[0] if differences else odd_host.value[0]
            yield all_.bad(
                f"{odd_host.host}: {device} is in {place}, on {odd_host.elsewhere} in {usual.get(device, 'none')}",
                host=odd_host.host,
                peer=odd_host.others[0],
                expected=", ".join(map(" ".join, odd_host.usual)),
                found=", ".join(map(" ".join, odd_host.value)),
                remedy="the same device in the same rail on every host: addresses, cables, or names of devices",
            )
