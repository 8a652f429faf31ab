"""Findings about the host NICs that a library chooses, and that may not reach each other. Pure."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from preflight.checks.engine.registry import All
from preflight.checks.shared.majority import Odd, odd_ones
from preflight.facts.sections.firewall import Arrivals
from preflight.facts.types import Interface, Network, Route
from preflight.model.cluster import Host
from preflight.model.finding import Finding
from preflight.rules.nics.hccl_nic import NicChoice, NoNic
from preflight.rules.nics.inventory_nic import named_by

Place = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Library:
    """A library that chooses a host NIC. `remedy`: the way in which a job names the interface {nic} to it."""

    name: str
    remedy: str

    def fix(self, nic: str, file: str, unset: str = "") -> str:
        """Return the remedy that sets `nic`, in the file that sets it now, if any; "" for a NIC that is not known."""
        text = self.remedy.format(nic=nic or "NIC", where=file or "the jobs' environment")
        text = text.replace("OMPI_MCA_", "") if file else text
        text = f"unset {unset}, and {text}" if unset else text
        return text if nic else f"{text}. Replace NIC with the name of the host NIC"


def judged(
    scribe: All,
    library: Library,
    chosen: Mapping[str, NicChoice | NoNic],
    network: Mapping[str, Network],
    arrivals: Mapping[str, Arrivals | None],
) -> Iterator[Finding]:
    """Yield the problems of the choices, by host.

    Connections that were tried to the chosen address prove
    that it is reached, or not. Without them, networks and routes are compared."""
    choices = {name: choice for name, choice in chosen.items() if isinstance(choice, NicChoice)}
    for name, choice in chosen.items():
        if isinstance(choice, NoNic):
            fix = _fix(scribe, library, name, choice, network)
            yield scribe.bad(f"{name}: {library.name} finds no host NIC: {choice.why}", host=name, **fix)
    unreached = list(_connection_problems(scribe, library, choices, network, arrivals)) if len(scribe.hosts) > 1 else []
    yield from unreached
    unreached_hosts = {finding.host for finding in unreached}
    for host in scribe.hosts:
        if host.name in choices and host.name not in unreached_hosts:
            yield from _unplanned(scribe, library, host, choices[host.name], network[host.name])


def _connection_problems(
    scribe: All,
    library: Library,
    choices: Mapping[str, NicChoice],
    network: Mapping[str, Network],
    arrivals: Mapping[str, Arrivals | None],
) -> Iterator[Finding]:
    places: dict[str, Place] = {}
    first: dict[str, str] = {}  # address → the host that has it
    for name, choice in choices.items():
        subject = f"{name}: {library.name} would choose {choice.nic} {choice.address} ({choice.why})"
        first_host = first.setdefault(str(choice.address.ip), name)
        fix = _fix(scribe, library, name, choice, network)
        if choice.address.ip.is_loopback:
            summary = f"{subject}. No other host can reach this loopback address"
            yield scribe.bad(summary, host=name, found=choice.nic, **fix)
        elif first_host != name:
            summary = f"{subject}. {first_host} has the same address"
            yield scribe.bad(summary, host=name, peer=first_host, found=choice.nic, **fix)
        else:
            places[name] = choice.address.network
    connected = _connected_networks(choices, places, arrivals)
    for odd in odd_ones(places):
        if odd.value not in connected:
            yield from _in_other_network(scribe, library, odd, choices, network)


def _fix(
    scribe: All, library: Library, name: str, choice: NicChoice | NoNic, network: Mapping[str, Network]
) -> Mapping[str, Any]:
    """Return remedy and commands: bring the wanted NIC up, else name the inventory's host NIC to the library.

    A library that has chosen that NIC needs another address or route."""
    wanted = _inventory_nic(scribe, name, network)
    down = _down(wanted, choice)
    if down:
        return {"remedy": f"bring {down} up", "commands": (scribe.on(name, f"ip link set {shlex.quote(down)} up"),)}
    if wanted and isinstance(choice, NicChoice) and choice.nic == wanted.name:
        return {"remedy": f"correct the address or the routes of {wanted.name}"}
    return {"remedy": library.fix(wanted.name if wanted else "", choice.file, choice.unset)}


def _inventory_nic(scribe: All, name: str, network: Mapping[str, Network]) -> Interface | None:
    """Return the host NIC of the inventory; None if that is not exactly one interface."""
    nic = scribe.cluster.by_name[name].nic
    interfaces = named_by(nic, network[name]) if nic else []
    return interfaces[0] if len(interfaces) == 1 else None


def _down(wanted: Interface | None, choice: NicChoice | NoNic) -> str:
    """Return the NIC that jobs should use and that is down: the inventory's, else the one of the library's setting."""
    if wanted:
        return "" if wanted.up else wanted.name
    return choice.down if isinstance(choice, NoNic) else ""


def _unplanned(scribe: All, library: Library, host: Host, choice: NicChoice, network: Network) -> Iterator[Finding]:
    wanted = [interface.name for interface in named_by(host.nic, network)] if host.nic else []
    if len(wanted) == 1 and choice.nic not in wanted:
        yield scribe.warn(
            f"{host.name}: {library.name} would choose {choice.nic} ({choice.why}). The host NIC in the inventory is "
            f"{wanted[0]}",
            host=host.name,
            expected=wanted[0],
            found=choice.nic,
            remedy=library.fix(wanted[0], choice.file, choice.unset),
        )


def _connected_networks(
    choices: Mapping[str, NicChoice], places: Mapping[str, Place], arrivals: Mapping[str, Arrivals | None]
) -> set[Place]:
    """Return the networks with connections that were tried from another network to a chosen address.

    These connections succeeded, or FWL104 reports them."""
    return {
        place
        for target, place in places.items()
        for arrival in (arrivals[target] or Arrivals()).tries
        if places.get(arrival.source, place) != place
        and arrival.address == str(choices[target].address.ip)
        and (arrival.came_through or arrival.died)
    }


def _in_other_network(
    scribe: All, library: Library, odd: Odd[Place], choices: Mapping[str, NicChoice], network: Mapping[str, Network]
) -> Iterator[Finding]:
    """Yield the finding about a host with its NIC in another network than the others' NICs. The route to them has to
    use that NIC."""
    own, peer = choices[odd.host], choices[odd.others[0]]
    route = _route(network[odd.host], peer)
    if route and route.interface == own.nic and route.destination != "default":
        return
    report, way = scribe.bad, " without a route between them"
    if route and route.interface != own.nic:
        way = f", and the route to {peer.address.ip} uses {route.interface}"
    elif route:
        report, way = scribe.warn, " with only the default route between them"
    yield report(
        f"{odd.host}: {library.name} would choose {own.nic} {own.address} ({own.why}) here, and {peer.nic} "
        f"{peer.address} on {odd.elsewhere}. These are different networks{way}",
        host=odd.host,
        peer=odd.others[0],
        found=str(own.address),
        **_fix(scribe, library, odd.host, own, network),
    )


def _route(network: Network, peer: NicChoice) -> Route | None:
    """Return the route that the kernel takes to the peer's address: the longest that fits."""
    fitting = [(place.prefixlen, route) for route in network.routes if peer.address.ip in (place := _place(route))]
    return max(fitting, key=lambda entry: entry[0])[1] if fitting else None


def _place(route: Route) -> Place:
    return ip_network("0.0.0.0/0" if route.destination == "default" else route.destination, strict=False)
