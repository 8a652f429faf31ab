"""Connections between hosts that are lost or refused, and the likely reason on the hosts. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from preflight.facts.sections.firewall import Arrival
from preflight.grouping import grouped
from preflight.model.cluster import FirewallPolicy
from preflight.rules.firewall.disabling import still_on
from preflight.rules.firewall.gate import Gate
from preflight.rules.firewall.gate_inputs import GateInputs
from preflight.rules.firewall.gates import gates

_UNJUDGED = "which preflight does not evaluate"


@dataclass(frozen=True)
class Loss:
    """Connections that died on their way to `target` and that FWL101 does not report."""

    source: str
    target: str
    dead: tuple[Arrival, ...]
    tried: int
    why: str  # the part of the target's firewall in it, as far as its rules are known
    chain_commands: tuple[str, ...] = ()  # the commands to run on the target before searching elsewhere


def losses(target: str, tries: Sequence[Arrival], inputs: GateInputs | None) -> Iterator[Loss]:
    """Yield the connections to `target` that died, grouped by sender. `inputs` None: its firewall could not be read."""
    walls = gates(inputs) if inputs else []
    for source, arrivals in grouped((arrival.source, arrival) for arrival in tries).items():
        dead = [arrival for arrival in arrivals if arrival.died and not _is_reported(inputs, walls, arrival)]
        if dead:
            why = _why(inputs, walls, dead)
            commands = _chain_commands(inputs) if why.endswith(_UNJUDGED) else ()
            yield Loss(source, target, tuple(dead), len(arrivals), why, commands)


def _is_reported(inputs: GateInputs | None, walls: Sequence[Gate], arrival: Arrival) -> bool:
    """Return whether FWL101 already reports the rule that stopped this connection."""
    if inputs is None or inputs.cluster.firewall is FirewallPolicy.LEAVE:
        return False
    if inputs.cluster.firewall is FirewallPolicy.OFF:
        return any(True for _ in still_on(inputs.firewall))
    return bool(_closed_by(walls, [arrival]))


def _why(inputs: GateInputs | None, walls: Sequence[Gate], dead: Sequence[Arrival]) -> str:
    """Return the part of the host's own firewall in the loss, as far as its rules are known."""
    if inputs is None:
        return "the network between the hosts, or the host's firewall, which could not be checked"
    if by := _closed_by(walls, dead):
        return f"the host's firewall blocks the connections, and the inventory leaves it alone: {by}"
    strangers = _foreign_clients(inputs, dead)
    if strangers and inputs.cluster.firewall is FirewallPolicy.ALLOW:
        return f"the connections come from {', '.join(strangers)}, but the firewall is open for cluster.cidrs only"
    if all(arrival.by and arrival.by == arrival.address for arrival in dead):
        return "the host itself rejects the connections, by a rule that preflight does not read"
    if inputs.firewall.unjudged:
        return f"the network between the hosts, or {', '.join(inputs.firewall.unjudged[:4])} on the host, {_UNJUDGED}"
    return "the network between the hosts, because the host's firewall accepts the connections"


def _chain_commands(inputs: GateInputs | None) -> tuple[str, ...]:
    """Return the commands that show the chains which may drop connections before the judged ones."""
    chains = inputs.firewall.unjudged[:4] if inputs else ()
    return tuple(f"nft list chain {chain.partition(' (')[0]}" for chain in chains)


def _foreign_clients(inputs: GateInputs, dead: Sequence[Arrival]) -> list[str]:
    """Return the addresses outside the cluster's networks from which connections came."""
    clients = {arrival.client for arrival in dead if arrival.client}
    return sorted(client for client in clients if not _is_of_cluster(inputs, client))


def _is_of_cluster(inputs: GateInputs, client: str) -> bool:
    return not inputs.sources or any(ip_address(client) in network for network in inputs.sources)


def _closed_by(walls: Sequence[Gate], dead: Sequence[Arrival]) -> str:
    """Return the gate that objects to such a connection, and its rule; "" if none does."""
    for gate in walls:
        for network, judgement in gate.objections():
            if any(arrival in dead for arrival in gate.tried(network, judgement.objects)):
                return f"{gate.name}: {judgement.by[:120]}"
    return ""


def senders_cut_off(lost: Sequence[Loss], tries: Mapping[str, Sequence[Arrival]]) -> dict[str, list[Loss]]:
    """Return the hosts that reach none of several others, though other hosts reach these. Their fault is on the
    sender's side."""
    return {
        source: losses_of_source
        for source, losses_of_source in grouped((loss.source, loss) for loss in lost).items()
        if len(losses_of_source) > 1 and _is_cut_off(source, losses_of_source, tries)
    }


def _is_cut_off(source: str, losses_of_source: Sequence[Loss], tries: Mapping[str, Sequence[Arrival]]) -> bool:
    """Return whether all connections of a host died, and other hosts reach each of its targets."""
    targets = [name for name, arrivals in tries.items() if any(arrival.source == source for arrival in arrivals)]
    return len(losses_of_source) == len(targets) and all(
        len(loss.dead) == loss.tried
        and any(arrival.came_through for arrival in tries[loss.target] if arrival.source != source)
        for loss in losses_of_source
    )


def by_target(lost: Iterable[Loss]) -> Iterable[tuple[str, list[Loss]]]:
    return grouped((loss.target, loss) for loss in lost).items()


def outcomes(dead: Iterable[Arrival]) -> str:
    """Return the outcome of each port, such as `60031: rejected by 10.1.0.254 (No route to host)`, separated by
    semicolons."""
    ports_of_outcome = grouped((_outcome(arrival), arrival.port or 0) for arrival in dead)
    return "; ".join(
        f"{', '.join(map(str, sorted(set(ports))))}: {outcome}" for outcome, ports in ports_of_outcome.items()
    )


def _outcome(arrival: Arrival) -> str:
    if arrival.outcome == "timeout":
        return "no answer"
    by = f" by {arrival.by}" if arrival.by else ""
    return f"rejected{by} ({arrival.error})" if arrival.error else f"rejected{by}"
