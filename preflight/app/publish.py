"""`--publish` of check and probe: results are sent to the hosts, for the gate there."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from preflight.app.session import Session
from preflight.checks.engine.registry import all_checks
from preflight.facts.types import ClusterFacts, HostFacts, Unreachable
from preflight.gate.publish import publish
from preflight.gate.verdict import looks_of, versions_of
from preflight.inventory import fold
from preflight.model.cluster import ProbeSettings
from preflight.model.errors import UsageError
from preflight.model.report import Report


class Published(NamedTuple):
    """Notes on the publication, and whether every reached host accepted it (`everywhere`)."""

    notes: tuple[str, ...]
    everywhere: bool


def refuse_partial_check(args: argparse.Namespace) -> None:
    """Raise UsageError if `--publish` would present a partial check as a whole one."""
    if not args.publish:
        return
    partial = {
        "--from": args.source,
        "--only": args.only,
        "--skip": args.skip,
        "--basic": args.basic,
        "--no-ping": args.no_ping,
        "--ignore": args.ignore,
    }
    _refuse([option for option, value in partial.items() if value], "a look at everything, as the inventory has it")


def refuse_partial_probe(args: argparse.Namespace, settings: ProbeSettings) -> None:
    """Raise UsageError if `--publish` would present a partial probe as a whole one. `settings` are the inventory's."""
    if not args.publish:
        return
    partial = {
        "--scope": args.scope,
        "--backend": args.backend not in (None, settings.backend),
        "--via pods": args.via == "pods",
    }
    _refuse([option for option, value in partial.items() if value], "a probe of all that jobs use")


def _refuse(options: list[str], wanted: str) -> None:
    if options:
        raise UsageError(f"--publish is for {wanted}, by which the gate decides; leave out {', '.join(options)}")


def publisher(args: argparse.Namespace, s: Session, facts: ClusterFacts) -> Callable[[Report], Published] | None:
    """Return a function that publishes a report to the hosts; None without --publish."""
    if not getattr(args, "publish", False):
        return None

    def bring(report: Report) -> Published:
        reached = [line.name for line in report.hosts if not isinstance(facts.hosts.get(line.name), Unreachable)]
        versions = {
            name: versions_of(host_facts)
            for name, host_facts in facts.hosts.items()
            if isinstance(host_facts, HostFacts)
        }
        needs = {id_: check.needs for id_, check in all_checks().items()}
        looks = looks_of(report, reached, needs, versions)
        hosts = [host for host in s.cluster.hosts if host.name in looks]
        answers = publish(s.cluster, looks, hosts, s.transport, pool=args.pool, progress=s.progress)
        s.progress.clear()
        outdated = [name for name, answer in answers.items() if answer.outdated]
        why = {left_out.host: "left out" for left_out in report.left_out}
        unpublished = {
            line.name: why.get(line.name, "not reached") for line in report.hosts if line.name not in answers
        }
        errors = {name: answer.error for name, answer in answers.items()}
        return Published(tuple(_told({**errors, **unpublished}, outdated)), not any(errors.values()))

    return bring


def _told(errors: Mapping[str, str], outdated: Sequence[str]) -> Iterator[str]:
    """Yield sentences on hosts with the result, on each reason why others lack it, and on gates that ignore it."""
    for why in sorted(set(errors.values())):
        names = fold(name for name, reason in errors.items() if reason == why)
        yield f"not published on {names}: {why}" if why else f"published on {names}"
    if outdated:
        yield (
            f"the gate on {fold(outdated)} goes by what the inventory said of it before, and counts none of this: "
            "preflight gate install"
        )
