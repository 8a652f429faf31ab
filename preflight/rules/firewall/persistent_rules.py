"""Files that restore our rules after the next boot: one a tool, only our own lines edited. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from preflight.facts.parsers.linux import iptables as iptables_facts
from preflight.facts.parsers.linux.nft import is_ours
from preflight.facts.sections.firewall import IptablesChain, ZoneFile
from preflight.grouping import grouped
from preflight.model.change import Kind
from preflight.rules.firewall.dialects import firewalld, iptables, nft
from preflight.rules.firewall.gate import Gate, meanings, together
from preflight.rules.firewall.gate_inputs import GateInputs
from preflight.rules.firewall.gates import gates, iptables_gate
from preflight.rules.firewall.rules import FirewallRule
from preflight.rules.firewall.zones import zone_gates
from preflight.rules.setup_files import with_last_lines

NFT_BOOT_FILE = "/etc/nftables.conf"
NFT_OWN_FILE = "/etc/preflight/nftables.nft"
# A pattern, because nft accepts a pattern without matches. A missing file with a plain name would fail the whole boot
# file, and the host would come up without any firewall.
NFT_INCLUDE = 'include "/etc/preflight/*.nft"'
ZONE_FILE = "/etc/firewalld/zones/{}.xml"
_NOT_NEEDED = "contains rules that are no longer needed"
_INSERTED = re.compile(r"^insert rule (\S+ \S+ \S+) (.*)$", re.MULTILINE)
_HEADER = f"# Written by preflight, included by {NFT_BOOT_FILE}: lets the cluster's ports through after a reboot.\n"


@dataclass(frozen=True)
class BootFile:
    """A file that needs an edit. `before` and `after` are its whole content.

    `zone`: the zone of firewalld that the file defines. Then both hold only our rules there, since firewalld writes the
    file itself. `lacks`: the next boot would shut the cluster out; else the file holds something that is not needed any
    more."""

    path: str
    before: str | None
    after: str | None
    lacks: bool
    says: str  # the problem, to be read after the file's name
    zone: str = ""


def boot_files(inputs: GateInputs) -> Iterator[BootFile]:
    """Yield the files that have to be edited."""
    yield from _of_nftables(inputs)
    yield from _of_iptables(inputs)
    yield from _of_firewalld(inputs)


def not_kept(inputs: GateInputs) -> Iterator[tuple[Gate, tuple[str, ...]]]:
    """Yield the gates that our rules have opened until the next boot only, and the lines to be added manually."""
    restored_targets = {
        Kind.NFT_RULES: {*_made_at_boot(inputs)},
        Kind.IPTABLES_RULES: {program for saved in inputs.firewall.iptables_saved for program in _programs(saved.path)},
    }
    for gate in gates(inputs):
        is_restored = gate.target in restored_targets.get(gate.kind, (gate.target,))
        # Another check reports a gate that is closed now.
        if not is_restored and _needs_ours(gate) and not gate.objections():
            rules = tuple(rule.text for rule in gate.needed)
            nft_commands = tuple(f"nft insert rule {gate.target} {rule}" for rule in rules[:1])
            yield gate, nft_commands if gate.kind is Kind.NFT_RULES else iptables.commands(gate.target, rules)


def _needs_ours(gate: Gate) -> bool:
    return gate.written_here and bool(gate.objections(without_ours=True))


# nftables: our rules are in a separate file, and one line at the end of /etc/nftables.conf includes it.


def own_file(rules: dict[str, tuple[str, ...]], now: str | None = None) -> str:
    """Return the whole of our file, from `rules` by "FAMILY TABLE CHAIN".

    Rules are inserted at the top, so the last goes in first. Lines that others have added to the file, as it is `now`,
    stay after ours."""
    lines = [f"insert rule {target} {rule}\n" for target, texts in rules.items() for rule in reversed(texts)]
    return _HEADER + "".join(lines) + "".join(_foreign_lines(now or ""))


def _foreign_lines(text: str) -> Iterator[str]:
    """Yield the lines of our file that preflight would not write."""
    for line in text.splitlines(keepends=True):
        match = _INSERTED.fullmatch(line.rstrip())
        if line != _HEADER and not (match and is_ours(match[2])):
            yield line


def _made_at_boot(inputs: GateInputs) -> dict[str, tuple[FirewallRule, ...]]:
    """Return our rules that a boot has to restore, in chains that the boot file makes."""
    boot = inputs.firewall.nft_boot_file or ""
    return {
        gate.target: gate.wanted
        for gate in gates(inputs)
        if gate.kind is Kind.NFT_RULES and _needs_ours(gate) and _makes_chain(boot, gate.target)
    }


def _rule_texts(
    rules: dict[str, tuple[FirewallRule, ...]], logins: dict[str, tuple[FirewallRule, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the texts of both by chain, each meaning once."""
    return {
        target: tuple(rule.text for rule in together(rules.get(target, ()), logins.get(target, ())))
        for target in {**rules, **logins}
    }


def _logins_in_own_file(inputs: GateInputs) -> dict[str, tuple[FirewallRule, ...]]:
    """Return the rules of our file that let one address log in, in chains that the boot file makes. They stay."""
    boot = inputs.firewall.nft_boot_file or ""
    rules = reversed(_INSERTED.findall(inputs.firewall.nft_preflight_file or ""))
    by_target = grouped((target, nft.parse(text)) for target, text in rules if _makes_chain(boot, target))
    return {target: logins for target, rules in by_target.items() if (logins := inputs.logins(rules))}


def _makes_chain(text: str, target: str) -> bool:
    """Return whether a file for `nft -f` makes this chain.

    Inserting a rule into a missing chain fails the whole file, and the host would boot without any firewall."""
    family, table, chain = target.split(" ")
    family_pattern = rf"(?:{family}[ \t]+)?" if family == "ip" else rf"{family}[ \t]+"  # ip is nft's default family
    pieces = re.split(r"^[ \t]*(table[ \t][^{]*)\{", text, flags=re.MULTILINE)[1:]  # alternating heads and bodies
    return any(
        re.fullmatch(rf"table[ \t]+{family_pattern}{re.escape(table)}\s*", head)
        and re.search(rf"^[ \t]*chain[ \t]+{re.escape(chain)}\s*\{{", body, re.MULTILINE)
        for head, body in zip(pieces[::2], pieces[1::2], strict=True)
    )


def with_include(boot: str) -> str:
    """Return a boot file with the line that includes ours, at its end."""
    return with_last_lines(boot, f"{NFT_INCLUDE}\n")


def _of_nftables(inputs: GateInputs) -> Iterator[BootFile]:
    boot, own = inputs.firewall.nft_boot_file, inputs.firewall.nft_preflight_file
    boot_chains, logins = _made_at_boot(inputs), _logins_in_own_file(inputs)
    wanted = own_file(_rule_texts(boot_chains, logins), own)
    if not boot_chains:
        if own and own not in (wanted, "".join(_foreign_lines(own))):
            yield BootFile(NFT_OWN_FILE, own, wanted, lacks=False, says=_NOT_NEEDED)
        return
    if own != wanted:
        says = "is missing" if own is None else "does not contain preflight's rules"
        yield BootFile(NFT_OWN_FILE, own, wanted, lacks=True, says=says)
    if NFT_INCLUDE not in map(str.strip, (boot or "").splitlines()):
        yield BootFile(
            NFT_BOOT_FILE, boot, with_include(boot or ""), lacks=True, says=f"does not contain the line {NFT_INCLUDE}"
        )


# iptables: our lines are in the file that a service loads at boot, if there is one.


def _programs(path: str) -> tuple[str, str]:
    """Return the programs that can load a saved file."""
    plain = "ip6tables" if path.endswith(("v6", "ip6tables")) else "iptables"
    return f"{plain}-nft", f"{plain}-legacy"


def _of_iptables(inputs: GateInputs) -> Iterator[BootFile]:
    for saved in inputs.firewall.iptables_saved:
        programs = _programs(saved.path)
        chain = iptables_facts.chain(saved.text, programs[0])
        if not isinstance(chain, IptablesChain):
            continue  # iptables-restore would not understand the file either
        # Connections that our current rules let through prove nothing about a boot without these rules.
        opened = any(live.program in programs and live.ours for live in inputs.firewall.iptables)
        gate = iptables_gate(replace(inputs, tries=()) if opened else inputs, chain)
        if not gate.settled and gate.written_here:
            after = iptables.with_rules(saved.text, [rule.text for rule in gate.wanted])
            lacks = bool(gate.objections())
            says = "does not allow these ports" if lacks else _NOT_NEEDED
            yield BootFile(saved.path, saved.text, after, lacks, says)


# firewalld: the zone's file under /etc, or until there is one, the one that firewalld ships.


def _of_firewalld(inputs: GateInputs) -> Iterator[BootFile]:
    files = inputs.firewall.firewalld.files if inputs.firewall.firewalld else {}
    for gate in zone_gates(inputs):
        file = files.get(gate.target, ZoneFile())
        if file == ZoneFile() or not gate.written_here:
            continue
        own_rules = tuple(map(firewalld.parse, firewalld.rules_in(file.own or "")))
        rules = together(gate.wanted, inputs.logins(own_rules))
        if meanings(own_rules) != meanings(rules):
            lacks = not meanings(rules) <= meanings(own_rules)
            says = "does not contain preflight's rules" if lacks else _NOT_NEEDED
            path = ZONE_FILE.format(gate.target)
            yield BootFile(path, _lines(own_rules), _lines(rules), lacks, says, zone=gate.target)


def _lines(rules: Iterable[FirewallRule]) -> str | None:
    return "\n".join(rule.text for rule in rules) or None
