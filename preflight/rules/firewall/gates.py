"""All gates of a host: base chains, ufw and zones of firewalld. Pure."""

import re
from collections.abc import Iterator, Sequence

from preflight.facts.parsers.linux.nft import CONTAINERS
from preflight.facts.sections.firewall import Firewall, IptablesChain, NftChain
from preflight.model.change import Kind
from preflight.rules.firewall.dialects import iptables, nft, ufw
from preflight.rules.firewall.gate import Gate
from preflight.rules.firewall.gate_inputs import GateInputs
from preflight.rules.firewall.rules import FirewallRule
from preflight.rules.firewall.zones import zone_gates

NFT_PROGRAMS = {"ip": "iptables-nft", "ip6": "ip6tables-nft"}  # by the family of their tables
_OTHER_TABLES = ("mangle", "raw", "security")  # tables of iptables besides `filter`
_JUMP_TO_UFW = re.compile(r"-j ufw6?-")
_JUMP_TO_FIREWALLD = re.compile(r"-j INPUT_(?:direct|ZONES)")


def gates(inputs: GateInputs) -> list[Gate]:
    """Return all gates of a host, also those that let everything in."""
    return [*_ufw(inputs), *zone_gates(inputs), *_iptables(inputs), *_nftables(inputs)]


def _ufw(inputs: GateInputs) -> Iterator[Gate]:
    firewall = inputs.firewall
    if not firewall.ufw_enabled:
        return
    families = (4, 6) if firewall.ufw_ipv6 else (4,)
    rules, ours = (tuple(map(ufw.parse, texts)) for texts in (firewall.ufw_rules, firewall.ufw_ours))
    site_rules = [rule for rule in rules if rule not in ours]
    needed = inputs.rules_for(inputs.fewest(*families), ufw.ours)
    addable, manual_commands = ufw.addable(map(ufw.parse, needed), site_rules, firewall.ufw_policy)
    if login := inputs.login(rules, ours, firewall.ufw_policy, *families):
        addable += ufw.addable(map(ufw.parse, ufw.ours(*login)), site_rules, firewall.ufw_policy)[0]
    yield Gate(
        inputs,
        Kind.UFW_RULES,
        "ufw",
        "ufw",
        rules,
        firewall.ufw_policy,
        ours,
        addable,
        inputs.fewest(*families),
        manual_commands,
        inputs.to_name(*families),
    )


def _iptables(inputs: GateInputs) -> Iterator[Gate]:
    firewall = inputs.firewall
    for chain in firewall.iptables:
        yield iptables_gate(inputs, without_managed_rules(chain, firewall))
    for program in firewall.iptables_unread:
        if program.endswith("-legacy"):  # nft shows the rules of iptables-nft
            yield iptables_gate(inputs, IptablesChain(program, "accept", (), ()), readable=False)


def without_managed_rules(chain: IptablesChain, firewall: Firewall) -> IptablesChain:
    """Return the part of the chain that is neither ufw's nor firewalld's, which are separate gates.

    A disabled ufw leaves jumps to chains that it has emptied."""
    owner = _JUMP_TO_UFW if firewall.ufw_enabled else _JUMP_TO_FIREWALLD if firewall.firewalld else None
    owned = [number for number, rule in enumerate(chain.rules) if owner and owner.match(rule)]
    rules = [rule for rule in chain.rules[: owned[0] if owned else None] if not _JUMP_TO_UFW.match(rule)]
    return IptablesChain(chain.program, "accept" if owned else chain.policy, tuple(rules), chain.ours)


def iptables_gate(inputs: GateInputs, chain: IptablesChain, *, readable: bool = True) -> Gate:
    family = 6 if chain.program.startswith("ip6") else 4
    rules, ours = (tuple(iptables.parse(text, family) for text in texts) for texts in (chain.rules, chain.ours))
    if not readable:
        rules = (FirewallRule(f"rules of {chain.program} that could not be read", "jump", family=family),)
    needed = inputs.rules_for(inputs.fewest(family), iptables.ours)
    if login := inputs.login(rules, ours, chain.policy, family):
        needed += iptables.ours(*login)
    return Gate(
        inputs,
        Kind.IPTABLES_RULES,
        chain.program,
        f"{chain.program}, chain INPUT",
        rules,
        chain.policy,
        ours,
        tuple(iptables.parse(text, family) for text in needed),
        inputs.fewest(family),
        () if readable else iptables.commands(chain.program, needed),
        inputs.to_name(family),
    )


def _nftables(inputs: GateInputs) -> Iterator[Gate]:
    unread = inputs.firewall.iptables_unread
    for chain in inputs.firewall.nft_chains:
        if chain.family in ("ip", "ip6", "inet") and not _is_in_another_gate(chain, inputs.firewall):
            program = _iptables_program(chain)
            kept_by_iptables = chain.table != "filter" or program in unread
            yield _nft_gate(inputs, chain, program if kept_by_iptables else "")


def _is_in_another_gate(chain: NftChain, firewall: Firewall) -> bool:
    """Return whether the chain is firewalld's or ufw's, or already in iptables' own listing."""
    if chain.table == "firewalld":
        return firewall.firewalld is not None
    program = _iptables_program(chain) if chain.table == "filter" else ""
    listed = {iptables_chain.program for iptables_chain in firewall.iptables}
    return bool(program) and (program in listed or firewall.ufw_enabled)


def _iptables_program(chain: NftChain) -> str:
    """Return the program of iptables that makes such a chain; "" if none does."""
    is_input = chain.name == "INPUT" and chain.table in ("filter", *_OTHER_TABLES)
    return NFT_PROGRAMS.get(chain.family, "") if is_input else ""


def _nft_gate(inputs: GateInputs, chain: NftChain, program: str) -> Gate:
    """Return the gate of a chain. `program`: that of iptables which keeps the chain, so that nft must not write
    there."""
    families = {"ip": (4,), "ip6": (6,)}.get(chain.family, (4, 6))
    target = f"{chain.family} {chain.table} {chain.name}"
    rules, ours = (tuple(map(nft.parse, texts)) for texts in (chain.rules, chain.ours))
    needed = _nft_rules(inputs, families)
    if login := inputs.login(rules, ours, chain.policy, *families):
        needed.append(nft.ours((login[0],), login[1]))
    manual_commands: tuple[str, ...] = ()
    if program:
        of_iptables = inputs.rules_for(inputs.fewest(*families), iptables.ours)
        manual_commands = iptables.commands(f"{program.removesuffix('-nft')} -t {chain.table}", of_iptables)
    elif CONTAINERS.search(f"{chain.table} {chain.name}"):
        manual_commands = tuple(f"nft insert rule {target} {text.removesuffix(' ' + nft.COMMENT)}" for text in needed)
    return Gate(
        inputs,
        Kind.NFT_RULES,
        target,
        target,
        rules,
        chain.policy,
        ours,
        tuple(map(nft.parse, needed)),
        inputs.of_family(*families),
        manual_commands,
        inputs.to_name(*families) if program else "",
    )


def _nft_rules(inputs: GateInputs, families: Sequence[int]) -> list[str]:
    """Return one rule a network of the inventory; if it has only hosts, one with the set of their addresses."""
    networks = inputs.of_family(*families)
    if inputs.cluster.cidrs:
        return [nft.ours((network,), inputs.ports) for network in networks]
    of_version = (tuple(network for network in networks if network.version == version) for version in (4, 6))
    return [nft.ours(group, inputs.ports) for group in of_version if group]
