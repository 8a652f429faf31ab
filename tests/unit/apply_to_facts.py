"""What the facts would be after changes: a model of `preflight/remote/apply.py` for tests without hosts."""

import re
from collections.abc import Iterable
from dataclasses import replace

from preflight.facts.parsers.linux.firewalld import PRIORITY
from preflight.facts.parsers.linux.sysctl import file as sysctl_file
from preflight.facts.parsers.linux.sysctl import reserved_ports
from preflight.facts.sections.firewall import Firewall, SavedRules
from preflight.facts.types import (
    ClusterFacts,
    HostFacts,
    Sysctl,
    Unreachable,
)
from preflight.model.change import Area, Change, Kind
from preflight.model.ports import PortSet
from preflight.rules.firewall import persistent_rules
from preflight.rules.firewall.dialects import firewalld
from tests.unit.apply_to_devices import changed
from tests.unit.apply_to_environment import changed as environment_changed

_ORDER = tuple(Kind)


def applied(changes: Iterable[Change], facts: ClusterFacts) -> ClusterFacts:
    """The facts after the changes, in the order in which kinds are applied. A change whose `before` is not what the
    facts say is an error of the check that made it."""
    hosts: dict[str, HostFacts | Unreachable] = dict(facts.hosts)
    for change in sorted(dict.fromkeys(changes), key=lambda change: _ORDER.index(change.kind)):
        host = hosts[change.host]
        assert isinstance(host, HostFacts)
        hosts[change.host] = _after(host, change)
    return replace(facts, hosts=hosts)


def _after(host: HostFacts, change: Change) -> HostFacts:
    if change.kind is Kind.SYSCTL or (change.kind is Kind.FILE and change.area is Area.PORTS):
        assert isinstance(host.sysctl, Sysctl)
        return replace(host, sysctl=_sysctl(host.sysctl, change))
    if change.area is Area.ENVIRONMENT:
        return environment_changed(host, change)
    if change.device is not None:
        return changed(host, change)
    assert isinstance(host.firewall, Firewall)
    return replace(host, firewall=_firewall(host.firewall, change))


def _sysctl(sysctl: Sysctl, change: Change) -> Sysctl:
    assert change.after is not None
    if change.kind is Kind.SYSCTL:
        assert change.before == sysctl.reserved_ports
        return replace(sysctl, reserved_ports=str(PortSet.parse(change.after)))
    if sysctl.tuned and change.target == sysctl.tuned.source:
        assert change.before == sysctl.tuned.text
        value = reserved_ports(change.after).value
        assert value is not None
        return replace(sysctl, tuned=replace(sysctl.tuned, text=change.after, value=value))
    old = next((file for file in sysctl.reserved_files if file.path == change.target), None)
    assert change.before == (old.text if old else None)
    if old is None:
        return replace(sysctl, reserved_files=(sysctl_file(change.target, change.after), *sysctl.reserved_files))
    real = old.target or old.path  # another file of the list may be a link to the same one
    same = {file.path: sysctl_file(file.path, change.after, file.target) for file in sysctl.reserved_files
            if (file.target or file.path) == real}  # fmt: skip
    return replace(sysctl, reserved_files=tuple(same.get(file.path, file) for file in sysctl.reserved_files))


def _firewall(state: Firewall, change: Change) -> Firewall:
    lines = tuple((change.after or "").splitlines())
    if change.kind is Kind.FILE:
        return _boot_file(state, change)
    if change.kind is Kind.UFW_ENABLED:
        return replace(state, ufw_enabled=change.after == "yes", nft_chains=())
    if change.kind is Kind.UFW_RULES:
        assert change.before == ("\n".join(state.ufw_ours) or None)
        others = tuple(rule for rule in state.ufw_rules if rule not in state.ufw_ours)
        return replace(state, ufw_rules=lines + others, ufw_ours=lines)
    if change.kind is Kind.SERVICE:
        assert (change.target, change.before, change.after) == ("firewalld", "active", "inactive")
        return replace(state, firewalld=None)
    if change.kind is Kind.SERVICE_AT_BOOT:
        assert change.target in state.at_boot
        return replace(state, at_boot=tuple(name for name in state.at_boot if name != change.target))
    if change.kind is Kind.FIREWALLD_RULES:
        return _zone(state, change, lines)
    if change.kind is Kind.FIREWALLD_PERMANENT:
        return _zone_file(state, change, lines)
    if change.kind in (Kind.IPTABLES_RULES, Kind.IPTABLES_INPUT):
        return _iptables(state, change, lines)
    chains = {f"{chain.family} {chain.table} {chain.name}": chain for chain in state.nft_chains}
    chain = chains[change.target]
    if change.kind is Kind.NFT_INPUT:
        del chains[change.target]
    else:
        assert change.before == ("\n".join(chain.ours) or None)
        others = tuple(rule for rule in chain.rules if rule not in chain.ours)
        chains[change.target] = replace(chain, rules=lines + others, ours=lines)
    return replace(state, nft_chains=tuple(chains.values()))


def _boot_file(state: Firewall, change: Change) -> Firewall:
    if change.target == persistent_rules.NFT_OWN_FILE:
        assert change.before == state.nft_preflight_file
        return replace(state, nft_preflight_file=change.after)
    if change.target == persistent_rules.NFT_BOOT_FILE:
        assert change.before == state.nft_boot_file
        return replace(state, nft_boot_file=change.after)
    saved = {one.path: one.text for one in state.iptables_saved}
    assert change.before == saved[change.target]
    assert change.after is not None
    saved[change.target] = change.after
    return replace(state, iptables_saved=tuple(SavedRules(path, text) for path, text in saved.items()))


def _zone(state: Firewall, change: Change, lines: tuple[str, ...]) -> Firewall:
    assert state.firewalld is not None
    zones = {zone.name: zone for zone in state.firewalld.zones}
    zone = zones[change.target]
    assert change.before == ("\n".join(zone.ours) or None)
    others = tuple(rule for rule in zone.rich_rules if rule not in zone.ours)
    zones[zone.name] = replace(zone, rich_rules=lines + others, ours=lines)
    return replace(state, firewalld=replace(state.firewalld, zones=tuple(zones.values())))


def _zone_file(state: Firewall, change: Change, lines: tuple[str, ...]) -> Firewall:
    """firewalld starts from the file that it brought along where the zone has no other."""
    assert state.firewalld is not None
    file = state.firewalld.files[change.target]
    assert change.before == ("\n".join(firewalld.rules_in(file.own or "")) or None)
    xml = file.own or file.builtin
    assert xml is not None
    files = {**state.firewalld.files, change.target: replace(file, own=zone_file(xml, lines))}
    return replace(state, firewalld=replace(state.firewalld, files=files))


def zone_file(xml: str, rules: Iterable[str]) -> str:
    """A zone's file with `rules` for ours."""
    others = re.sub(rf'<rule\b[^>]*priority="{PRIORITY}".*?</rule>\n?', "", xml, flags=re.DOTALL)
    return others.replace("</zone>", "".join(map(_as_xml, rules)) + "</zone>")


def _as_xml(rule: str) -> str:
    values = dict(re.findall(r'([\w-]+)="([^"]*)"', rule))
    return (
        f'<rule family="{values["family"]}" priority="{values["priority"]}"><source address="{values["address"]}"/>'
        f'<port port="{values["port"]}" protocol="{values["protocol"]}"/><accept/></rule>\n'
    )


def _iptables(state: Firewall, change: Change, lines: tuple[str, ...]) -> Firewall:
    chains = {chain.program: chain for chain in state.iptables}
    chain = chains[change.target]
    if change.kind is Kind.IPTABLES_INPUT:
        del chains[change.target]
    else:
        assert change.before == ("\n".join(chain.ours) or None)
        others = tuple(rule for rule in chain.rules if rule not in chain.ours)
        chains[change.target] = replace(chain, rules=lines + others, ours=lines)
    return replace(state, iptables=tuple(chains.values()))
