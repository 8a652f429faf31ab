"""Checks of a host's own address: one on the host NIC, and names that resolve to it."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from ipaddress import ip_address

from preflight.checks.engine.registry import Here, host_check
from preflight.facts.types import Names, Network
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.nics.inventory_nic import named_by, routable

_NAMED = 20  # names that one host's finding lists, since without a name server every host lacks all others
# Interfaces of container engines and hypervisors, which HCCL and NCCL take last or never.
_VIRTUAL = ("lo", "docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "tunl", "kube-", "cilium", "lxc")


@host_check("HST103", "Host NIC state and address")
def one_address(scribe: Here, network: Network) -> Iterator[Finding]:
    """Why: Each rank sends one host address to the other ranks. If a host has several addresses, libraries take the
    alphabetically first interface. Other hosts may be unable to reach that interface. The job then hangs until its
    connect timeout.

    Result: FAIL if the inventory's NIC is missing or down, or does not have exactly one routable IPv4 address. If the
    inventory gives no NIC, FAIL if the host has no such address, and WARN if it has several.

    Check manually:
      ip -4 -brief address show

    Fix: Set the NIC under [network] in the inventory: nic = "eth0", or the CIDR of its network. Also set it in the
    jobs' environment, with HCCL_SOCKET_IFNAME, NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME.
    """
    name, nic = scribe.host.name, scribe.host.nic
    if nic is None:
        yield from _candidates(scribe, network)
        return
    interfaces = named_by(nic, network)
    if len(interfaces) != 1:
        listed = ", ".join(interface.name for interface in interfaces or network.interfaces)
        count = "no interface" if not interfaces else "more than one interface"
        summary = f"{name}: {count} matches the inventory's host NIC {nic} (interfaces: {listed})"
        yield scribe.bad(summary, expected=nic, found=listed, remedy=f"correct nic of {name} in the inventory")
        return
    interface, addresses = interfaces[0], routable(interfaces[0])
    quoted = shlex.quote(interface.name)
    if not interface.up:
        yield scribe.bad(
            f"{name}: host NIC {interface.name} is down",
            remedy=f"bring {interface.name} up",
            commands=(scribe.on(name, f"ip link set {quoted} up"),),
        )
    elif len(addresses) != 1:
        listed = ", ".join(str(address) for address in addresses) or "none"
        yield scribe.bad(
            f"{name}: host NIC {interface.name} has {len(addresses)} routable IPv4 addresses",
            expected="one address",
            found=listed,
            remedy=f"give {interface.name} exactly one routable IPv4 address",
            retest=scribe.on(name, f"ip -4 address show dev {quoted}"),
        )


def _candidates(scribe: Here, network: Network) -> Iterator[Finding]:
    """Yield the finding about a host of which the inventory names no host NIC."""
    name = scribe.host.name
    interfaces = [nic for nic in network.interfaces if nic.up and not nic.name.startswith(_VIRTUAL)]
    usable = [f"{nic.name} {address.ip}" for nic in interfaces for address in routable(nic)]
    if not usable:
        yield scribe.bad(
            f"{name}: no interface that is up has a routable IPv4 address",
            remedy="give one interface a routable IPv4 address",
            retest=scribe.on(name, "ip -4 address show"),
        )
    elif len(usable) > 1:
        listed = ", ".join(usable)
        yield scribe.warn(
            f"{name}: several interfaces could be the host NIC: {listed}",
            found=listed,
            expected="one address",
            remedy="set nic under [network] in the inventory, to the interface's name or to its network (CIDR)",
        )


@host_check("HST104", "Local host name resolution", blocks=False)
def own_name(scribe: Here, names: Names) -> Iterator[Finding]:
    """Why: Programs such as torchrun, MPI and gloo send the address of their own host name to the other hosts. Debian's
    installer maps that name to 127.0.1.1. Every rank on another host then connects to itself.

    Result: FAIL if the name resolves to loopback or does not resolve. If the inventory gives the host NIC, the result
    is WARN, because the jobs' environment then sets the interface.

    Check manually:
      getent ahosts "$(hostname)"
      grep "$(hostname)" /etc/hosts

    Fix: In /etc/hosts, map the host name to the host NIC's address instead of 127.x.
    """
    name = scribe.host.name
    report = scribe.warn if scribe.host.nic else scribe.bad
    loopback = [address for address in names.hostname if ip_address(address.partition("%")[0]).is_loopback]
    listed = ", ".join(loopback)
    if loopback or not names.hostname:
        yield report(
            f"{name}: the host's own name "
            + (f"resolves to the loopback address {listed}" if loopback else "does not resolve"),
            found=listed,
            remedy=f"map the host name to {scribe.host.address} in /etc/hosts on {name}",
            retest=scribe.on(name, 'getent ahosts "$(hostname)"'),
        )


@host_check("HST105", "Cluster host name resolution", severity=Outcome.WARN)
def cluster_names(scribe: Here, names: Names) -> Iterator[Finding]:
    """Why: MASTER_ADDR, host files and rank tables often contain names. An outdated line in a host's /etc/hosts sends
    that host's ranks to the wrong machine.

    Result: WARN if a name does not resolve to the address in the inventory. In a cluster of more than 512 hosts, a host
    resolves its next 512 names, and all names to which its /etc/hosts gives another address.

    Check manually: Run this on every host. Replace NAME with the name in the finding.
      getent ahostsv4 NAME

    Fix: Add the same lines to /etc/hosts on every host, or add the names to DNS.
    """
    own, planned = scribe.host.name, scribe.cluster.ipv4_hosts
    if names.planned not in (0, len(scribe.cluster.hosts)):
        yield scribe.unknown(f"{own}: the names were resolved for an inventory of {names.planned} hosts")
        return
    wrong = _wrong_names(names, planned, own)
    if wrong:
        verb = "does" if len(wrong) == 1 else "do"
        count = (f"and {len(wrong) - _NAMED} more",) if len(wrong) > _NAMED else ()
        yield scribe.bad(
            f"{own}: {len(wrong)} of {names.resolved or len(planned)} host names {verb} not match the inventory: "
            f"{wrong[0]}",
            evidence=(*wrong[1:_NAMED], *count),
            remedy=f"correct the host names in /etc/hosts on {own} or in DNS, or use IP addresses in jobs",
        )


def _wrong_names(names: Names, planned: Mapping[str, str], own: str) -> list[str]:
    """Return the other hosts' names that do not resolve as planned, each with its addresses."""
    resolved = names.cluster if names.planned else planned  # older facts have all names
    wrong = []
    for name in resolved:
        addresses = names.cluster.get(name, ())
        if name in planned and name != own and planned[name] not in addresses:
            wrong.append(f"{name} {_resolution(addresses)} (inventory: {planned[name]})")
    return wrong


def _resolution(addresses: Collection[str]) -> str:
    return f"resolves to {', '.join(addresses)}" if addresses else "does not resolve"
