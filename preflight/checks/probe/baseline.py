"""Checks of the probe's figures against the saved baseline (`preflight baseline`)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.bandwidth_findings import Advice, ComparedBandwidth, slow_findings
from preflight.model.figures import (
    LIMITS,
    Baseline,
    Comparison,
    Figure,
    comparable,
    compare,
    figures,
    shape,
    shown_GBps,
    strangers,
)
from preflight.model.finding import Finding
from preflight.model.measure import Observation, Scope, TestOutcome, TestResult


@cluster_check("PRB115", "Bandwidth against baseline", several=False)
def baseline_bandwidth(scribe: All, observations: tuple[Observation, ...], baseline: Baseline) -> Iterator[Finding]:
    """Why: If all hosts and links are equally slow, a comparison among them shows nothing. Typical causes are a
    changed switch configuration, a new driver, or a job that runs at the same time as the probe.

    Result: WARN for pairs and hosts below 93 % of the baseline, FAIL below 80 %. For rails and all devices the limits
    are 90 % and 75 %. Each bandwidth is compared for the same operation and ranks, at the largest size that both runs
    have. A baseline with different hosts, scopes or sizes is not compared. PRB103 reports pairs that are slower than
    other pairs, so this check leaves out these pairs and the groups that contain them.

    Check manually:
      preflight baseline compare

    Fix: Find the change since the baseline was saved. If the new figures are right, save them.
      preflight baseline save
    """
    tests = [observation.test for observation in observations]
    slow = {_places(test) for test in tests if test.outcome is TestOutcome.SLOW}
    now = figures(test for test in tests if not any(pair <= _places(test) for pair in slow))
    if not comparable(now):
        yield scribe.skip("PRB103 reports the slow pairs" if slow else "the probe measured no bandwidth")
        return
    yield from _not_compared(scribe, baseline, now, tests)
    yield from slow_findings(
        scribe,
        map(_compared, compare(baseline, now)),
        Advice(
            "a change since the baseline was saved",
            "find what changed since then",
            ("preflight history", "preflight baseline compare"),
        ),
    )


def _not_compared(
    scribe: All, baseline: Baseline, now: Sequence[Figure], tests: Sequence[TestResult]
) -> Iterator[Finding]:
    compared = compare(baseline, now)
    scopes = strangers(baseline, now) if compared else [*LIMITS]
    due_scopes = _due(baseline, tests, {host.name for host in scribe.hosts})
    if missing_scopes := [scope for scope in scopes if scope in due_scopes]:
        yield scribe.unknown(
            f"this run has no results of scope {', '.join(missing_scopes)} to compare with the baseline (run "
            f"{baseline.run}), because it measured fewer ranks or other sizes",
            remedy="compare the two runs, or save a new baseline",
            commands=("preflight baseline compare", "preflight baseline save"),
        )
    elif scopes:
        scopes_note = f" of scope {', '.join(scopes)}" if compared else ""
        yield scribe.skip(
            f"the baseline (run {baseline.run}) was measured with different hosts, scopes or sizes, so its "
            f"results{scopes_note} cannot be compared"
        )


def _due(baseline: Baseline, tests: Sequence[TestResult], hosts: set[str]) -> set[Scope]:
    """Return the scopes for which the baseline has a figure that this run was to measure, too.

    Its tests hold the figure, or would if no host or device had been lost. `hosts`: those of this run."""
    shapes = {shape(test) for test in tests}
    number = len(hosts | {member.host for test in tests for member in test.members})
    return {
        figure.shape.scope
        for figure in comparable(baseline.figures)
        for tested in shapes
        if figure.shape.hosts in (tested.hosts, number)
        and replace(tested, hosts=figure.shape.hosts, ranks=figure.shape.ranks) == figure.shape
    }


def _places(test: TestResult) -> frozenset[str]:
    return frozenset(member.place for member in test.members)


def _compared(comparison: Comparison) -> ComparedBandwidth:
    was, now = comparison.was, comparison.now
    least = LIMITS[now.shape.scope][0]
    against = f"the baseline's {shown_GBps(was.busbw)} GB/s"
    return ComparedBandwidth(now.shape, now.busbw, comparison.share, comparison.outcome, least, against)
