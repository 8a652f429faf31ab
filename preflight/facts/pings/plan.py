"""Plan of the second round's pings between devices, from the facts of the first round. Pure.

A device sends its pings one after the other, and all devices send at the same time. Two rules prevent that many devices
ping the same device at once. First, in every step of a plan only one or two devices ping a device. Neighbours on a rail
form a ring, leaves are visited seat by seat, and a mesh is a tournament with disjoint pairs. A device without an
opponent in a step goes on with the next step. Second, every device has its steps in the same order, and an answered
ping takes about as long everywhere.

There is no barrier between steps, as each one would cost a round trip. So a device falls behind if it waits for lost
packets, or if its host had to wait for the pool, and pings others later than planned. But it still sends one ping at a
time, so each such device adds at most one ping at a time to another device.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.facts.pings.device_ports import Port, Rails, is_routable, ports
from preflight.facts.pings.tournament import opponent, steps
from preflight.facts.sections.nic import Nic
from preflight.facts.types import ClusterFacts, HostFacts
from preflight.model.cluster import Cluster, Fabric, Host, Product
from preflight.model.errors import UsageError
from preflight.model.garbage import nothing_collected
from preflight.model.ping import Ping

OTHER_LEAVES = 4  # leaves that a device pings behind; the other devices on its leaf ping behind the next leaves
MOST_PINGS = 1_000_000  # of one run: some 300 MB on the controller, and at least a quarter of an hour
HEADERS = 28  # bytes of IP and ICMP before a ping's data


@dataclass(frozen=True)
class PingScope:
    """The requested scope of pings. `size`: bytes of data per packet, 0 for the tool's default.

    `mesh`: every host of the rail instead of neighbours. `cross_rail`: also the devices of other rails, those of the
    next host or, with `mesh`, of all hosts.
    """

    mesh: bool = False
    cross_rail: bool = False
    size: int = 0


@dataclass(frozen=True)
class PingPlan:
    """The pings of the second round. `notes`: sentences on requested pings that are left out, and the reason."""

    pings: tuple[Ping, ...] = ()
    notes: tuple[str, ...] = ()


NEIGHBOURS = PingScope()


def most_pings(devices: Mapping[str, Collection[int]], scope: PingScope) -> int:
    """Return an upper bound of the pings in a plan for `devices` (host → indices), without making the plan."""
    rails: dict[int, int] = defaultdict(int)
    for indices in devices.values():
        for index in indices:
            rails[index] += 1
    device_count, highest_rail = sum(rails.values()), max(rails, default=0)
    total = 4 * device_count  # gateway and neighbour, small and large
    if scope.mesh and scope.cross_rail:
        return total + device_count * (device_count - 1)
    if scope.mesh:
        return total + sum(count * (count - 1) for count in rails.values())
    return total + device_count * (OTHER_LEAVES + (highest_rail if scope.cross_rail else 0))


def refuse_too_many(devices: Mapping[str, Collection[int]], scope: PingScope) -> None:
    """Raise UsageError for a plan that would take too long and would not fit into memory."""
    count = most_pings(devices, scope)
    options = [word for word, is_set in (("--mesh", scope.mesh), ("--cross-rail", scope.cross_rail)) if is_set]
    if options and count > MOST_PINGS:
        words = " ".join(options)
        raise UsageError(
            f"{words} would send {count:,} pings between {len(devices):,} hosts. The limit is "
            f"{MOST_PINGS:,}. Choose fewer hosts with --limit. Without {words}, each device pings the next host and "
            f"one host behind each of {OTHER_LEAVES} other leaves"
        )


def planned_devices(hosts: Sequence[Host]) -> dict[str, list[int]]:
    """Return host → device indices, as the inventory has them."""
    return {host.name: [device.index for device in host.devices] for host in hosts}


def plan_pings(cluster: Cluster, facts: ClusterFacts, scope: PingScope = NEIGHBOURS) -> PingPlan:
    """Return the planned pings, device by device, each device's in its order.

    A device with its link down sends only one ping, since it would wait for every other. Every other device that has
    an address pings:
      - its gateway, on a switched fabric.
      - the next host along its rail, and one host behind each of up to OTHER_LEAVES other leaves, which differ for the
        devices of a leaf. With `mesh`, every host of the rail.
      - with `cross_rail` the other devices of the next host. With `mesh` as well, every device of all hosts.
      - its gateway and the next host once more, with as much data as the MTU of both ends allows.
    A requested size leaves the last of these out. The dies of a chip of Atlas A3 also ping each other over HCCS, if
    their vNICs have addresses.

    Pings across rails need a common subnet, or a gateway on both sides (the rails of Atlas A1 in SMP mode are four
    subnets). A direct fabric never has such pings. Devices of one host ping each other only in a mesh across rails.
    Devices of an Atlas A1 host never do, as device 0 routes for the others of its module. Neither do the dies of a chip
    of Atlas A3, which do not reach each other over RoCE. The two planes of an Atlas A2 with 16 devices belong to PCIe:
    over RoCE they are one.

    Raises UsageError if the plan would have more than MOST_PINGS pings.
    """
    all_ports = ports(cluster, facts)
    refuse_too_many(_devices(all_ports), scope)
    rails = Rails(all_ports)
    switched = cluster.fabric is Fabric.SWITCHED
    pings: list[Ping] = []
    unroutable = 0
    with nothing_collected():
        for port, peers in zip(all_ports, _peers(all_ports, rails, scope, cluster), strict=True):
            routable = [peer for peer in peers if peer.device == port.device or is_routable(port, peer)]
            unroutable += len(peers) - len(routable)
            gateway = port.gateway if switched else ""
            of_port = _small(port, gateway, routable, scope.size)
            if not scope.size:
                of_port += _large(port, gateway, rails.neighbour(port))
            pings += of_port[:1] if port.down else of_port
        if cluster.product is Product.ATLAS_A3:
            pings += _over_hccs(facts)
        return PingPlan(tuple(pings), tuple(_notes(all_ports, scope, switched=switched, no_way=unroutable)))


def _devices(all_ports: Sequence[Port]) -> dict[str, list[int]]:
    devices: dict[str, list[int]] = defaultdict(list)
    for port in all_ports:
        devices[port.host].append(port.device)
    return devices


def _notes(all_ports: Sequence[Port], scope: PingScope, *, switched: bool, no_way: int) -> Iterator[str]:
    if scope.cross_rail and not switched:
        yield "pings across rails are omitted, because a direct fabric does not connect rails"
    if no_way:
        reason = "because the subnets differ and at least one side has no gateway"
        yield f"{no_way:,} pings across rails are omitted, {reason}"
    small_mtus = sum(0 < port.mtu < scope.size + HEADERS for port in all_ports) if scope.size else 0
    if small_mtus:
        number = f"{small_mtus:,} of {len(all_ports):,} devices"
        yield f"packets of {scope.size} bytes exceed the MTU of {number}. Such packets are split or not sent"


def _peers(all_ports: Sequence[Port], rails: Rails, scope: PingScope, cluster: Cluster) -> Iterator[list[Port]]:
    """Yield for each port the other ports that it pings, without gateways."""
    crosses_rails = scope.cross_rail and cluster.fabric is Fabric.SWITCHED
    for position, port in enumerate(all_ports):
        if scope.mesh and crosses_rails:
            yield list(_all_peers(all_ports, position, cluster.product))
            continue
        peers = list(_mesh(*rails.rail(port)) if scope.mesh else _neighbours(rails, port))
        yield [*peers, *rails.other_rails_of_the_next_host(port)] if crosses_rails else peers


def _neighbours(rails: Rails, port: Port) -> Iterator[Port]:
    neighbour = rails.neighbour(port)
    if neighbour:
        yield neighbour
        yield from (peer for peer in rails.behind_other_leaves(port, OTHER_LEAVES) if peer.leaf != neighbour.leaf)


def _mesh(players: Sequence[Port], place: int) -> Iterator[Port]:
    """Yield all other ports in the order of the tournament."""
    for step in range(steps(len(players))):
        peer = opponent(place, step, len(players))
        if peer is not None:
            yield players[peer]


def _all_peers(players: Sequence[Port], place: int, product: Product) -> Iterator[Port]:
    port = players[place]
    for peer in _mesh(players, place):
        if peer.host != port.host or (
            product is not Product.ATLAS_A1
            and not (product is Product.ATLAS_A3 and is_sibling(peer.device, port.device))
        ):
            yield peer


def _over_hccs(facts: ClusterFacts) -> Iterator[Ping]:
    """Yield a ping from every device to the other die of its chip."""
    for name, host in facts.hosts.items():
        if isinstance(host, HostFacts) and isinstance(host.nic, Nic):
            addresses = {nic.index: nic.vnic.value.address for nic in host.nic.devices if nic.vnic.value}
            for device, address in addresses.items():
                sibling = device ^ 1
                if address and addresses.get(sibling):
                    yield Ping(name, device, addresses[sibling], f"{name}/{sibling}", purpose="hccs")


def is_sibling(one: int, other: int) -> bool:
    """Return whether two devices of an Atlas A3 host are the dies of one chip: 0 and 1, 2 and 3, …"""
    return one != other and one // 2 == other // 2


def _small(port: Port, gateway: str, peers: Sequence[Port], size: int) -> list[Ping]:
    """Return the pings of a port to its gateway and its peers."""
    targets = [("gateway", gateway)] if gateway else []
    targets += [(peer.name, peer.address) for peer in peers]
    return [Ping(port.host, port.device, address, name, size=size) for name, address in targets]


def _large(port: Port, gateway: str, neighbour: Port | None) -> Iterator[Ping]:
    """Yield the pings with the most data that fits into one packet."""
    if gateway and port.mtu > HEADERS:
        yield Ping(port.host, port.device, gateway, "gateway", size=port.mtu - HEADERS, purpose="mtu")
    if neighbour and not neighbour.down and (mtu := min(port.mtu, neighbour.mtu)) > HEADERS:
        yield Ping(port.host, port.device, neighbour.address, neighbour.name, size=mtu - HEADERS, purpose="mtu")
