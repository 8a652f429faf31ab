"""The end of a run: its report, published and saved if requested, and the exit code that follows from it."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from preflight.app.remember import remembered
from preflight.app.run import ClusterRun
from preflight.app.site_engine import ENGINES
from preflight.model.measure import Observation
from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.report.build import RunDetails, build
from preflight.report.next_step import next_step, next_step_without_inventory

_LOG = logging.getLogger(__name__)


class EndedRun(NamedTuple):
    """The result of a run: its report, saved and published if requested, but not shown yet."""

    report: Report
    exit_code: int
    next_step: str
    observations: Sequence[Observation]


def end(run: ClusterRun) -> EndedRun:
    """Build the report of a run that ends now, and its exit code (docs/contracts.md). Publish and save it."""
    options = run.options
    phases = run.session.progress.timeline.phases(run.started) if run.session else ()
    for phase in phases:
        _LOG.info("%s took %.2f s%s", phase.name, phase.seconds, f", longest {phase.longest}" if phase.longest else "")
    report = build(
        run.command,
        run.started,
        [host.name for host in run.hosts],
        run.findings,
        RunDetails(
            run.observations,
            run.left_out,
            run.notes,
            phases,
            options.inventory,
            options.hosts,
        ),
    )
    exit_code = report.exit_code(Outcome(options.fail_on))
    command_next = _next_step(run, report)
    if not run.session:
        return EndedRun(report, exit_code, command_next, run.observations)
    if options.publish:
        from preflight.app.publish import publish_report

        published = publish_report(run.session, run.facts, report)
        report = replace(report, notes=(*report.notes, *published.notes))
        if not published.everywhere and exit_code in (0, 3):
            exit_code, command_next = 1, f"fix what prevented the publication, then run: {options.again}"
    report = remembered(report, run, exit_code, command_next)
    return EndedRun(report, exit_code, command_next, run.observations)


def _next_step(run: ClusterRun, report: Report) -> str:
    options = run.options
    if options.hosts:
        return next_step_without_inventory(report, options.hosts, run.cluster.product)
    via = options.via if options.via in ENGINES else None
    return next_step(report, options.inventory, limit=options.limit, via=via, to_prove=run.to_prove)
