"""The host firewall: open for the cluster, or off, as the inventory says; now and after a reboot.

Preflight changes only its own parts: rules with its tag, its own file, and its lines in other files."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.facts.sections.firewall import Arrival, Arrivals, Firewall
from preflight.facts.types import Network, Sysctl
from preflight.model.change import Area, Change, Kind, Risk
from preflight.model.cluster import FirewallPolicy
from preflight.model.finding import Finding
from preflight.model.ip import read_interface
from preflight.model.outcome import Outcome
from preflight.rules.firewall import blocked_connections, disabling, persistent_rules
from preflight.rules.firewall.blocked_connections import Loss
from preflight.rules.firewall.gate import Gate
from preflight.rules.firewall.gate_inputs import GateInputs
from preflight.rules.firewall.gates import gates
from preflight.rules.firewall.persistent_rules import BootFile

_CONFIGURE: tuple[str, ...] = ("preflight configure-firewall",)
_DISTURBING: tuple[str, ...] = ("preflight configure-firewall --allow-disturbing",)


def _place(scribe: Here, firewall: Firewall, network: Network, sysctl: Sysctl, arrivals: Arrivals | None) -> GateInputs:
    return GateInputs(scribe.cluster, scribe.host, firewall, network, sysctl, arrivals.tries if arrivals else ())


def _not_judged(scribe: Here, place: GateInputs) -> Finding | None:
    """Return the finding that replaces a judgement; None where the firewall is to be judged."""
    policy, name = scribe.cluster.firewall, scribe.host.name
    if policy is FirewallPolicy.LEAVE:
        return scribe.skip("the inventory leaves the firewall alone")
    if policy is FirewallPolicy.OFF:
        return None
    if len(scribe.cluster.hosts) == 1:
        return scribe.skip("a single host needs no connections from other hosts")
    if not place.sources and any(True for _ in disabling.still_on(place.firewall)):
        return scribe.unknown(
            f"{name}: the inventory does not define the networks that the firewall has to allow",
            remedy='set cidrs under [cluster] in the inventory to the networks of the hosts, such as ["10.1.0.0/16"]',
        )
    return _foreign_networks(scribe, place.network)


def _foreign_networks(scribe: Here, network: Network) -> Finding | None:
    """Return the finding where the inventory's networks are not this host's, so the firewall would be opened for
    others."""
    cidrs, own = scribe.cluster.cidrs, _addresses(network)
    if not cidrs or any(ip in cidr for ip in own for cidr in cidrs):
        return None
    if scribe.check.id != "FWL101":
        return scribe.skip("the host is in none of the inventory's networks (see FWL101)")
    networks = ", ".join(map(str, cidrs))
    return scribe.bad(
        f"{scribe.host.name}: none of the host's addresses is in cluster.cidrs ({networks}), so the firewall would "
        "open for other networks",
        expected=f"an address in {networks}",
        found=", ".join(str(ip) for ip in own if not (ip.is_loopback or ip.is_link_local)),
        remedy="correct cidrs under [cluster] in the inventory",
    )


def _addresses(network: Network) -> list[IPv4Address | IPv6Address]:
    return [read_interface(address).ip for interface in network.interfaces for address in interface.addresses]


def _rules_change(scribe: Here, gate: Gate) -> Change | None:
    """Return the change from our current rules to the wanted ones; None where nothing would change or preflight does
    not write."""
    if gate.settled or not gate.written_here:
        return None
    before, after = ("\n".join(rule.text for rule in rules) or None for rules in (gate.ours, gate.wanted))
    return Change(scribe.host.name, Area.FIREWALL, gate.kind, gate.target, before, after, scribe.check.id)


def _file_change(scribe: Here, file: BootFile) -> Change | None:
    if file.after == file.before:
        return None
    kind, target = (Kind.FIREWALLD_PERMANENT, file.zone) if file.zone else (Kind.FILE, file.path)
    return Change(scribe.host.name, Area.FIREWALL, kind, target, file.before, file.after, scribe.check.id)


@host_check("FWL101", "Firewall policy", optional=("arrivals",), configures=Area.FIREWALL)
def follows_policy(
    scribe: Here, firewall: Firewall, network: Network, sysctl: Sysctl, arrivals: Arrivals | None
) -> Iterator[Finding]:
    """Why: A firewall that drops packets to the cluster's ports causes no immediate error. Every rank waits until its
    connect timeout, and the error message points to a healthy peer. Many manuals recommend switching the firewall off.
    It is enough to open the ports for the cluster's own networks.

    Result: FAIL if a job port is blocked. Every active firewall is checked, because a packet has to pass all of them.
    If preflight cannot evaluate a rule, observed connections from the network in that rule decide.

    Check manually:
      nft list ruleset
      ufw status verbose
      firewall-cmd --list-all
      iptables -S INPUT

    Fix: Open the ports. With policy = "allow" under [firewall] in the inventory, which is the default, preflight opens
    them. With policy = "off" there, preflight switches the firewall off.
      preflight configure-firewall
    """
    place = _place(scribe, firewall, network, sysctl, arrivals)
    if (replacement := _not_judged(scribe, place)) is not None:
        yield replacement
    elif scribe.cluster.firewall is FirewallPolicy.OFF:
        yield from _still_on(scribe, firewall)
    else:
        yield from (_closure(scribe, gate) for gate in gates(place) if gate.objections())


def _closure(scribe: Here, gate: Gate) -> Finding:
    """Return the finding about a gate that may keep the cluster out."""
    objections = gate.objections()
    # Observed losses rank before certain closures, and these before possible ones.
    network, judgement = max(
        objections,
        key=lambda objection: (gate.seen_dying(objection[0], objection[1].closed), bool(objection[1].closed)),
    )
    proved = gate.seen_dying(network, judgement.closed)
    subject, change = f"{scribe.host.name}: the firewall ({gate.name})", _rules_change(scribe, gate)
    expected = f"ports {gate.ports} open for {_first_four([str(network) for network in gate.networks])}"
    evidence = tuple(
        f"{net}: ports {verdict.objects} {'are' if verdict.closed else 'may be'} blocked by {verdict.by[:120]}"
        for net, verdict in objections[:4]
    )
    if change:
        remedy, commands = "open the cluster's ports", _CONFIGURE
    else:
        remedy, commands = _manual_step(scribe, gate) or _reordering(scribe, gate)
    if not judgement.closed or (not gate.written_here and not proved):
        verb = "may block" if not judgement.closed else "seems to block"
        return scribe.unknown(
            f"{subject} {verb} ports {judgement.objects} for {network}: {judgement.by[:120]}",
            expected=expected,
            remedy=remedy,
            commands=commands,
            evidence=evidence,
            change=change,
        )
    return scribe.bad(
        f"{subject} blocks ports {judgement.closed} for {network}: {judgement.by[:120]}",
        expected=expected,
        found=judgement.by[:120],
        remedy=remedy,
        commands=commands,
        evidence=evidence,
        change=change,
    )


def _manual_step(scribe: Here, gate: Gate) -> tuple[str, tuple[str, ...]] | None:
    """Return the manual step before or in place of preflight's edit of the gate; None where preflight writes."""
    if gate.to_name:
        step = f"set {gate.to_name}, or your own networks, under [cluster] in the inventory"
        return f"{step}. preflight adds one rule per network, never one per host", ()
    if not gate.manual_commands:
        return None
    commands = tuple(scribe.on(scribe.host.name, command) for command in gate.manual_commands)
    return "run these commands, because preflight does not change these rules", commands


def _reordering(scribe: Here, gate: Gate) -> tuple[str, tuple[str, ...]]:
    """Return the step where a rule before preflight's blocks, with the command that shows the order of the rules."""
    command = {
        Kind.UFW_RULES: "ufw status numbered",
        Kind.FIREWALLD_RULES: f"firewall-cmd --zone={gate.target} --list-rich-rules",
        Kind.IPTABLES_RULES: f"{gate.target} -L INPUT -n --line-numbers",
    }.get(gate.kind, f"nft -a list chain {gate.target}")
    return "move the blocking rule behind preflight's rules, or remove it", (scribe.on(scribe.host.name, command),)


def _first_four(items: list[str]) -> str:
    return ", ".join(items[:4]) + (f" and {len(items) - 4} more" if len(items) > 4 else "")


def _still_on(scribe: Here, firewall: Firewall) -> Iterator[Finding]:
    """Yield the firewalls that still filter although the inventory wants none. One that other programs rely on is not
    disabled."""
    for switch in disabling.still_on(firewall):
        change, remedy, evidence = None, "allow the connections in the program that manages this chain", ""
        commands: tuple[str, ...] = ()
        if firewall.translating:
            evidence = f"preflight keeps the firewall on, because it serves {_first_four(list(firewall.translating))}"
            remedy = 'set policy = "allow" under [firewall] in the inventory, to open the firewall for the cluster only'
        elif switch.kind is not None:
            remedy, commands = "switch the firewall off", _DISTURBING
            change = Change(
                scribe.host.name,
                Area.FIREWALL,
                switch.kind,
                switch.target,
                switch.before,
                switch.after,
                scribe.check.id,
                Risk.DISTURBING,
                "afterwards, all ports on this host can be reached from everywhere",
            )
        yield scribe.bad(
            f"{scribe.host.name}: {switch.summary}",
            expected="off",
            found=switch.found,
            remedy=remedy,
            commands=commands,
            evidence=(evidence,) if evidence else (),
            change=change,
        )


@host_check("FWL102", "Firewall policy after reboot", optional=("arrivals",), configures=Area.FIREWALL, blocks=False)
def after_reboot(
    scribe: Here, firewall: Firewall, network: Network, sysctl: Sysctl, arrivals: Arrivals | None
) -> Iterator[Finding]:
    """Why: Firewall rules that were set at run time are lost at a reboot. The cluster then fails although its
    configuration did not change. Each firewall restores its rules from its own files, and preflight adds its rules to
    these files.

    Result: FAIL if such a file does not contain the rules. WARN if no file restores the rules. The rules are in ufw's
    own files, in /etc/preflight/*.nft for nftables, and in the zone's file for firewalld. For iptables, they are in the
    file that netfilter-persistent or iptables-services loads.

    Check manually: The last line of /etc/nftables.conf includes preflight's file.
      tail -1 /etc/nftables.conf
      cat /etc/preflight/nftables.nft
      firewall-cmd --permanent --list-rich-rules
      grep preflight /etc/iptables/rules.v4 /etc/sysconfig/iptables

    Fix: Write the rules to the files.
      preflight configure-firewall
    """
    name, place = scribe.host.name, _place(scribe, firewall, network, sysctl, arrivals)
    if (replacement := _not_judged(scribe, place)) is not None:
        yield replacement
    elif scribe.cluster.firewall is FirewallPolicy.OFF:
        yield from _back_at_boot(scribe, firewall)
    else:
        for gate, rules in persistent_rules.not_kept(place):
            yield scribe.warn(
                f"{name}: preflight's rules will be lost at the next reboot ({gate.name})",
                remedy="add these commands to the program that creates the chain at boot",
                commands=rules,
            )
        for file in persistent_rules.boot_files(place):
            if file.lacks:
                yield scribe.bad(
                    f"{name}: the cluster's ports will be blocked after the next reboot: {file.path} {file.says}",
                    remedy="open the cluster's ports permanently",
                    commands=_CONFIGURE,
                    change=_file_change(scribe, file),
                )


def _back_at_boot(scribe: Here, firewall: Firewall) -> Iterator[Finding]:
    """Yield the services that would start a firewall again; they are disabled only where the inventory asks for it."""
    for service, firewall_name in disabling.back_at_boot(firewall):
        summary = f"{scribe.host.name}: {firewall_name} will filter incoming connections again after the next reboot"
        if scribe.cluster.firewall_off_at_boot and not firewall.translating:
            change = Change(
                scribe.host.name,
                Area.FIREWALL,
                Kind.SERVICE_AT_BOOT,
                service,
                "enabled",
                "disabled",
                scribe.check.id,
                Risk.DISTURBING,
            )
            yield scribe.bad(
                summary,
                expected="disabled",
                found="enabled",
                remedy="disable the service",
                commands=_DISTURBING,
                change=change,
            )
        else:
            yield scribe.warn(
                summary,
                remedy="set disable_at_boot = true under [firewall] in the inventory, or disable the service",
                commands=(scribe.on(scribe.host.name, f"systemctl disable {service}"),),
            )


@host_check(
    "FWL103",
    "Leftover firewall rules",
    severity=Outcome.WARN,
    optional=("arrivals",),
    configures=Area.FIREWALL,
    blocks=False,
)
def no_leftovers(
    scribe: Here, firewall: Firewall, network: Network, sysctl: Sysctl, arrivals: Arrivals | None
) -> Iterator[Finding]:
    """Why: After networks or ports change in the inventory, the old rules still open ports that are no longer needed.

    Result: WARN if preflight's rules differ from the rules that the inventory requires.

    Check manually:
      nft list ruleset | grep preflight
      ufw status numbered | grep preflight
      iptables -S | grep preflight
      firewall-cmd --list-rich-rules | grep 29517

    Fix: Remove the old rules.
      preflight configure-firewall
    """
    place = _place(scribe, firewall, network, sysctl, arrivals)
    if scribe.cluster.firewall is FirewallPolicy.OFF:
        yield scribe.skip("the inventory switches the firewall off")
    elif (replacement := _not_judged(scribe, place)) is not None:
        yield replacement
    else:
        # FWL101 reports gates with objections, and its change corrects our rules.
        to_correct = (gate for gate in gates(place) if not gate.settled and not gate.objections())
        yield from (_other_rules(scribe, gate) for gate in to_correct)
        for file in persistent_rules.boot_files(place):
            if not file.lacks:
                summary = f"{scribe.host.name}: {file.path} {file.says}"
                yield scribe.bad(
                    summary, remedy="correct the file", commands=_CONFIGURE, change=_file_change(scribe, file)
                )


def _other_rules(scribe: Here, gate: Gate) -> Finding:
    """Return the finding about an open gate with rules of ours that the inventory does not want."""
    wanted = {rule.meaning for rule in gate.wanted}
    remedy, commands = _manual_step(scribe, gate) or ("correct the rules", _CONFIGURE)
    return scribe.bad(
        f"{scribe.host.name}: preflight's rules differ from the inventory ({gate.name})",
        expected=_first_four([rule.text for rule in gate.wanted]) or "none",
        found=_first_four([rule.text for rule in gate.ours]) or "none",
        remedy=remedy,
        commands=commands,
        change=_rules_change(scribe, gate),
        evidence=tuple(rule.text for rule in gate.ours if rule.meaning not in wanted),
    )


@cluster_check(
    "FWL104",
    "Job port connections between hosts",
    optional=("firewall", "network", "sysctl"),
    configures=Area.FIREWALL,
)
def connections_come_through(
    scribe: All,
    arrivals: Mapping[str, Arrivals],
    firewall: Mapping[str, Firewall | None],
    network: Mapping[str, Network | None],
    sysctl: Mapping[str, Sysctl | None],
) -> Iterator[Finding]:
    """Why: A job's connections may fail although the firewall on every host is open. Typical causes are a cloud
    security group, a switch ACL and the sender's own output rules. Therefore, every host tries some of the job ports on
    the next host.

    Result: FAIL if a connection is lost. A connection passes if it is accepted. It also passes if it is refused because
    no process listens on the port. If the host's own firewall is the cause, FWL101 reports it instead.

    Check manually: Replace ADDRESS with another host's address. The answer "refused" is fine. The answers "timed out"
    and "no route to host" show a fault.
      nc -vz -w 2 ADDRESS 29500

    Fix: Check the network between the hosts. Then check the sender's output rules.
      iptables -S OUTPUT
      nft list ruleset
    """
    losses: list[Loss] = []
    for host in scribe.hosts:
        tries = arrivals[host.name].tries
        yield from _untested(scribe, host.name, tries)
        wall, network_facts, kernel = firewall[host.name], network[host.name], sysctl[host.name]
        place = (
            GateInputs(scribe.cluster, host, wall, network_facts, kernel, tries)
            if wall and network_facts and kernel
            else None
        )
        losses += blocked_connections.losses(host.name, tries, place)
    cut_off = blocked_connections.senders_cut_off(
        losses, {host.name: arrivals[host.name].tries for host in scribe.hosts}
    )
    for source, own in cut_off.items():
        yield _loss_finding(
            scribe,
            source,
            own,
            f"{source}: connections to {len(own)} other hosts fail, but other hosts can reach these hosts",
            f"outgoing connections from {source} are dropped",
        )
    for target, own in blocked_connections.by_target(loss for loss in losses if loss.source not in cut_off):
        yield _loss_finding(scribe, target, own, f"{target}: connections from {_senders(own)} fail", own[0].why)


def _untested(scribe: All, host: str, tries: Sequence[Arrival]) -> Iterator[Finding]:
    if not tries:
        yield scribe.skip("no other host tried to connect to this host", host=host)
    elif all(arrival.outcome == "in-use" for arrival in tries):
        yield scribe.skip("the ports were not tested, because a job uses them", host=host)
    for source, error in {arrival.source: arrival.error for arrival in tries if arrival.outcome == "error"}.items():
        yield scribe.unknown(
            f"{host}: {source} could not test a connection to this host: {error}", host=host, peer=source
        )


def _loss_finding(scribe: All, host: str, losses: Sequence[Loss], summary: str, cause: str) -> Finding:
    on_senders = [
        scribe.on(source, command)
        for source in sorted({loss.source for loss in losses})[:1]
        for command in ("nft list ruleset", "iptables -S OUTPUT")
    ]
    return scribe.bad(
        summary,
        host=host,
        peer=losses[0].source if losses[0].target == host else losses[0].target,
        expected="accepted, or refused by the port itself",
        found=blocked_connections.outcomes(losses[0].dead),
        cause=cause,
        evidence=tuple(
            f"{loss.source} to {loss.target}, port{'s' if len(loss.dead) > 1 else ''} "
            f"{blocked_connections.outcomes(loss.dead)}"
            for loss in losses[:8]
        ),
        remedy=f"check the output chain on {_senders(losses)}, then the cloud's security groups, and the ACLs of "
        "switches and routers",
        commands=(*(scribe.on(losses[0].target, command) for command in losses[0].chain_commands), *on_senders),
    )


def _senders(losses: Sequence[Loss]) -> str:
    return _first_four(sorted({loss.source for loss in losses}))
