"""Checks of the probe's figures against the saved baseline (`preflight baseline`)."""

from collections.abc import Iterator
from dataclasses import replace

from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.bandwidth_findings import Judged, spoken
from preflight.model.figures import (
    LIMITS,
    Baseline,
    Comparison,
    comparable,
    compare,
    figures,
    shape,
    shown_GBps,
    strangers,
)
from preflight.model.finding import Finding
from preflight.model.measure import Observation, Scope, TestOutcome, TestResult


@cluster_check("PRB115", "The probe's figures are those of the saved baseline", several=False)
def as_saved(all_: All, observations: tuple[Observation, ...], baseline: Baseline) -> Iterator[Finding]:
    """Why: what is equally slow everywhere shows in no comparison among peers: a switch with another configuration, a
    new driver, a job beside the probe. Each bandwidth, at the largest size that both have, is compared with that of the
    same operation over the same ranks in the saved run: a warning below 93 % and a failure below 80 % for pairs and
    hosts, below 90 % and 75 % for rails and all devices. A pair that is slow among its peers, and what it slows, is
    left to PRB103. A baseline over other hosts, scopes or sizes than were asked for is no measure.

    Check manually: preflight baseline compare

    Fix: look at what has changed since the baseline was saved; where the figures of now are the right ones: preflight
    baseline save
    """
    slow = {_places(observation.test) for observation in observations if observation.test.outcome is TestOutcome.SLOW}
    now = figures(
        observation.test for observation in observations if not any(pair <= _places(observation.test) for pair in slow)
    )
    compared = compare(baseline, now)
    if not comparable(now):
        yield all_.skip("PRB103 names what is slow" if slow else "the probe measured no bandwidth")
        return
    scopes_apart = strangers(baseline, now) if compared else [*LIMITS]
    due_scopes = _due(baseline, [observation.test for observation in observations], {host.name for host in all_.hosts})
    if missing_scopes := [scope for scope in scopes_apart if scope in due_scopes]:
        yield all_.unknown(
            f"run {baseline.run}, the baseline, has figures of {', '.join(missing_scopes)} that this one lacks: it "
            "measured fewer ranks, or not those sizes",
            host=None,
            remedy="preflight baseline compare shows both; preflight baseline save makes a new one",
        )
    elif scopes_apart:
        scopes_note = f" of {', '.join(scopes_apart)}" if compared else ""
        yield all_.skip(
            f"run {baseline.run}, the baseline, was over other hosts, scopes or sizes than were asked for now: its "
            f"figures{scopes_note} are no measure"
        )
    yield from spoken(
        all_,
        map(_judged, compared),
        "something has changed since the baseline was saved",
        "preflight history lists what was done since; preflight baseline compare shows all figures",
    )


def _due(baseline: Baseline, tests: list[TestResult], hosts: set[str]) -> set[Scope]:
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


def _judged(comparison: Comparison) -> Judged:
    was, now = comparison.was, comparison.now
    least = LIMITS[now.shape.scope][0]
    against = f"the baseline's {shown_GBps(was.busbw)} GB/s"
    return Judged(now.shape, now.busbw, comparison.share, comparison.outcome, least, against)
