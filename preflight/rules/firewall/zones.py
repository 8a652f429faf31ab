"""The zones of firewalld as gates: the zone that the cluster's packets enter, and its effect on them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from preflight.facts.sections.firewall import Firewalld, Zone
from preflight.model.change import Kind
from preflight.model.ip import read_interface
from preflight.rules.firewall.dialects import firewalld
from preflight.rules.firewall.gate import Gate
from preflight.rules.firewall.gate_inputs import GateInputs
from preflight.rules.firewall.rules import FirewallRule, Source, overlaps_any, read_source, within_any


def zone_gates(inputs: GateInputs) -> Iterator[Gate]:
    state = inputs.firewall.firewalld
    if state is None:
        return
    entered = zones_entered(inputs, state)
    too_old = bool(state.version) and state.version < firewalld.PRIORITIES_SINCE
    for zone in state.zones:
        networks = entered.get(zone.name, ())
        rules, policy = tuple(firewalld.zone_rules(zone)), firewalld.policy(zone)
        if not networks and (unknown := _unknown_sources(zone)):
            # Sources win over interfaces, so this zone may or may not get the cluster's packets.
            networks, rules, policy = inputs.fewest(4, 6), _doubtful_rules(rules, policy, unknown), "accept"
        ours = tuple(map(firewalld.parse, zone.ours))
        needed = inputs.rules_for(networks, firewalld.ours)
        login = inputs.login(rules, ours, policy, 4, 6)
        if login and networks:
            needed += firewalld.ours(*login)
        yield Gate(
            inputs,
            Kind.FIREWALLD_RULES,
            zone.name,
            f"firewalld, zone {zone.name}",
            rules,
            policy,
            ours,
            tuple(map(firewalld.parse, needed)),
            networks,
            (firewalld.command(zone.name, needed),) if too_old else (),
            inputs.to_name(4, 6),
        )


def zones_entered(inputs: GateInputs, state: Firewalld) -> dict[str, tuple[Source, ...]]:
    """Return zone → the networks of the cluster with packets that enter it.

    A source of a zone decides first, then the interfaces on which the host has its addresses in the cluster. Interfaces
    in no zone belong to the default one."""
    networks = inputs.fewest(4, 6)
    networks_of_zone = {zone.name: _source_networks(zone) for zone in state.zones}
    entered = {
        name: [network for network in networks if overlaps_any(network, of_zone)]
        for name, of_zone in networks_of_zone.items()
    }
    of_zones = list(chain.from_iterable(networks_of_zone.values()))
    networks_left = [network for network in networks if not within_any(network, of_zones)]
    for name in _zones_of_host_nics(inputs, state):
        entered[name] = list(dict.fromkeys([*entered.get(name, []), *networks_left]))
    return {name: tuple(of_zone) for name, of_zone in entered.items()}


def _source_networks(zone: Zone) -> list[Source]:
    return [network for text in zone.sources if (network := _as_network(text)) is not None]


def _zones_of_host_nics(inputs: GateInputs, state: Firewalld) -> list[str]:
    """Return the zones of the host's interfaces in the cluster."""
    interfaces = _host_nics(inputs)
    names = [zone.name for zone in state.zones if interfaces.intersection(zone.interfaces)]
    in_zones = {name for zone in state.zones for name in zone.interfaces}
    return names if interfaces and interfaces <= in_zones else [*names, state.default_zone]


def _unknown_sources(zone: Zone) -> str:
    """Return the zone's sources that name no network: MAC addresses and sets."""
    return ", ".join(text for text in zone.sources if _as_network(text) is None)


def _doubtful_rules(rules: Sequence[FirewallRule], policy: str, sources: str) -> tuple[FirewallRule, ...]:
    """Return the zone's rules as rules that only packets from `sources` meet.

    Closing rules, and the policy with them, leave a doubt."""
    doubted = (replace(rule, partial=rule.partial or rule.verdict == "drop") for rule in rules)
    last = FirewallRule(f"packets from its source {sources} that no rule accepts", "drop", partial=True)
    return (*doubted, last) if policy == "drop" else tuple(doubted)


def _as_network(text: str) -> Source | None:
    try:
        return read_source(text)
    except ValueError:  # a MAC address, or an ipset
        return None


def _host_nics(inputs: GateInputs) -> set[str]:
    """Return the interfaces of the cluster's packets: the inventory's host NIC, or those with an address in its
    networks."""
    nic = inputs.host.nic
    if nic and "/" not in nic:
        return {nic}
    wanted = (read_source(nic),) if nic else inputs.sources
    return {
        interface.name
        for interface in inputs.network.interfaces
        for address in interface.addresses
        if any(read_interface(address).ip in network for network in wanted)
    }
