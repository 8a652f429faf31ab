"""Firewalls to be switched off, now and at the next boot, where the inventory wants none. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.facts.parsers.linux.nft import CONTAINERS
from preflight.facts.sections.firewall import Firewall, NftChain
from preflight.model.change import Kind
from preflight.rules.firewall.dialects import iptables, nft
from preflight.rules.firewall.gates import NFT_PROGRAMS, without_managed_rules

# Services of systemd that start a firewall at boot, and the firewall that each starts.
_SERVICES = {
    "firewalld": "firewalld",
    "nftables": "nftables",
    "netfilter-persistent": "iptables",
    "iptables": "iptables",
    "ip6tables": "iptables",
}


@dataclass(frozen=True)
class Switch:
    """One active firewall, and the change that disables it. `kind` None: preflight does not change it."""

    summary: str
    found: str
    kind: Kind | None
    target: str
    before: str
    after: str | None


def still_on(firewall: Firewall) -> Iterator[Switch]:
    """Yield the firewalls that filter although the inventory wants none."""
    if firewall.ufw_enabled:
        yield Switch("ufw is enabled", "enabled", Kind.UFW_ENABLED, "ufw", "yes", "no")
    if firewall.firewalld:
        yield Switch("firewalld is running", "active", Kind.SERVICE, "firewalld", "active", "inactive")
    for chain in firewall.iptables:
        unowned = without_managed_rules(chain, firewall)
        if unowned.policy == "drop" or any(iptables.parse(rule).verdict in ("drop", "jump") for rule in unowned.rules):
            yield Switch(
                f"{chain.program} chain 'INPUT' filters incoming connections",
                f"policy {unowned.policy}, rules: {len(unowned.rules)}",
                Kind.IPTABLES_INPUT,
                chain.program,
                "present",
                None,
            )
    for nft_chain in firewall.nft_chains:
        if not _of_another(nft_chain, firewall) and filters(nft_chain):
            yield _base_chain(nft_chain)


def _base_chain(chain: NftChain) -> Switch:
    target = f"{chain.family} {chain.table} {chain.name}"
    foreign = CONTAINERS.search(" ".join((chain.table, chain.name, *chain.rules))) or chain.name == "INPUT"
    return Switch(
        f"nftables chain '{target}' filters incoming connections",
        f"policy {chain.policy}, rules: {len(chain.rules)}",
        None if foreign else Kind.NFT_INPUT,
        target,
        "present",
        None,
    )


def _of_another(chain: NftChain, firewall: Firewall) -> bool:
    """Return whether the chain belongs to another active firewall, or is already in iptables' own listing."""
    of_iptables = chain.table == "filter" and chain.name == "INPUT"
    listed = {chain_of_iptables.program for chain_of_iptables in firewall.iptables}
    return (of_iptables and (firewall.ufw_enabled or NFT_PROGRAMS.get(chain.family) in listed)) or (
        firewall.firewalld is not None and chain.table == "firewalld"
    )


def filters(chain: NftChain) -> bool:
    """Return whether a chain may keep connections out. A disabled ufw leaves jumps to emptied chains, which do not
    count."""
    stopping = (rule for rule in chain.rules if not re.search(r"\bjump ufw6?-", rule))
    return chain.policy == "drop" or any(nft.parse(rule).verdict in ("drop", "jump") for rule in stopping)


def back_at_boot(firewall: Firewall) -> Iterator[tuple[str, str]]:
    """Yield the services that start a firewall at the next boot, and that firewall."""
    boot = firewall.nft_boot_file or ""
    filtering = {
        "firewalld": True,
        "nftables": bool(re.search(r"hook\s+input\b", boot) and re.search(r"\b(drop|reject)\b", boot)),
        "iptables": any(_saved_filters(saved.text) for saved in firewall.iptables_saved),
    }
    for service in firewall.at_boot:
        if filtering.get(_SERVICES.get(service, ""), False):
            yield service, _SERVICES[service]


def _saved_filters(text: str) -> bool:
    return (
        re.search(r"^(?::INPUT (?:DROP|REJECT)|(?:\[.{1,40}\] )?-A INPUT .*-j (?:DROP|REJECT))", text, re.MULTILINE)
        is not None
    )
