"""The host NIC that HCCL chooses: one that exists, and that the other hosts reach."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network

from preflight.checks.hccl_nic import FIRST, Choice, choose
from preflight.checks.hosts import named_by
from preflight.checks.majority import Odd, odd_ones
from preflight.checks.registry import NPU, All, cluster_check
from preflight.facts.firewall import Arrivals
from preflight.facts.job import Job
from preflight.facts.types import Network, Route
from preflight.model.cluster import Host
from preflight.model.finding import Finding

Place = IPv4Network | IPv6Network
_REMEDY = "export HCCL_SOCKET_IFNAME==NIC in the jobs' environment (the second = means: exactly this one)"


@cluster_check("HST110", "HCCL chooses a host NIC that every other host reaches", products=NPU, several=False,
               optional=("arrivals",))  # fmt: skip
def reached(
    all_: All, job: Mapping[str, Job], network: Mapping[str, Network], arrivals: Mapping[str, Arrivals | None]
) -> Iterator[Finding]:
    """Why: the ranks meet on the host NICs (port 60000), and each host chooses its own: HCCL_IF_IP, else the NIC that
    HCCL_SOCKET_IFNAME names, else the first by name that is not docker's. A storage NIC or a bridge whose name comes
    first is enough for EI0015 after two minutes. Connections that were tried to the chosen address settle it;
    otherwise networks and routes are compared.

    By hand: env | grep -E 'HCCL_IF_IP|HCCL_SOCKET'; ip -brief address show; ip route get ADDRESS-OF-THE-OTHER-HOST

    Mend: name the NIC in the jobs' environment: HCCL_SOCKET_IFNAME==eth0 (the second = means: exactly this one)
    """
    choices: dict[str, Choice] = {}
    for host in all_.hosts:
        choice = choose(job[host.name].variables, network[host.name])
        if isinstance(choice, Choice) and choice.address.ip.is_loopback and choice.why == FIRST:
            continue  # no other one is up: HST103
        if isinstance(choice, str):
            yield all_.bad(f"{host.name}: HCCL finds no host NIC: {choice}", host=host.name, remedy=_REMEDY)
        else:
            choices[host.name] = choice
    unreached = list(_unreached(all_, choices, network, arrivals)) if len(all_.hosts) > 1 else []
    yield from unreached
    named = {finding.host for finding in unreached}
    for host in all_.hosts:
        if host.name in choices and host.name not in named:
            yield from _other_than_planned(all_, host, choices[host.name], network[host.name])


def _unreached(
    all_: All, choices: Mapping[str, Choice], network: Mapping[str, Network], arrivals: Mapping[str, Arrivals | None]
) -> Iterator[Finding]:
    places: dict[str, Place] = {}
    first: dict[str, str] = {}  # address → the host that has it
    for name, choice in choices.items():
        what = f"{name}: HCCL would take {choice.nic} {choice.address} ({choice.why})"
        other = first.setdefault(str(choice.address.ip), name)
        if choice.address.ip.is_loopback:
            yield all_.bad(f"{what}, which no other host reaches", host=name, found=choice.nic, remedy=_REMEDY)
        elif other != name:
            yield all_.bad(f"{what}, as {other} does", host=name, peer=other, found=choice.nic, remedy=_REMEDY)
        else:
            places[name] = choice.address.network
    crossed = _crossed(choices, places, arrivals)
    for odd in odd_ones(places):
        if odd.value not in crossed:
            yield from _apart(all_, odd, choices, network[odd.host])


def _other_than_planned(all_: All, host: Host, choice: Choice, network: Network) -> Iterator[Finding]:
    wanted = [interface.name for interface in named_by(host.nic, network)] if host.nic else []
    if len(wanted) == 1 and choice.nic not in wanted:
        yield all_.warn(
            f"{host.name}: HCCL would take {choice.nic} ({choice.why}), and the inventory's host NIC is {wanted[0]}",
            host=host.name, expected=wanted[0], found=choice.nic, remedy=_REMEDY.replace("NIC", wanted[0], 1),
        )  # fmt: skip


def _crossed(
    choices: Mapping[str, Choice], places: Mapping[str, Place], arrivals: Mapping[str, Arrivals | None]
) -> set[Place]:
    """The networks into which connections from another one were tried, to an address that HCCL would take: they came
    through, or FWL104 speaks about them."""
    return {
        place
        for target, place in places.items()
        for one in (arrivals[target] or Arrivals()).tries
        if places.get(one.source, place) != place
        and one.address == str(choices[target].address.ip)
        and (one.came_through or one.died)
    }


def _apart(all_: All, odd: Odd[Place], choices: Mapping[str, Choice], network: Network) -> Iterator[Finding]:
    """A host whose NIC is in another network than that of the others: the way to them has to lead through that NIC."""
    own, peer = choices[odd.host], choices[odd.others[0]]
    route = _route(network, peer)
    if route and route.interface == own.nic and route.destination != "default":
        return
    told, way = all_.bad, "no route between them"
    if route and route.interface != own.nic:
        way = f"the way to {peer.address.ip} leads through {route.interface}"
    elif route:
        told, way = all_.warn, "only the default route leads there"
    yield told(
        f"{odd.host}: HCCL would take {own.nic} {own.address} ({own.why}), and {odd.elsewhere} {peer.nic} "
        f"{peer.address}: two networks, and {way}",
        host=odd.host, peer=odd.others[0], found=str(own.address), remedy=_REMEDY,
    )  # fmt: skip


def _route(network: Network, peer: Choice) -> Route | None:
    """The route that the kernel takes to the peer's address: the longest that fits."""
    fitting = [(place.prefixlen, route) for route in network.routes if peer.address.ip in (place := _place(route))]
    return max(fitting, key=lambda one: one[0])[1] if fitting else None


def _place(route: Route) -> Place:
    return ip_network("0.0.0.0/0" if route.destination == "default" else route.destination, strict=False)
