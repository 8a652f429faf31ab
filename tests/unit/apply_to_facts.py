"""What the facts would be after changes: a model of `preflight/remote/apply.py` for tests without hosts."""

from collections.abc import Iterable
from dataclasses import replace

from preflight.checks import firewall
from preflight.facts.firewall import Firewall
from preflight.facts.sysctl import file as sysctl_file
from preflight.facts.sysctl import reserved_ports
from preflight.facts.types import (
    ClusterFacts,
    HostFacts,
    Sysctl,
    Unreachable,
)
from preflight.model.change import Area, Change, Kind
from preflight.model.ports import PortSet
from tests.unit.apply_to_devices import changed

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
    if change.kind is Kind.FILE and change.target == firewall.OWN_FILE:
        assert change.before == state.nft_preflight_file
        return replace(state, nft_preflight_file=change.after)
    if change.kind is Kind.FILE:
        assert (change.target, change.before) == (firewall.BOOT_FILE, state.nft_boot_file)
        return replace(state, nft_boot_file=change.after)
    if change.kind is Kind.UFW_ENABLED:
        return replace(state, ufw_enabled=change.after == "yes", nft_chains=())
    if change.kind is Kind.UFW_RULES:
        assert change.before == ("\n".join(state.ufw_ours) or None)
        others = tuple(rule for rule in state.ufw_rules if rule not in state.ufw_ours)
        return replace(state, ufw_rules=lines + others, ufw_ours=lines)
    chains = {f"{chain.family} {chain.table} {chain.name}": chain for chain in state.nft_chains}
    chain = chains[change.target]
    if change.kind is Kind.NFT_INPUT:
        del chains[change.target]
    else:
        assert change.before == ("\n".join(chain.ours) or None)
        others = tuple(rule for rule in chain.rules if rule not in chain.ours)
        chains[change.target] = replace(chain, rules=lines + others, ours=lines)
    return replace(state, nft_chains=tuple(chains.values()))
