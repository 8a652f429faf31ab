"""Who pings whom in the second round: from the facts of the first to a plan. Pure.

A device goes through its pings one after the other; all devices go at the same time. Two things keep a device from
being pinged by many at once. First, in every step of a plan a device is pinged by one other, or by two: neighbours on
a rail form a ring, leaves are visited seat by seat, a mesh is a tournament whose pairs are disjoint (who has nobody to
meet in a step goes on with the next one). Second, every device has its steps in the same order, and an answered ping
takes about as long everywhere. There is no barrier between steps, which would cost a round trip each. So a device that
waits for lost packets falls behind, as does one whose host had to wait for the pool, and meets others later than
planned; but it still goes through them one by one, so each such device adds one ping at a time to somebody, not more.
"""

import gc
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from preflight.facts.pings.device_ports import Port, Rails, is_way, ports
from preflight.facts.pings.tournament import opponent, steps
from preflight.facts.sections.nic import Nic
from preflight.facts.types import ClusterFacts, HostFacts, Ping
from preflight.model.cluster import Cluster, Fabric, Host, Product
from preflight.model.errors import UsageError

OTHER_LEAVES = 4  # that a device looks behind; the other devices on its leaf look behind the next ones
MOST_PINGS = 1_000_000  # of one run: some 300 MB here, and a quarter of an hour at the least
HEADERS = 28  # bytes of IP and ICMP before a ping's data
LARGEST = 65507  # bytes of data


@dataclass(frozen=True)
class Wanted:
    """`mesh`: every host of the rail, not only neighbours; `cross_rail`: the devices of other rails, too, of the next
    host or, with `mesh`, of all hosts; `size`: bytes of data a packet, 0 for the tool's own."""

    mesh: bool = False
    cross_rail: bool = False
    size: int = 0


@dataclass(frozen=True)
class PingPlan:
    """`notes`: what was asked for and is left out, and why."""

    pings: tuple[Ping, ...] = ()
    notes: tuple[str, ...] = ()


NEIGHBOURS = Wanted()


def most_pings(devices: Mapping[str, Collection[int]], wanted: Wanted) -> int:
    """How many pings a plan for `devices` (host → indices) has at most, without making it."""
    rails: dict[int, int] = defaultdict(int)
    for indices in devices.values():
        for index in indices:
            rails[index] += 1
    every, widest = sum(rails.values()), max(rails, default=0)
    total = 4 * every  # gateway and neighbour, small and large
    if wanted.mesh and wanted.cross_rail:
        return total + every * (every - 1)
    if wanted.mesh:
        return total + sum(count * (count - 1) for count in rails.values())
    return total + every * (OTHER_LEAVES + (widest if wanted.cross_rail else 0))


def refuse_too_many(devices: Mapping[str, Collection[int]], wanted: Wanted) -> None:
    """Raises UsageError for a plan that nobody would wait for, and that would not fit into memory."""
    count = most_pings(devices, wanted)
    options = [word for word, on in (("--mesh", wanted.mesh), ("--cross-rail", wanted.cross_rail)) if on]
    if options and count > MOST_PINGS:
        raise UsageError(
            f"{' '.join(options)}: {len(devices):,} hosts make {count:,} pings, and "
            f"one run makes {MOST_PINGS:,} at most; name fewer hosts with --limit, or leave it out: "
            f"every device then pings the next host and one behind each of {OTHER_LEAVES} other leaves"
        )


def planned_devices(hosts: Sequence[Host]) -> dict[str, list[int]]:
    """host → device indices, as the inventory has them."""
    return {host.name: [device.index for device in host.devices] for host in hosts}


def plan_pings(cluster: Cluster, facts: ClusterFacts, wanted: Wanted = NEIGHBOURS) -> PingPlan:
    """The pings worth doing, not done yet, device by device, each device's in its order.

    From every device that has an address:
      - to its gateway, on a switched fabric;
      - along its rail to the next host, and to one host behind each of up to OTHER_LEAVES other leaves, different ones
        for the devices of a leaf; with `mesh` to every host of the rail;
      - with `cross_rail` to the other devices of the next host; with `mesh` to every device of all hosts;
      - unless a size is asked for, once more to gateway and next host with as much data as the MTU of both ends allows.
    And between the dies of a chip of Atlas A3 over HCCS, where their vNICs have addresses.

    Across rails only where there is a way: a subnet in common, or a gateway on both sides (the rails of Atlas A1 in SMP
    mode are four subnets), and never on a direct fabric. Devices of one host ping each other only in a mesh across
    rails, and not on Atlas A1, where device 0 routes for the others of its module; the dies of a chip of Atlas A3
    never, since they do not reach each other over RoCE. The two planes of an Atlas A2 with 16 devices are of PCIe: over
    RoCE they are one.

    Raises UsageError where more than MOST_PINGS are asked for.
    """
    all_ports = ports(cluster, facts)
    present: dict[str, list[int]] = defaultdict(list)
    for port in all_ports:
        present[port.host].append(port.device)
    refuse_too_many(present, wanted)
    rails = Rails(all_ports)
    switched = cluster.fabric is Fabric.SWITCHED
    pings: list[Ping] = []
    no_way = 0
    with _nothing_collected():
        for port, peers in zip(all_ports, _peers(all_ports, rails, wanted, cluster), strict=True):
            reached = [peer for peer in peers if peer.device == port.device or is_way(port, peer)]
            no_way += len(peers) - len(reached)
            gateway = port.gateway if switched else ""
            if gateway:
                pings.append(Ping(port.host, port.device, gateway, "gateway", size=wanted.size))
            pings += [Ping(port.host, port.device, peer.address, peer.name, size=wanted.size) for peer in reached]
            if not wanted.size:
                pings += _large(port, gateway, rails.neighbour(port))
        if cluster.product is Product.ATLAS_A3:
            pings += _over_hccs(facts)
        return PingPlan(tuple(pings), tuple(_notes(all_ports, wanted, switched=switched, no_way=no_way)))


def _notes(all_ports: Sequence[Port], wanted: Wanted, *, switched: bool, no_way: int) -> Iterator[str]:
    if wanted.cross_rail and not switched:
        yield "no pings across rails: on a direct fabric rails do not reach each other"
    if no_way:
        yield f"{no_way:,} pings across rails are left out: two subnets, without a gateway on both sides"
    small = sum(0 < port.mtu < wanted.size + HEADERS for port in all_ports) if wanted.size else 0
    if small:
        yield f"packets of {wanted.size} bytes exceed the MTU of {small:,} of the devices: split, or not sent"


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Without Python's garbage collector: nothing here becomes garbage, and to walk all facts again and again for each
    few thousand new pings takes as long as to plan them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _peers(all_ports: Sequence[Port], rails: Rails, wanted: Wanted, cluster: Cluster) -> Iterator[list[Port]]:
    """For each port the others to ping, gateways aside."""
    across = wanted.cross_rail and cluster.fabric is Fabric.SWITCHED
    for place, port in enumerate(all_ports):
        if wanted.mesh and across:
            yield list(_everybody(all_ports, place, cluster.product))
            continue
        peers = list(_mesh(*rails.rail(port)) if wanted.mesh else _neighbours(rails, port))
        yield [*peers, *rails.other_rails_of_the_next_host(port)] if across else peers


def _neighbours(rails: Rails, port: Port) -> Iterator[Port]:
    neighbour = rails.neighbour(port)
    if neighbour:
        yield neighbour
        yield from (peer for peer in rails.behind_other_leaves(port, OTHER_LEAVES) if peer.leaf != neighbour.leaf)


def _mesh(players: Sequence[Port], place: int) -> Iterator[Port]:
    """All others in the order of the tournament."""
    for step in range(steps(len(players))):
        peer = opponent(place, step, len(players))
        if peer is not None:
            yield players[peer]


def _everybody(players: Sequence[Port], place: int, product: Product) -> Iterator[Port]:
    port = players[place]
    for peer in _mesh(players, place):
        if peer.host != port.host or (
            product is not Product.ATLAS_A1
            and not (product is Product.ATLAS_A3 and is_sibling(peer.device, port.device))
        ):
            yield peer


def _over_hccs(facts: ClusterFacts) -> Iterator[Ping]:
    """From every device to the other die of its chip."""
    for name, host in facts.hosts.items():
        if isinstance(host, HostFacts) and isinstance(host.nic, Nic):
            addresses = {nic.index: nic.vnic.value.address for nic in host.nic.devices if nic.vnic.value}
            for device, address in addresses.items():
                sibling = device ^ 1
                if address and addresses.get(sibling):
                    yield Ping(name, device, addresses[sibling], f"{name}/{sibling}", purpose="hccs")


def is_sibling(one: int, other: int) -> bool:
    """Whether two devices of an Atlas A3 host are the dies of one chip: 0 and 1, 2 and 3, …"""
    return one != other and one // 2 == other // 2


def _large(port: Port, gateway: str, neighbour: Port | None) -> Iterator[Ping]:
    """As much as goes into one packet."""
    if gateway and port.mtu > HEADERS:
        yield Ping(port.host, port.device, gateway, "gateway", size=port.mtu - HEADERS, purpose="mtu")
    if neighbour and (mtu := min(port.mtu, neighbour.mtu)) > HEADERS:
        yield Ping(port.host, port.device, neighbour.address, neighbour.name, size=mtu - HEADERS, purpose="mtu")
