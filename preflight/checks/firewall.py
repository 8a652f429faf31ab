"""The host firewall: open for the cluster, or off, as the inventory says; now and after a reboot.

Only what is ours is ever changed: rules with the comment `preflight`, our own file, and one line that includes it.
"""

import re
from collections.abc import Iterator
from ipaddress import IPv4Interface

from preflight.checks.gates import Gate, gates, iptables_command, sources
from preflight.checks.registry import Here, host_check
from preflight.checks.rules import parse_rule
from preflight.facts.firewall import Firewall, NftChain
from preflight.facts.types import Network, Sysctl
from preflight.model.change import Area, Change, Kind, Risk
from preflight.model.cluster import FirewallPolicy
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

BOOT_FILE = "/etc/nftables.conf"
OWN_FILE = "/etc/preflight/nftables.nft"
INCLUDE = f'include "{OWN_FILE}"'
_CONFIGURE = "preflight configure-firewall"
_HEADER = f"# Written by preflight, included by {BOOT_FILE}: lets the cluster's ports through after a reboot.\n"
# Programs that make chains for containers and machines; taking a chain away from them breaks what runs there.
_FOREIGN = re.compile(r"docker|kube|cali|cilium|flannel|cni|libvirt|podman", re.IGNORECASE)


def _not_judged(here: Here, firewall: Firewall, network: Network) -> Finding | None:
    """The finding where there is nothing to judge, or a firewall that this version neither reads nor writes."""
    policy, name = here.cluster.firewall, here.host.name
    if policy is FirewallPolicy.LEAVE:
        return here.skip("the inventory leaves the firewall alone")
    if policy is FirewallPolicy.ALLOW and len(here.cluster.hosts) == 1:
        return here.skip("a single host: nothing has to come in from other hosts")
    if firewall.firewalld or firewall.iptables:
        which = "firewalld" if firewall.firewalld else "iptables"
        return here.unknown(f"{name}: {which} is active, which this version can neither judge nor open",
                            remedy=f"open it by hand: {_by_hand(here, firewall)}")  # fmt: skip
    filters = firewall.ufw_enabled or any(map(_filters, firewall.nft_chains))
    if policy is FirewallPolicy.ALLOW and filters and not sources(here.cluster):
        return here.unknown(f"{name}: the inventory does not say from where the firewall should let the cluster in",
                            remedy='name the networks of the hosts: cidrs = ["CIDR"] under [cluster]')  # fmt: skip
    return _strangers(here, network) if policy is FirewallPolicy.ALLOW else None


def _strangers(here: Here, network: Network) -> Finding | None:
    """The finding where the inventory's networks are not this host's: the firewall would be opened for others."""
    cidrs = here.cluster.cidrs
    own = [IPv4Interface(address).ip for nic in network.interfaces for address in nic.addresses if ":" not in address]
    if not cidrs or any(ip in cidr for ip in own for cidr in cidrs):
        return None
    if here.check.id != "FWL101":
        return here.skip("the networks of the inventory are not this host's: see FWL101")
    named = ", ".join(map(str, cidrs))
    return here.bad(
        f"{here.host.name}: none of its addresses is in cluster.cidrs ({named}): it would open for others",
        expected=f"an address in {named}", found=", ".join(str(ip) for ip in own if not ip.is_loopback),
        remedy="correct cidrs under [cluster] in the inventory",
    )  # fmt: skip


def _by_hand(here: Here, firewall: Firewall) -> str:
    network = next(iter(sources(here.cluster)), "CIDR")
    if here.cluster.firewall is FirewallPolicy.OFF:
        return "systemctl disable --now firewalld" if firewall.firewalld else "iptables-legacy -F INPUT"
    if firewall.firewalld:
        return f"firewall-cmd --permanent --zone=trusted --add-source={network} && firewall-cmd --reload"
    return iptables_command(network, here.cluster.ports).replace("iptables", "iptables-legacy")


def _rules_change(here: Here, gate: Gate, after: tuple[str, ...]) -> Change | None:
    """From our rules as they are to `after`; None where nothing would change or preflight does not write."""
    if gate.by_hand or set(after) == set(gate.ours):
        return None
    before_text, after_text = "\n".join(gate.ours) or None, "\n".join(after) or None
    return Change(here.host.name, Area.FIREWALL, gate.kind, gate.target, before_text, after_text, here.check.id)


def _file_change(here: Here, path: str, before: str | None, after: str) -> Change:
    return Change(here.host.name, Area.FIREWALL, Kind.FILE, path, before, after, here.check.id)


@host_check("FWL101", "The firewall follows the inventory's policy")
def follows_policy(here: Here, firewall: Firewall, network: Network, sysctl: Sysctl) -> Iterator[Finding]:
    """Why: a firewall that drops the cluster's ports makes no error: every rank waits for its connect timeout, and
    the message names a peer that is fine. Opening the ports for the cluster's own networks is enough; switching the
    firewall off, as many manuals do, is only done where the inventory says firewall = "off".

    By hand: nft list ruleset; ufw status verbose; firewall-cmd --list-all

    Mend: preflight configure-firewall
    """
    if (nothing := _not_judged(here, firewall, network)) is not None:
        yield nothing
    elif here.cluster.firewall is FirewallPolicy.OFF:
        yield from _still_on(here, firewall)
    else:
        for gate in gates(here.cluster, firewall, sysctl):
            if gate.objections():
                yield _closed(here, gate)


def _closed(here: Here, gate: Gate) -> Finding:
    """The finding about a gate that does not surely let the cluster through."""
    objections = gate.objections()
    # What certainly closes a port goes before what may.
    network, seen = next((found for found in objections if found[1].closed), objections[0])
    change, where, by = (
        _rules_change(here, gate, gate.wanted),
        f"{here.host.name}: the firewall ({gate.target})",
        seen.by,
    )
    if gate.by_hand:
        remedy = f"iptables keeps this chain, which this version does not write; by hand: {gate.by_hand}"
    elif change is None:
        remedy = f"our rules are there, but another comes first: find its handle with nft -a list chain {gate.target}"
    else:
        remedy = _CONFIGURE
    expected = f"{gate.ports} open for {', '.join(map(str, gate.networks))}"
    if not seen.closed:
        return here.unknown(f"{where} may close ports {seen.doubtful} to {network}: {by[:120]}",
                            expected=expected, remedy=remedy, change=change)  # fmt: skip
    return here.bad(
        f"{where} closes ports {seen.closed} to {network}: {by[:120]}", expected=expected, found=by[:120],
        remedy=remedy, evidence=tuple(f"{n}: {s.closed} closed by: {s.by[:120]}" for n, s in objections), change=change,
    )  # fmt: skip


def _still_on(here: Here, firewall: Firewall) -> Iterator[Finding]:
    """What still filters although the inventory wants no firewall."""
    if firewall.ufw_enabled:
        change = Change(here.host.name, Area.FIREWALL, Kind.UFW_ENABLED, "ufw", "yes", "no", here.check.id)
        yield here.bad(f"{here.host.name}: ufw is enabled", expected="off", found="enabled", remedy="ufw disable",
                       change=change)  # fmt: skip
    for chain in firewall.nft_chains:
        of_iptables = chain.family in ("ip", "ip6") and (chain.table, chain.name) == ("filter", "INPUT")
        if not _filters(chain) or (firewall.ufw_enabled and of_iptables):
            continue
        target = f"{chain.family} {chain.table} {chain.name}"
        foreign = of_iptables or bool(_FOREIGN.search(" ".join((chain.table, chain.name, *chain.rules))))
        change = Change(
            here.host.name, Area.FIREWALL, Kind.NFT_INPUT, target, "present", None, here.check.id, Risk.DISTURBING
        )
        yield here.bad(
            f"{here.host.name}: chain {target} filters incoming connections", expected="off",
            found=f"policy {chain.policy}, {len(chain.rules)} rules", change=None if foreign else change,
            remedy="another program keeps this chain; open it there, by hand" if foreign else _CONFIGURE,
        )  # fmt: skip


def _filters(chain: NftChain) -> bool:
    """Whether a chain may keep anything out. ufw leaves jumps behind when it is disabled, to chains that it emptied."""
    stopping = (rule for rule in chain.rules if not re.search(r"\bjump ufw6?-", rule))
    return chain.policy == "drop" or any(parse_rule(rule).verdict in ("drop", "jump") for rule in stopping)


def own_file(rules: dict[str, tuple[str, ...]]) -> str:
    """The whole of our file: `rules` by "FAMILY TABLE CHAIN". Inserted at the top, so the last goes in first."""
    return _HEADER + "".join(
        f"insert rule {target} {rule}\n" for target, texts in rules.items() for rule in reversed(texts)
    )


def _makes_chain(text: str, target: str) -> bool:
    """Whether a file for `nft -f` makes this chain. Inserting a rule into a chain that is not there fails the whole
    file, and the host would boot without any firewall."""
    family, table, chain = target.split(" ")
    named = rf"(?:{family}[ \t]+)?" if family == "ip" else rf"{family}[ \t]+"  # ip is nft's default family
    pieces = re.split(r"^[ \t]*(table[ \t][^{]*)\{", text, flags=re.MULTILINE)[1:]  # head, body, head, body …
    return any(
        re.fullmatch(rf"table[ \t]+{named}{re.escape(table)}\s*", head)
        and re.search(rf"^\s*chain\s+{re.escape(chain)}\s*\{{", body, re.MULTILINE)
        for head, body in zip(pieces[::2], pieces[1::2], strict=True)
    )


def _kept(here: Here, firewall: Firewall, sysctl: Sysctl) -> dict[str, tuple[str, ...]]:
    """Our rules that have to be there after a reboot, in chains that the boot file makes."""
    boot = firewall.nft_boot_file or ""
    return {
        gate.target: gate.wanted
        for gate in gates(here.cluster, firewall, sysctl)
        if _ours_to_keep(gate) and _makes_chain(boot, gate.target)
    }


def _ours_to_keep(gate: Gate) -> bool:
    return gate.kind is Kind.NFT_RULES and not gate.by_hand and bool(gate.objections(without_ours=True))


@host_check("FWL102", "The firewall follows the inventory's policy after a reboot, too")
def after_reboot(here: Here, firewall: Firewall, network: Network, sysctl: Sysctl) -> Iterator[Finding]:
    """Why: rules set at run time are gone after a reboot; the cluster then fails one morning although nobody changed
    anything. ufw keeps its rules itself. For nftables our rules stand in a file of their own, and one line at the end
    of /etc/nftables.conf includes it.

    By hand: tail -1 /etc/nftables.conf; cat /etc/preflight/nftables.nft; systemctl is-enabled nftables

    Mend: preflight configure-firewall
    """
    name, boot, own = here.host.name, firewall.nft_boot_file or "", firewall.nft_preflight_file
    if (nothing := _not_judged(here, firewall, network)) is not None:
        yield nothing
        return
    if here.cluster.firewall is FirewallPolicy.OFF:
        if re.search(r"hook\s+input\b", boot) and re.search(r"\b(drop|reject)\b", boot):
            yield here.warn(f"{name}: {BOOT_FILE} filters incoming connections again after a reboot",
                            remedy="systemctl disable nftables, if nothing else needs it")  # fmt: skip
        return
    kept = _kept(here, firewall, sysctl)
    for gate in gates(here.cluster, firewall, sysctl):
        # A chain that is closed now is FWL101's matter.
        if _ours_to_keep(gate) and gate.target not in kept and not gate.objections():
            yield here.warn(f"{name}: chain {gate.target} is not made by {BOOT_FILE}, so our rules are not kept there",
                            remedy=f"find what makes the chain at boot, and add: {gate.wanted[0]}")  # fmt: skip
    if kept and own != own_file(kept):
        state = "is not there" if own is None else "does not hold the rules"
        yield here.bad(f"{name}: after a reboot the cluster's ports are closed: {OWN_FILE} {state}", remedy=_CONFIGURE,
                       change=_file_change(here, OWN_FILE, own, own_file(kept)))  # fmt: skip
    if kept and not any(line.strip() == INCLUDE for line in boot.splitlines()):
        after = boot + ("" if not boot or boot.endswith("\n") else "\n") + INCLUDE + "\n"
        yield here.bad(
            f"{name}: after a reboot the cluster's ports are closed: {BOOT_FILE} does not include {OWN_FILE}",
            remedy=_CONFIGURE, change=_file_change(here, BOOT_FILE, firewall.nft_boot_file, after),
        )  # fmt: skip


@host_check("FWL103", "No rule of ours is left that the inventory does not want", severity=Outcome.WARN)
def no_leftovers(here: Here, firewall: Firewall, network: Network, sysctl: Sysctl) -> Iterator[Finding]:
    """Why: after a change of networks or ports in the inventory, the rules made for the old ones keep a door open
    that nobody remembers.

    By hand: nft list ruleset | grep preflight; ufw status numbered | grep preflight

    Mend: preflight configure-firewall
    """
    nothing = _not_judged(here, firewall, network)
    if here.cluster.firewall is FirewallPolicy.OFF:
        nothing = here.skip("the firewall is to be off")
    if nothing is not None:
        yield nothing
        return
    name, own = here.host.name, firewall.nft_preflight_file
    for gate in gates(here.cluster, firewall, sysctl):
        change = _rules_change(here, gate, gate.target_rules())
        if change and not gate.objections():  # else FWL101 speaks, and its change sets our rules as they should be
            leftover = [rule for rule in gate.ours if rule not in gate.target_rules()]
            yield here.bad(
                f"{name}: our rules in {gate.target} are not those that the inventory wants",
                expected=change.after or "none", found=change.before or "none", evidence=tuple(leftover),
                remedy=_CONFIGURE, change=change,
            )  # fmt: skip
    if not _kept(here, firewall, sysctl) and own not in (None, own_file({})):
        yield here.bad(f"{name}: {OWN_FILE} holds rules that nothing needs any more", remedy=_CONFIGURE,
                       change=_file_change(here, OWN_FILE, own, own_file({})))  # fmt: skip
