"""The hosts of a job: their devices, and the host NIC by which the others reach them. Pure."""

import re
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_interface, ip_network

from preflight.facts.types import ClusterFacts, HostFacts, Interface, Network
from preflight.launch.job import FROM_ONE_HOST, LOOPBACK, JobHost, JobLauncher
from preflight.model.cluster import Cluster, Host, Product
from preflight.model.errors import NotSeenError, UsageError
from preflight.rules.nics.hccl_nic import addresses
from preflight.rules.nics.inventory_nic import named_by

# Names that the kernel allows, without characters that a shell or a list in a variable interprets.
_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,14}")


def on_loopback(hosts: Sequence[Host]) -> bool:
    """Return whether the job has one host with no address but loopback. Its ranks meet there, and need no NIC."""
    return len(hosts) == 1 and hosts[0].nic is None and _is_loopback(hosts[0].address)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def must_look(hosts: Sequence[Host]) -> bool:
    """Return whether the name of a host NIC is known to the hosts alone."""
    return any(host.nic is None or "/" in host.nic for host in hosts)


def wants_addresses(cluster: Cluster, launcher: JobLauncher) -> bool:
    """Return whether every host gets HCCL_IF_IP, which is the address of its host NIC."""
    return cluster.product.is_npu and cluster.probe.backend == "hccl" and launcher not in FROM_ONE_HOST


def places(
    cluster: Cluster, hosts: Sequence[Host], wanted: tuple[int, ...] | None, facts: ClusterFacts | None
) -> list[JobHost]:
    """Return the job's hosts, each as `place` makes it."""
    if on_loopback(hosts):
        return [replace(place(cluster, hosts[0], wanted, None), address=LOOPBACK)]
    return [place(cluster, host, wanted, facts) for host in hosts]


def place(cluster: Cluster, host: Host, wanted: tuple[int, ...] | None, facts: ClusterFacts | None) -> JobHost:
    """Return a host of the job with the `wanted` devices, None for all of the inventory.

    `facts` is None if no host was contacted. Raises UsageError for devices that a host does not have, and NotSeenError
    for an unknown NIC.
    """
    devices = _devices(cluster, host, wanted)
    if facts is None:
        name = host.nic if host.nic and "/" not in host.nic else ""
        return JobHost(host.name, host.address, devices, name, host.address if _in(host.nic, host.address) else "")
    nic = _nic(host, facts)
    own = [str(address.ip) for version in (4, 6) for address in addresses(nic, version)]
    if not own:
        raise NotSeenError(f"{host.name}: the host NIC {nic.name} has no address")
    address = host.address if host.address in own else own[0]
    return JobHost(host.name, address, devices, nic.name, address)


def _devices(cluster: Cluster, host: Host, wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    planned = tuple(device.index for device in host.devices)
    chosen = planned if wanted is None else wanted
    missing = sorted(set(chosen) - set(planned)) if planned or cluster.product is not Product.CPU else []
    if missing:
        have = f"devices {planned[0]} to {planned[-1]}" if planned else "no devices"
        raise UsageError(f"{host.name} has {have} in the inventory, but not {', '.join(map(str, missing))}")
    if not chosen:
        raise UsageError(f"{host.name} has no devices in the inventory. Set the processes to start with --devices 0-3")
    return chosen


def _in(nic: str | None, address: str) -> bool:
    """Return whether an address is in the network that the inventory has as the host NIC."""
    try:
        return bool(nic and "/" in nic) and ip_address(address) in ip_network(str(nic), strict=False)
    except ValueError:
        return False  # a name


def _nic(host: Host, facts: ClusterFacts) -> Interface:
    """Return the interface of the inventory's `nic`, or with the address at which the host is reached."""
    of_host = facts.hosts.get(host.name)
    network = of_host.network if isinstance(of_host, HostFacts) else None
    if not isinstance(network, Network):
        why = getattr(of_host, "summary", getattr(network, "error", "it was not collected"))
        raise NotSeenError(f"{host.name}: the host NIC is unknown ({why}). Use --offline to launch without it")
    nics = named_by(host.nic, network) if host.nic else _with_address(host.address, network)
    if len(nics) != 1:
        meaning = f"matches the inventory's nic {host.nic}" if host.nic else f"has the address {host.address}"
        names = ", ".join(filter(_INTERFACE.fullmatch, (interface.name for interface in network.interfaces)))
        count = "no interface" if not nics else "more than one interface"
        raise NotSeenError(f"{host.name}: {count} {meaning} (interfaces: {names or 'none'}). Set nic in the inventory")
    if not _INTERFACE.fullmatch(nics[0].name):
        raise NotSeenError(f"{host.name}: the host NIC's name {nics[0].name!r} cannot be put into a variable")
    return nics[0]


def _with_address(address: str, network: Network) -> list[Interface]:
    def has(interface: Interface) -> bool:
        return any(str(own.ip) == address for version in (4, 6) for own in addresses(interface, version))

    return [interface for interface in network.interfaces if has(interface)]


def common_network(hosts: Sequence[Host], facts: ClusterFacts | None) -> str:
    """Return the network of all host NICs as a CIDR; empty if it is unknown, or there are several."""
    if all(host.nic and "/" in host.nic for host in hosts):
        networks = {str(host.nic) for host in hosts}
    elif facts and not on_loopback(hosts):
        networks = {network for host in hosts for network in _first_network(_nic(host, facts))}
    else:
        return ""
    return networks.pop() if len(networks) == 1 else ""


def _first_network(nic: Interface) -> list[str]:
    """Return the network of a NIC's first IPv4 address, none without such an address."""
    return [str(ip_interface(address).network) for address in addresses(nic, 4)][:1]
