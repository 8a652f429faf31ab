"""Typed facts from the collector's section `firewall`. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import starmap
from typing import TypeVar

from preflight.facts.output import ToolOutput
from preflight.facts.parsers.linux import firewalld, iptables, nft, ufw
from preflight.facts.quote import quote
from preflight.facts.sections.firewall import (
    Firewall,
    Firewalld,
    IptablesChain,
    Login,
    NftChain,
    SavedRules,
    Zone,
    ZoneFile,
)
from preflight.facts.types import Missing

T = TypeVar("T")


@dataclass
class RawFirewalld:
    zones: ToolOutput
    config: str | None
    module: str | None
    zone_files: dict[str, str]  # path → text
    services: dict[str, str]


@dataclass
class RawFirewall:
    """The section as the collector sends it: see preflight/remote/collect.

    `iptables`, `nat`: output by program, None if the program is missing.
    """

    nft: ToolOutput | None
    nft_boot_file: str | None
    nft_preflight_file: str | None
    ufw_installed: bool
    ufw_conf: str | None
    ufw_rules: list[str]
    ufw_default: str | None = None
    iptables: dict[str, ToolOutput | None] = field(default_factory=dict)
    nat: dict[str, ToolOutput] = field(default_factory=dict)
    iptables_saved: dict[str, str] = field(default_factory=dict)
    firewalld: RawFirewalld | None = None
    at_boot: list[str] = field(default_factory=list)
    ssh_connection: str | None = None


class _NotUnderstood(Exception):  # noqa: N818  (it becomes Missing, with this sentence)
    pass


def firewall(raw: RawFirewall) -> Firewall | Missing:
    try:
        return _firewall(raw)
    except _NotUnderstood as error:
        return Missing(str(error))


def _sure(value: T | Missing) -> T:
    if isinstance(value, Missing):
        raise _NotUnderstood(value.error)
    return value


def _firewall(raw: RawFirewall) -> Firewall:
    ufw_rules = _sure(ufw.rules("\n".join(raw.ufw_rules)))
    ufw_default = raw.ufw_default or ""
    return Firewall(
        nft_present=raw.nft is not None,
        nft_chains=_nft_chains(raw),
        nft_boot_file=raw.nft_boot_file,
        nft_preflight_file=raw.nft_preflight_file,
        ufw_installed=raw.ufw_installed,
        ufw_enabled=raw.ufw_installed and _sure(ufw.enabled(raw.ufw_conf or "")),
        ufw_rules=tuple(rule.text for rule in ufw_rules),
        ufw_ours=tuple(rule.text for rule in ufw_rules if rule.ours),
        ufw_policy=ufw.policy(ufw_default),
        ufw_ipv6=ufw.ipv6(ufw_default),
        firewalld=_firewalld(raw.firewalld) if raw.firewalld else None,
        iptables=tuple(_iptables_chains(raw)),
        iptables_unread=tuple(program for program, output in raw.iptables.items() if output is None),
        iptables_saved=tuple(starmap(SavedRules, raw.iptables_saved.items())),
        translating=_translating(raw),
        unjudged=_unjudged(raw),
        at_boot=tuple(raw.at_boot),
        login=_login(raw.ssh_connection),
    )


def _nft_chains(raw: RawFirewall) -> tuple[NftChain, ...]:
    if raw.nft is None:
        return ()
    if raw.nft.code != 0:
        raise _NotUnderstood(f"nft list ruleset ended with {raw.nft.code}: {quote(raw.nft.err)}")
    return _sure(nft.ruleset(raw.nft.out))


def _iptables_chains(raw: RawFirewall) -> list[IptablesChain]:
    """Return the chains that iptables has made.

    A table that nft has changed is incompatible with iptables. Its chain is listed among those of nftables.
    """
    chains = []
    for program, output in raw.iptables.items():
        if output is None or (output.code and "incompatible" in output.err and raw.nft is not None):
            continue
        if output.code:
            raise _NotUnderstood(f"{program} -S INPUT ended with {output.code}: {quote(output.err)}")
        chain = _sure(iptables.chain(output.out, program))
        if chain.rules or chain.policy == "drop":
            chains.append(chain)
    return chains


def _firewalld(raw: RawFirewalld) -> Firewalld:
    if raw.zones.code:
        raise _NotUnderstood(f"firewall-cmd --list-all-zones ended with {raw.zones.code}: {quote(raw.zones.err)}")
    default = firewalld.default_zone(raw.config or "")
    own_files, builtin_files = _by_name(raw.zone_files, "/etc/"), _by_name(raw.zone_files, "/usr/")
    zones = tuple(
        zone
        for zone in _sure(firewalld.zones(raw.zones.out, _by_name(raw.services)))
        if _is_used(zone, default) or _is_ours(zone, own_files.get(zone.name, ""))
    )
    return Firewalld(
        version=firewalld.version(raw.module or ""),
        default_zone=default,
        zones=zones,
        files={zone.name: ZoneFile(own_files.get(zone.name), builtin_files.get(zone.name)) for zone in zones},
    )


def _is_used(zone: Zone, default: str) -> bool:
    return bool(zone.interfaces or zone.sources) or zone.name == default


def _is_ours(zone: Zone, file: str) -> bool:
    return bool(zone.ours) or str(firewalld.PRIORITY) in file


def _by_name(files: Mapping[str, str], folder: str = "") -> dict[str, str]:
    """Return the texts of the files below `folder` by the name of the zone or service."""
    texts = {path: text for path, text in files.items() if path.startswith(folder)}
    return {path.rpartition("/")[2].removesuffix(".xml"): text for path, text in texts.items()}


def _unjudged(raw: RawFirewall) -> tuple[str, ...]:
    return nft.unjudged(raw.nft.out) if raw.nft else ()


def _translating(raw: RawFirewall) -> tuple[str, ...]:
    chains = list(nft.translating(raw.nft.out)) if raw.nft else []
    for program, output in raw.nat.items():
        # A table that cannot be listed may hold any rule: it counts as a translating one.
        chains += [f"{program} nat"] if output.code else iptables.translating(output.out, program)
    if raw.firewalld:
        chains += firewalld.translating(raw.firewalld.zones.out, firewalld.default_zone(raw.firewalld.config or ""))
    return tuple(chains)


def _login(text: str | None) -> Login | None:
    """Parse SSH_CONNECTION: client address, its port, server address, its port."""
    match = re.fullmatch(r"([0-9a-fA-F.:]{2,45})(?:%\S{1,20})? \d{1,5} \S{2,60} (\d{1,5})", (text or "").strip())
    return Login(match[1], int(match[2])) if match and int(match[2]) < 65536 else None
