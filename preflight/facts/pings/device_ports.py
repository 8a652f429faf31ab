"""Network ports of devices, by rail, leaf and host. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from preflight.facts.types import ClusterFacts, Hccn, HccnDevice, HostFacts
from preflight.model.cluster import Cluster, Device


@dataclass(frozen=True, slots=True)
class Port:
    """A device's network port that has an address. `netmask` and `gateway` "", `mtu` 0, `leaf` None: not known.

    `down`: its link is known to be down.
    """

    host: str
    device: int
    name: str  # "node01/3"
    address: str
    netmask: str
    gateway: str
    mtu: int
    leaf: str | None
    down: bool = False


def ports(cluster: Cluster, facts: ClusterFacts) -> tuple[Port, ...]:
    """Return the ports, host by host in the order of `facts`, by device index.

    The gateway is the inventory's, or else the device's.
    """
    inventory = {(host.name, device.index): device for host in cluster.hosts for device in host.devices}
    return tuple(
        _port(name, device, inventory.get((name, device.index)))
        for name, host in facts.hosts.items()
        if isinstance(host, HostFacts) and isinstance(host.hccn, Hccn)
        for device in sorted(host.hccn.devices, key=lambda device: device.index)
        if device.address.value
    )


def _port(host: str, device: HccnDevice, planned: Device | None) -> Port:
    gateway = str(planned.gateway) if planned and planned.gateway else device.gateway.value
    mtu = device.mtu.value or ""
    return Port(
        host,
        device.index,
        f"{host}/{device.index}",
        device.address.value or "",
        device.netmask.value or "",
        gateway or "",
        int(mtu) if mtu.isdecimal() and len(mtu) < 6 else 0,
        device.leaf.value,
        device.link.value == "DOWN",
    )


class Rails:
    """Ports with their positions on their rails, behind their leaves and among the hosts."""

    def __init__(self, ports: Sequence[Port]) -> None:
        self._rails: dict[int, list[Port]] = defaultdict(list)
        self._leaves: dict[int, dict[str | None, list[Port]]] = defaultdict(dict)
        self._hosts: dict[str, dict[int, Port]] = defaultdict(dict)
        self._place: dict[str, int] = {}
        self._seat: dict[str, int] = {}
        for port in ports:
            rail, leaf = self._rails[port.device], self._leaves[port.device].setdefault(port.leaf, [])
            self._place[port.name], self._seat[port.name] = len(rail), len(leaf)
            rail.append(port)
            leaf.append(port)
            self._hosts[port.host][port.device] = port
        self._behind = {device: tuple(leaves.values()) for device, leaves in self._leaves.items()}
        self._number = {
            device: {leaf: number for number, leaf in enumerate(leaves)} for device, leaves in self._leaves.items()
        }
        names = list(self._hosts)
        self._next_host = dict(zip(names, [*names[1:], *names[:1]], strict=True))

    def rail(self, port: Port) -> tuple[Sequence[Port], int]:
        """Return the port's rail, and its position on it."""
        return self._rails[port.device], self._place[port.name]

    def neighbour(self, port: Port) -> Port | None:
        """Return the next port on the rail, which is a ring; None if there is no other port."""
        rail, place = self.rail(port)
        return rail[(place + 1) % len(rail)] if len(rail) > 1 else None

    def behind_other_leaves(self, port: Port, limit: int) -> Iterator[Port]:
        """Yield a port of the same rail behind each of `limit` other leaves. Ports without LLDP count as one leaf.

        The first port of a leaf visits the first ports behind the next `limit` leaves. The second one visits the second
        ports behind the `limit` leaves after these, and so on. So few ports visit the same port, and the ports of a
        full leaf visit all other leaves.
        """
        leaves, seat = self._behind[port.device], self._seat[port.name]
        own = self._number[port.device][port.leaf]
        other_leaves = len(leaves) - 1
        for visit in range(min(limit, other_leaves)):
            leaf = leaves[(own + 1 + (seat * limit + visit) % other_leaves) % len(leaves)]
            yield leaf[seat % len(leaf)]

    def other_rails_of_the_next_host(self, port: Port) -> Iterator[Port]:
        """Yield the next host's ports on other rails, from the port's next rail on.

        So no two devices of a host begin with the same port.
        """
        next_host = self._next_host[port.host]
        if next_host == port.host:
            return
        devices = sorted(self._hosts[next_host])
        later_devices = [device for device in devices if device > port.device]
        for device in [*later_devices, *(device for device in devices if device < port.device)]:
            yield self._hosts[next_host][device]


def is_routable(one: Port, other: Port) -> bool:
    """Return whether packets can be routed: the same subnet, or a gateway on both sides.

    Unknown settings count as routable.
    """
    if one.gateway and other.gateway:
        return True
    try:
        mask = int(IPv4Address(one.netmask))
        return int(IPv4Address(one.address)) & mask == int(IPv4Address(other.address)) & mask
    except AddressValueError:
        return True


def leaves(facts: ClusterFacts) -> dict[tuple[str, int], str]:
    """Return (host, device) → the switch of its port by LLDP, for ports with a known switch."""
    return {
        (name, device.index): device.leaf.value
        for name, host in facts.hosts.items()
        if isinstance(host, HostFacts) and isinstance(host.hccn, Hccn)
        for device in host.hccn.devices
        if device.leaf.value
    }
