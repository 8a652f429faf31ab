"""Connections between the hosts that are lost or refused, and what on the hosts may be the reason. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from preflight.facts.sections.firewall import Arrival
from preflight.model.cluster import FirewallPolicy
from preflight.rules.firewall.disabling import still_on
from preflight.rules.firewall.gate import Gate
from preflight.rules.firewall.gate_inputs import GateInputs
from preflight.rules.firewall.gates import gates

_UNJUDGED = "which preflight does not judge"


@dataclass(frozen=True)
class Loss:
    """Connections that died on their way to `target`, and of which FWL101 does not speak."""

    source: str
    target: str
    dead: tuple[Arrival, ...]
    tried: int
    why: str  # what the target's firewall, as it is known, has to do with it
    look: str = ""  # what to type on the target before looking elsewhere


def losses(target: str, tries: Sequence[Arrival], place: GateInputs | None) -> Iterator[Loss]:
    """The connections to `target` that died, sender by sender. `place` None: its firewall could not be looked at."""
    walls = gates(place) if place else []
    for source in dict.fromkeys(one.source for one in tries):
        own = [one for one in tries if one.source == source]
        dead = [one for one in own if one.died and not (place and _told_already(place, walls, one))]
        if dead:
            why = _why(place, walls, dead)
            yield Loss(source, target, tuple(dead), len(own), why, _look(place) if why.endswith(_UNJUDGED) else "")


def _told_already(place: GateInputs, walls: Sequence[Gate], one: Arrival) -> bool:
    """Whether FWL101 speaks of what stopped this connection."""
    if place.cluster.firewall is FirewallPolicy.LEAVE:
        return False
    if place.cluster.firewall is FirewallPolicy.OFF:
        return any(True for _ in still_on(place.firewall))
    return bool(_closed_by(walls, [one]))


def _why(place: GateInputs | None, walls: Sequence[Gate], dead: Sequence[Arrival]) -> str:
    """What the host's own firewall, as far as it is known, has to do with it."""
    if place is None:
        return "something in between, or its own firewall, which could not be looked at"
    if by := _closed_by(walls, dead):
        return f"its own firewall, which the inventory leaves alone, closes them: {by}"
    strangers = {one.client for one in dead if one.client and not _of_cluster(place, one.client)}
    if strangers and place.cluster.firewall is FirewallPolicy.ALLOW:
        return f"they come from {', '.join(sorted(strangers))}, and the firewall is opened for cluster.cidrs only"
    if all(one.by and one.by == one.address for one in dead):
        return "the host itself rejects them, by a rule that is not among those read here"
    if place.firewall.unjudged:
        return f"something in between, or {', '.join(place.firewall.unjudged[:4])} of the host, {_UNJUDGED}"
    return "something in between, as its own firewall lets them in"


def _look(place: GateInputs | None) -> str:
    """How to see the chains that may drop before those that are judged."""
    chains = place.firewall.unjudged[:4] if place else ()
    return "; ".join(f"nft list chain {chain.partition(' (')[0]}" for chain in chains)


def _of_cluster(place: GateInputs, client: str) -> bool:
    return not place.sources or any(ip_address(client) in network for network in place.sources)


def _closed_by(walls: Sequence[Gate], dead: Sequence[Arrival]) -> str:
    """The gate that objects to such a connection, and the rule."""
    for gate in walls:
        for network, seen in gate.objections():
            if any(one in dead for one in gate.tried(network, seen.objects)):
                return f"{gate.name}: {seen.by[:120]}"
    return ""


def senders_cut_off(lost: Sequence[Loss], tries: Mapping[str, Sequence[Arrival]]) -> dict[str, list[Loss]]:
    """Hosts that reach none of several others which are reached from elsewhere: the trouble is on their side."""
    by_source: dict[str, list[Loss]] = defaultdict(list)
    for loss in lost:
        by_source[loss.source].append(loss)
    return {
        source: own
        for source, own in by_source.items()
        if len(own) > 1
        and all(len(loss.dead) == loss.tried for loss in own)
        and len(own) == sum(any(one.source == source for one in arrivals) for arrivals in tries.values())
        and all(any(one.came_through for one in tries[loss.target] if one.source != source) for loss in own)
    }


def by_target(lost: Iterable[Loss]) -> Iterator[tuple[str, list[Loss]]]:
    found: dict[str, list[Loss]] = defaultdict(list)
    for loss in lost:
        found[loss.target].append(loss)
    yield from found.items()


def told(dead: Sequence[Arrival]) -> str:
    """What became of them, in words: `29500, 60000: no answer; 60031: rejected by 10.1.0.254 (No route to host)`."""
    ends: dict[str, list[int]] = defaultdict(list)
    for one in dead:
        by = f" by {one.by}" if one.by else ""
        words = f" ({one.error})" if one.error else ""
        ends["no answer" if one.outcome == "timeout" else f"rejected{by}{words}"].append(one.port or 0)
    return "; ".join(f"{', '.join(map(str, sorted(set(ports))))}: {end}" for end, ports in ends.items())
