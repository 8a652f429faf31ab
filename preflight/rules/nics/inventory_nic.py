"""The host NIC that the inventory names, among the interfaces of a host. Pure."""

from ipaddress import IPv4Interface, IPv4Network

from preflight.facts.types import Interface, Network
from preflight.model.ip import read_ipv4_interface


def routable(interface: Interface) -> list[IPv4Interface]:
    """Return the IPv4 addresses of an interface that other hosts can reach."""
    ipv4_interfaces = [read_ipv4_interface(text) for text in interface.addresses if ":" not in text]
    return [address for address in ipv4_interfaces if not (address.ip.is_loopback or address.ip.is_link_local)]


def named_by(nic: str, network: Network) -> list[Interface]:
    """Return the interfaces that the inventory's `nic` means: by name, or by a CIDR that holds one of its addresses."""
    if "/" not in nic:
        return [interface for interface in network.interfaces if interface.name == nic]
    cidr = IPv4Network(nic, strict=False)
    return [i for i in network.interfaces if any(address.ip in cidr for address in routable(i))]
