"""The hosts of a job: their devices, and the host NIC by which the others reach them. Pure."""

import re
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_interface, ip_network

from preflight.facts.types import ClusterFacts, HostFacts, Interface, Network
from preflight.launch.job import FROM_ONE_HOST, LOOPBACK, Launcher, Place
from preflight.model.cluster import Cluster, Host, Product
from preflight.model.errors import NotSeenError, UsageError
from preflight.rules.nics.hccl_nic import addresses
from preflight.rules.nics.inventory_nic import named_by

# What the kernel allows, less what a shell or a list in a variable would take for something else.
_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,14}")


def on_loopback(hosts: Sequence[Host]) -> bool:
    """Whether it is one host that the inventory knows by its loopback alone: its ranks meet there, and need no NIC."""
    return len(hosts) == 1 and hosts[0].nic is None and _is_loopback(hosts[0].address)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def must_look(hosts: Sequence[Host]) -> bool:
    """Whether the name of a host NIC is known to the hosts alone."""
    return any(host.nic is None or "/" in host.nic for host in hosts)


def wants_addresses(cluster: Cluster, launcher: Launcher) -> bool:
    """Whether every host gets HCCL_IF_IP, so that the address of its host NIC has to be known."""
    return cluster.product.is_npu and cluster.probe.backend == "hccl" and launcher not in FROM_ONE_HOST


def places(
    cluster: Cluster, hosts: Sequence[Host], wanted: tuple[int, ...] | None, facts: ClusterFacts | None
) -> list[Place]:
    """Those of a job's hosts, as `place` has each."""
    if on_loopback(hosts):
        return [replace(place(cluster, hosts[0], wanted, None), address=LOOPBACK)]
    return [place(cluster, host, wanted, facts) for host in hosts]


def place(cluster: Cluster, host: Host, wanted: tuple[int, ...] | None, facts: ClusterFacts | None) -> Place:
    """`wanted`: devices, None for all that the inventory has; `facts`: None where nobody looked.

    Raises UsageError for devices that a host does not have, NotSeenError where its NIC is not known.
    """
    planned = tuple(device.index for device in host.devices)
    chosen = planned if wanted is None else wanted
    missing = sorted(set(chosen) - set(planned)) if planned or cluster.product is not Product.CPU else []
    if missing:
        have = f"devices {planned[0]} to {planned[-1]}" if planned else "no devices"
        raise UsageError(f"{host.name} has {have} in the inventory, and no {', '.join(map(str, missing))}")
    if not chosen:
        raise UsageError(f"{host.name} has no devices in the inventory; --devices 0-3 says how many processes to start")
    if facts is None:
        named = host.nic if host.nic and "/" not in host.nic else ""
        return Place(host.name, host.address, chosen, named, host.address if _in(host.nic, host.address) else "")
    nic = _nic(host, facts)
    own = [str(address.ip) for version in (4, 6) for address in addresses(nic, version)]
    if not own:
        raise NotSeenError(f"{host.name}: its host NIC {nic.name} has no address")
    address = host.address if host.address in own else own[0]
    return Place(host.name, address, chosen, nic.name, address)


def _in(nic: str | None, address: str) -> bool:
    """Whether an address is of the network that the inventory calls the host NIC's."""
    try:
        return bool(nic and "/" in nic) and ip_address(address) in ip_network(str(nic), strict=False)
    except ValueError:
        return False  # a name


def _nic(host: Host, facts: ClusterFacts) -> Interface:
    """The interface that the inventory means: by its `nic`, or by the address that the host is reached at."""
    seen = facts.hosts.get(host.name)
    network = seen.network if isinstance(seen, HostFacts) else None
    if not isinstance(network, Network):
        why = getattr(seen, "summary", getattr(network, "error", "the facts do not hold it"))
        raise NotSeenError(f"{host.name}: its host NIC is not known: {why}; --offline does without")
    found = named_by(host.nic, network) if host.nic else _with_address(host.address, network)
    if len(found) != 1:
        what = f"the inventory's nic {host.nic}" if host.nic else f"the address {host.address}"
        there = ", ".join(filter(_INTERFACE.fullmatch, (interface.name for interface in network.interfaces)))
        count = "no interface is" if not found else "more than one interface is"
        raise NotSeenError(f"{host.name}: {count} {what}; there are {there or 'none'}; set nic in the inventory")
    if not _INTERFACE.fullmatch(found[0].name):
        raise NotSeenError(f"{host.name}: its host NIC has the name {found[0].name!r}, which no variable could hold")
    return found[0]


def _with_address(address: str, network: Network) -> list[Interface]:
    def has(interface: Interface) -> bool:
        return any(str(own.ip) == address for version in (4, 6) for own in addresses(interface, version))

    return [interface for interface in network.interfaces if has(interface)]


def common_network(hosts: Sequence[Host], facts: ClusterFacts | None) -> str:
    """The network in which all host NICs are, as a CIDR; empty where that is not one, or not known."""
    if all(host.nic and "/" in host.nic for host in hosts):
        networks = {str(host.nic) for host in hosts}
    elif facts and not on_loopback(hosts):
        nics = [_nic(host, facts) for host in hosts]
        networks = {str(ip_interface(own).network) for nic in nics for own in list(addresses(nic, 4))[:1]}
    else:
        networks = set()
    return networks.pop() if len(networks) == 1 else ""
