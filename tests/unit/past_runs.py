"""Runs of check and probe as the history keeps them, for tests."""

from dataclasses import replace
from typing import Any

from preflight.history.runs import CheckRun, RunSetting, remember
from preflight.model.figures import Figure, Shape
from preflight.model.finding import Finding
from preflight.model.measure import Scope
from preflight.model.outcome import Outcome

SETTING = RunSetting("lab", "atlas-a2", "hccl")
MIB = 1 << 20


def figure(busbw: float, place: str = "", **more: Any) -> Figure:
    """Of the pair `place`, or of all 16 devices."""
    scope, hosts, ranks = (Scope.PAIR, 2, 2) if place else (Scope.ALL, 2, 16)
    shape = Shape("all_reduce", "sum", "tensor", "float32", 16 * MIB, scope, place, hosts, ranks)
    return Figure(replace(shape, **more), busbw, 0.01)


FIGURES = (figure(8.0), figure(10.0, "node01/0 node02/0"), figure(10.5, "node01/1 node02/1"))


def failed(host: str, device: int | None = None, check: str = "PRB101", outcome: Outcome = Outcome.FAIL) -> Finding:
    return Finding(check, outcome, f"{host}: it is not well", host, device)


def look(run: str, *findings: Finding, **more: Any) -> CheckRun:
    """A probe of node01 and node02; its verdict follows from `findings`."""
    outcomes = {finding.outcome for finding in findings}
    verdict = next((outcome for outcome in Outcome if outcome in outcomes), Outcome.PASS)
    return replace(
        CheckRun(
            run, "probe", "kim@desk", "2026-11-21T10:42:09Z", "2026-11-21T10:43:09Z", verdict,
            int(verdict is Outcome.FAIL), "/srv/hosts.toml", SETTING, ("node01", "node02"),
            frozenset({"PRB101", "PRB103"}), tuple(findings), (), "start the job",
        ),
        **more,
    )  # fmt: skip


def written(run: str, *findings: Finding, **more: Any) -> CheckRun:
    remember(one := look(run, *findings, **more))
    return one
