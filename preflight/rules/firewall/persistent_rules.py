"""Files that bring our rules back after the next boot: one a tool, only our own lines edited. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from preflight.facts.parsers.linux import iptables as iptables_facts
from preflight.facts.parsers.linux.nft import is_ours
from preflight.facts.sections.firewall import IptablesChain
from preflight.model.change import Kind
from preflight.rules.firewall.dialects import firewalld, iptables, nft
from preflight.rules.firewall.gate import Gate, together
from preflight.rules.firewall.gate_inputs import GateInputs
from preflight.rules.firewall.gates import gates, iptables_gate
from preflight.rules.firewall.rules import FirewallRule

NFT_BOOT_FILE = "/etc/nftables.conf"
NFT_OWN_FILE = "/etc/preflight/nftables.nft"
# A pattern, because nft takes one that meets nothing: a file that is named and not there would fail the whole boot
# file, and the host would come up without any firewall.
NFT_INCLUDE = 'include "/etc/preflight/*.nft"'
ZONE_FILE = "/etc/firewalld/zones/{}.xml"
_INSERTED = re.compile(r"^insert rule (\S+ \S+ \S+) (.*)$", re.MULTILINE)
_HEADER = f"# Written by preflight, included by {NFT_BOOT_FILE}: lets the cluster's ports through after a reboot.\n"


@dataclass(frozen=True)
class BootFile:
    """A file that is not as it should be. `before` and `after` are its whole content; with `zone`, a zone of firewalld
    that is known by it, only our rules there, as firewalld writes the file. `lacks`: the next boot would shut the
    cluster out; else something stands in it that nothing needs any more."""

    path: str
    before: str | None
    after: str | None
    lacks: bool
    says: str  # what is the matter, behind the file's name
    zone: str = ""


def boot_files(place: GateInputs) -> Iterator[BootFile]:
    """The files that have to be edited."""
    yield from _of_nftables(place)
    yield from _of_iptables(place)
    yield from _of_firewalld(place)


def not_kept(place: GateInputs) -> Iterator[tuple[Gate, str]]:
    """The gates that our rules have opened until the next boot only, and what a person can do about it."""
    made = _made_at_boot(place)
    saved = {program for saved in place.firewall.iptables_saved for program in _programs(saved.path)}
    for gate in gates(place):
        # One that is closed now is another check's matter.
        if not _needs_ours(gate) or gate.objections():
            continue
        if gate.kind is Kind.NFT_RULES and gate.target not in made:
            yield gate, f"find what makes the chain at boot, and add: {gate.needed[0].text}"
        if gate.kind is Kind.IPTABLES_RULES and gate.target not in saved:
            line = iptables.command(gate.target, [rule.text for rule in gate.needed])
            yield gate, f"find what makes the rules at boot, and add: {line}"


def _needs_ours(gate: Gate) -> bool:
    return gate.written_here and bool(gate.objections(without_ours=True))


# nftables: our rules stand in a file of their own, and one line at the end of /etc/nftables.conf includes it.


def own_file(rules: dict[str, tuple[str, ...]], now: str | None = None) -> str:
    """The whole of our file: `rules` by "FAMILY TABLE CHAIN". Inserted at the top, so the last goes in first. What
    somebody has added to the file, as it is `now`, stays behind them."""
    lines = [f"insert rule {target} {rule}\n" for target, texts in rules.items() for rule in reversed(texts)]
    return _HEADER + "".join(lines) + "".join(_others(now or ""))


def _others(text: str) -> Iterator[str]:
    """The lines of our file that preflight would not write."""
    for line in text.splitlines(keepends=True):
        match = _INSERTED.fullmatch(line.rstrip())
        if line != _HEADER and not (match and is_ours(match[2])):
            yield line


def _made_at_boot(place: GateInputs) -> dict[str, tuple[str, ...]]:
    """Our rules that have to be there after a boot, in chains that the boot file makes."""
    boot = place.firewall.nft_boot_file or ""
    return {
        gate.target: tuple(rule.text for rule in gate.wanted)
        for gate in gates(place)
        if gate.kind is Kind.NFT_RULES and _needs_ours(gate) and _makes_chain(boot, gate.target)
    }


def _logins_in_own_file(place: GateInputs) -> dict[str, tuple[FirewallRule, ...]]:
    """The rules of our file that let one address log in, in chains that the boot file makes: they stay."""
    boot = place.firewall.nft_boot_file or ""
    found: dict[str, list[FirewallRule]] = {}
    for target, text in reversed(_INSERTED.findall(place.firewall.nft_preflight_file or "")):
        if _makes_chain(boot, target):
            found.setdefault(target, []).append(nft.parse(text))
    logins = {target: place.logins(rules) for target, rules in found.items()}
    return {target: rules for target, rules in logins.items() if rules}


def _makes_chain(text: str, target: str) -> bool:
    """Whether a file for `nft -f` makes this chain. Inserting a rule into a chain that is not there fails the whole
    file, and the host would boot without any firewall."""
    family, table, chain = target.split(" ")
    named = rf"(?:{family}[ \t]+)?" if family == "ip" else rf"{family}[ \t]+"  # ip is nft's default family
    pieces = re.split(r"^[ \t]*(table[ \t][^{]*)\{", text, flags=re.MULTILINE)[1:]  # head, body, head, body …
    return any(
        re.fullmatch(rf"table[ \t]+{named}{re.escape(table)}\s*", head)
        and re.search(rf"^[ \t]*chain[ \t]+{re.escape(chain)}\s*\{{", body, re.MULTILINE)
        for head, body in zip(pieces[::2], pieces[1::2], strict=True)
    )


def _of_nftables(place: GateInputs) -> Iterator[BootFile]:
    boot, own = place.firewall.nft_boot_file or "", place.firewall.nft_preflight_file
    made, logins = _made_at_boot(place), _logins_in_own_file(place)
    kept = {
        target: tuple(rule.text for rule in together(map(nft.parse, made.get(target, ())), logins.get(target, ())))
        for target in {**made, **logins}
    }
    wanted = own_file(kept, own)
    if made and own != wanted:
        says = "is not there" if own is None else "does not hold the rules"
        yield BootFile(NFT_OWN_FILE, own, wanted, lacks=True, says=says)
    if made and not any(line.strip() == NFT_INCLUDE for line in boot.splitlines()):
        after = boot + ("" if not boot or boot.endswith("\n") else "\n") + NFT_INCLUDE + "\n"
        yield BootFile(
            NFT_BOOT_FILE, place.firewall.nft_boot_file, after, lacks=True, says=f"lacks the line {NFT_INCLUDE}"
        )
    if not made and own not in (None, wanted) and own != "".join(_others(own or "")):
        yield BootFile(NFT_OWN_FILE, own, wanted, lacks=False, says="holds rules that nothing needs any more")


# iptables: where a service loads a file at boot, our lines stand in it.


def _programs(path: str) -> tuple[str, str]:
    """The programs that a saved file can be loaded by."""
    plain = "ip6tables" if path.endswith(("v6", "ip6tables")) else "iptables"
    return f"{plain}-nft", f"{plain}-legacy"


def _of_iptables(place: GateInputs) -> Iterator[BootFile]:
    for saved in place.firewall.iptables_saved:
        programs = _programs(saved.path)
        chain = iptables_facts.chain(saved.text, programs[0])
        if not isinstance(chain, IptablesChain):
            continue  # a file that iptables-restore would not understand either
        # What comes through by our rules of today says nothing of a boot without them.
        opened = any(live.program in programs and live.ours for live in place.firewall.iptables)
        gate = iptables_gate(replace(place, tries=()) if opened else place, chain)
        if not gate.settled and gate.written_here:
            after = iptables.with_rules(saved.text, [rule.text for rule in gate.wanted])
            lacks = bool(gate.objections())
            says = "shuts the cluster out" if lacks else "holds rules that nothing needs any more"
            yield BootFile(saved.path, saved.text, after, lacks, says)


# firewalld: the zone's own file, or until there is one, that which firewalld brought along.


def _of_firewalld(place: GateInputs) -> Iterator[BootFile]:
    state = place.firewall.firewalld
    for gate in gates(place):
        file = state.files.get(gate.target) if state and gate.kind is Kind.FIREWALLD_RULES else None
        if file is None or (file.own is None and file.builtin is None) or not gate.written_here:
            continue
        stands = tuple(map(firewalld.parse, firewalld.rules_in(file.own or "")))
        rules = together(gate.wanted, place.logins(stands))
        there, wanted = ({rule.meaning for rule in some} for some in (stands, rules))
        if there != wanted:
            before, after = ("\n".join(rule.text for rule in some) or None for some in (stands, rules))
            lacks = bool(wanted - there)
            says = "lacks our rules" if lacks else "holds rules that nothing needs any more"
            yield BootFile(ZONE_FILE.format(gate.target), before, after, lacks, says, zone=gate.target)
