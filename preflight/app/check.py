"""A check: facts, pings and tests of all hosts, judged."""

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from preflight.app.background import reached, rehearse_ports, unreached
from preflight.app.causes import causes
from preflight.app.link_counts import after_tests
from preflight.app.publish import Published, publisher, refuse_partial_check
from preflight.app.remember import baseline_of, setting_of
from preflight.app.saved import load_saved
from preflight.app.session import Session, session, wants_password
from preflight.checks.engine.registry import ROUNDS, all_checks
from preflight.checks.engine.run import NotRun, run_checks, select
from preflight.checks.engine.waivers import apply_waivers
from preflight.cli.output import Ended, end, present
from preflight.cli.report_options import refuse_unwritable
from preflight.facts.collect import collect
from preflight.facts.link_counts import LinkCounts, sentence
from preflight.facts.pings.device_ports import leaves
from preflight.facts.pings.plan import Wanted, plan_pings, planned_devices, refuse_too_many
from preflight.facts.pings.run import foretold, ping
from preflight.facts.types import ClusterFacts
from preflight.inventory import fold, load
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import PreflightError, UsageError
from preflight.model.finding import Finding
from preflight.model.measure import Observation
from preflight.model.outcome import Outcome
from preflight.model.report import LeftOut, Phase, Report
from preflight.probe.hccl_test import only_mindspore
from preflight.probe.hooks import Hooks
from preflight.probe.line_rate import ports as port_speeds
from preflight.probe.line_rate import with_line_rates
from preflight.probe.permission import may_probe
from preflight.probe.run import probe
from preflight.report.build import joined
from preflight.report.next_step import START

MANY_PARTNERS = 2  # known-good hosts that a new host is tested with


_OF_PROBE = ("rehearsal", "observations", "link_counts")  # rounds that need the probe


class NoPartnerError(PreflightError):
    """No host that was checked can serve as a partner."""

    exit_code = 3


def _words(values: Sequence[str]) -> list[str]:
    return [word.strip() for value in values for word in value.split(",")]


class _Rounds:
    """Rounds of one check run, each of which adds findings."""

    def __init__(self, args: argparse.Namespace, cluster: Cluster, hosts: Sequence[Host]) -> None:
        self.args = args
        self.cluster = cluster
        self.hosts = tuple(hosts)
        self.checks = select(all_checks(), _words(args.only), _words(args.skip))
        self.ignored = _words(args.ignore)
        if self.ignored:
            select(all_checks(), self.ignored, ())  # refuses unknown ids before any host is contacted
        selections = {"only": args.only, "skipped": args.skip, "ignored": args.ignore, "limited to": [args.limit or ""]}
        self.notes = [f"{word} {', '.join(words)}, as asked" for word, words in selections.items() if any(words)]
        self.findings: list[Finding] = []
        self.observations: tuple[Observation, ...] = ()

    def judge(self, facts: Any, rounds: dict[str, object]) -> list[Finding]:
        findings = run_checks(self.cluster, facts, checks=self.checks, hosts=self.hosts, rounds=rounds)
        return apply_waivers(findings, self.cluster.waivers, self.ignored, date.today())

    def wanted(self, round_: str) -> bool:
        return any(round_ in check.needs for check in self.checks)

    def why_no_ping(self) -> str:
        if self.args.no_ping:
            return "--no-ping"
        return "" if self.wanted("pings") else "no check that needs it was asked for"

    def why_no_probe(self, facts: Any, so_far: Sequence[Finding]) -> str:
        if self.args.no_probe:
            return "--no-probe"
        if not self.wanted("observations"):
            return "no check that needs it was asked for"
        failed = sorted({finding.check for finding in so_far if finding.outcome is Outcome.FAIL})
        if failed:
            return f"{', '.join(failed[:4])} failed before it; mend first, or run preflight probe"
        if only_mindspore(facts):
            return "jobs have MindSpore here, and no torch; preflight probe runs the vendor's HCCL Test in its place"
        return _folded(may_probe(self.cluster, facts, self.hosts, asked_idle=self.args.idle))

    def to_prove(self) -> str | None:
        """Return the command that remains to be run before a job may start: the probe, or a check without options that
        leave checks out. None if the probe has run.
        """
        if self.observations:
            return None
        whole = not (self.args.only or self.args.skip or self.args.no_ping or self.args.source or self.args.basic)
        idle = self.cluster.probe.idle or self.args.idle
        publish = " --publish" if self.args.publish else ""
        return ("probe" if whole else "check") + ("" if idle else " --idle") + publish


def _folded(refused: Sequence[tuple[str, str]]) -> str:
    """Fold (host, reason) pairs into one clause for each reason: "node[01-16]: …"."""
    reasons: dict[str, list[str]] = {}
    for host, why in refused:
        reasons.setdefault(why, []).append(host)
    return "; ".join(f"{fold(hosts)}: {why}" for why, hosts in reasons.items())


def _from_file(args: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    saved = load_saved(args)
    rounds = _Rounds(args, saved.cluster, saved.hosts)
    left_out = [
        LeftOut(host.name, f"not in {args.source}") for host in saved.hosts if host.name not in saved.facts.hosts
    ]
    not_run = NotRun("the facts come from a file")
    rounds.findings = rounds.judge(saved.facts, dict.fromkeys(ROUNDS, not_run))
    rounds.notes.append(saved.note)
    return present(args, _end(args, rounds, started, left_out))


def _buddies(args: argparse.Namespace, s: Session) -> tuple[Host, ...]:
    """Return known-good, idle partners for the limited hosts.

    They are checked as thoroughly, and any problem rules them out.
    """
    candidates = tuple(host for host in s.cluster.hosts if host not in s.hosts)[: 2 * MANY_PARTNERS]
    s.progress.say(f"looking for partners among {len(candidates)} hosts")
    facts = collect(
        s.cluster,
        candidates,
        s.transport,
        progress=s.progress,
        ports=s.cluster.ports,
        pool=args.pool,
        deep=not args.basic,
    )
    later = NotRun("only the facts of a partner are looked at")
    findings = run_checks(
        s.cluster,
        facts,
        checks=all_checks().values(),
        hosts=candidates,
        rounds={"pings": later, "observations": later},
    )
    bad = {finding.host for finding in findings if finding.outcome in (Outcome.FAIL, Outcome.UNKNOWN)}
    bad |= {host for host, _ in may_probe(s.cluster, facts, candidates, asked_idle=args.idle)}
    if None in bad:  # a problem between them that no host can be blamed for
        candidates = ()
    partners = tuple(host for host in candidates if host.name not in bad)[:MANY_PARTNERS]
    if not partners:
        raise NoPartnerError(
            "--buddies auto: no host outside --limit is known good and idle; name one more with --limit"
        )
    return partners


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    refuse_partial_check(args)
    if args.source and args.buddies:
        raise UsageError("--buddies probes hosts, and --from contacts nobody; leave one of them out")
    if args.source and args.basic:
        raise UsageError("--basic says what hosts are asked, and --from contacts nobody; leave one of them out")
    if args.source and args.also:
        raise UsageError("--from judges facts by one inventory; leave --also out")
    if args.source:
        return _from_file(args)
    if args.buddies and not args.limit:
        raise UsageError("--buddies auto tests the hosts of --limit with partners; say which with --limit HOSTS")
    if not args.also:
        return present(args, _look(args))
    started, clusters = datetime.now(UTC), _kinds(args)
    ended: list[Ended] = []
    for inventory, cluster in clusters.items():
        inventory_args = _of_one(args, inventory, cluster)
        try:
            ended.append(_look(inventory_args, cluster))
        except PreflightError as error:
            if not ended:
                raise
            ended.append(_not_looked_at(inventory_args, cluster, error))  # findings of the other inventories stay valid
    return present(args, together(started, ended))


def _not_looked_at(args: argparse.Namespace, cluster: Cluster, error: PreflightError) -> Ended:
    left_out = [LeftOut(host.name, str(error)) for host in cluster.hosts]
    return end(args, "check", datetime.now(UTC), (), (), left_out=left_out)


def _kinds(args: argparse.Namespace) -> dict[Path, Cluster]:
    """Load the clusters of all inventories. Raise UsageError if their hosts cannot be told apart."""
    if args.limit:
        raise UsageError("--limit names hosts of one inventory; leave --also out, or the limit")
    clusters = {args.inventory: load(args.inventory)} | {path: load(path, "--also") for path in args.also}
    if len(clusters) <= len(args.also):
        raise UsageError("--also names an inventory twice")
    inventory_of: dict[str, Path] = {}
    for inventory, cluster in clusters.items():
        for host in cluster.hosts:
            if inventory_of.setdefault(host.name, inventory) != inventory:
                raise UsageError(
                    f"{host.name} is in {inventory_of[host.name]} and in {inventory}; a host is of one kind"
                )
    if args.ask_sudo_password and not any(wants_password(cluster, cluster.hosts) for cluster in clusters.values()):
        raise UsageError("-K: no host asked for is reached with sudo = true under [ssh], so no password is wanted")
    return clusters


def _of_one(args: argparse.Namespace, inventory: Path, cluster: Cluster) -> argparse.Namespace:
    """Return the same command for the hosts of one inventory. It asks for the sudo password of that inventory."""
    asks = args.ask_sudo_password and wants_password(cluster, cluster.hosts)
    words = {**vars(args), "inventory": inventory, "also": [], "ask_sudo_password": asks}
    return argparse.Namespace(**words)


def together(started: datetime, ended: Sequence[Ended]) -> Ended:
    """Join reports, each judged, published and recorded by itself. The next command is that of the worst."""

    def urgency(one: Ended) -> tuple[int, int, bool]:
        return (1, 3, 0).index(one.exit_code), list(Outcome).index(one.report.verdict), one.next_step == START

    worst = min(ended, key=urgency)
    report = joined(started, [ending.report for ending in ended])
    return Ended(
        report,
        worst.exit_code,
        worst.next_step,
        tuple(observation for ending in ended for observation in ending.observations),
    )


def _look(args: argparse.Namespace, cluster: Cluster | None = None) -> Ended:
    started = datetime.now(UTC)
    with session(args, cluster) as s:
        rounds = _Rounds(args, s.cluster, s.hosts)  # refuses unknown ids before any host is contacted
        if args.buddies:
            partners = _buddies(args, s)
            rounds.hosts += partners
            rounds.notes.append("partners: " + ", ".join(host.name for host in partners))
        hosts = rounds.hosts
        wanted = Wanted(args.mesh, args.cross_rail, args.ping_size or 0)
        if not rounds.why_no_ping():
            refuse_too_many(planned_devices(hosts), wanted)  # before any host is contacted
        facts = collect(
            s.cluster,
            hosts,
            s.transport,
            progress=s.progress,
            ports=s.cluster.ports,
            pool=args.pool,
            deep=not args.basic,
        )

        pings: object = NotRun(rounds.why_no_ping())
        if not rounds.why_no_ping():
            plan = plan_pings(s.cluster, facts, wanted)
            rounds.notes += plan.notes
            if plan.pings:
                s.progress.note(foretold(plan.pings, args.pool))
            pings = ping(s.cluster, facts, s.transport, plan.pings, s.progress, pool=args.pool)
        later = NotRun("not yet")
        so_far = rounds.judge(facts, {"pings": pings, **dict.fromkeys(_OF_PROBE, later)})

        why_not, left_out = rounds.why_no_probe(facts, so_far), tuple[LeftOut, ...]()
        later_rounds: dict[str, object] = {"pings": pings, **dict.fromkeys(_OF_PROBE, NotRun(why_not))}
        if why_not:
            rounds.notes.append(f"no probe: {why_not}")
        else:
            rehearsal = rehearse_ports(s, s.cluster.probe.backend, lambda: reached(hosts, facts))
            hooks = Hooks(
                s.progress,
                s.progress.note,
                rounds.notes.append,
                ports_free=rehearsal.exception,
                unreached=lambda: unreached(rehearsal),
                leaves=lambda: leaves(facts),
            )
            proof = probe(s.cluster, hosts, s.transport, hooks=hooks)
            left_out = tuple(LeftOut(host, why) for host, why in {**proof.busy, **proof.alone}.items())
            counts: LinkCounts | NotRun = NotRun("--basic" if args.basic else "no check that needs it was asked for")
            if rounds.wanted("link_counts") and not args.basic:
                counts = after_tests(s, hosts, s.cluster.probe.backend, facts, proof.observations, pool=args.pool)
            counted = sentence(counts) if isinstance(counts, LinkCounts) else ""
            rounds.notes += filter(None, (rehearsal.result().note, counted))
            rounds.observations = with_line_rates(proof.observations, port_speeds(facts))
            later_rounds |= {
                "rehearsal": rehearsal.result(),
                "observations": rounds.observations,
                "located": proof.located,
                "link_counts": counts,
                "causes": causes(
                    s,
                    hosts,
                    proof,
                    facts,
                    rehearsal.result(),
                    ignored=rounds.ignored,
                    pool=args.pool,
                    deep=not args.basic,
                ),
            }
        rounds.findings = rounds.judge(facts, {**later_rounds, "baseline": baseline_of(setting_of(s.cluster))})
        return _end(
            args, rounds, started, left_out, facts, s.progress.timeline.phases(started), publisher(args, s, facts)
        )


def _end(
    args: argparse.Namespace,
    rounds: _Rounds,
    started: datetime,
    left_out: Sequence[LeftOut],
    facts: ClusterFacts | None = None,
    phases: Sequence[Phase] = (),
    publish: Callable[[Report], Published] | None = None,
) -> Ended:
    return end(
        args,
        "check",
        started,
        rounds.hosts,
        rounds.findings,
        observations=rounds.observations,
        left_out=left_out,
        notes=rounds.notes,
        phases=phases,
        to_prove=rounds.to_prove(),
        setting=None if args.source else setting_of(rounds.cluster),
        facts=facts,
        publish=publish,
    )
