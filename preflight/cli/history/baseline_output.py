"""Baselines and comparisons as folded lines, and as JSON (docs/contracts.md, `preflight.baseline/1`)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from preflight.cli.history.history_document import figure_row
from preflight.history.runs import CheckRun
from preflight.model.figures import Baseline, Comparison, Shape, comparable, shown_bytes, shown_GBps
from preflight.model.measure import Scope
from preflight.model.outcome import Outcome, overall

LINES = 20
T = TypeVar("T")


def shown(known: Sequence[tuple[str, CheckRun]]) -> Iterator[str]:
    if not known:
        yield "no baseline is saved yet"
        yield "next: preflight baseline save"
        return
    for name, run in known:
        cluster, product, backend = run.setting
        yield f"{name} of {cluster} ({product}, {backend}): run {run.run}, {run.started}"
        yield f"{'GB/s':>9}  {'operation':44} hosts"
        for figures in alike(comparable(run.figures), lambda figure: figure.shape):
            slowest = min(figures, key=lambda figure: figure.busbw)
            yield f"{shown_GBps(slowest.busbw):>9}  {what(slowest.shape):44} {who([f.shape for f in figures])}"
        yield ""
    yield "next: preflight baseline compare"


def compared(
    past: CheckRun, baseline: Baseline, comparisons: Sequence[Comparison], other: Iterable[Scope]
) -> Iterator[str]:
    """Yield the slow figures first, worst first. Figures that pass are one line a kind, with its slowest."""
    yield f"bus bandwidth in GB/s: run {past.run} against baseline {baseline.name}, run {baseline.run}"
    yield f"{'':5}{'saved':>9}{'now':>9}{'share':>7}  {'operation':40} hosts"
    bad = [comparison for comparison in comparisons if comparison.outcome is not Outcome.PASS]
    for comparison in bad[:LINES]:
        yield _line(comparison, [comparison.now.shape])
    if len(bad) > LINES:
        yield f"     … and {len(bad) - LINES} more below their limits (-o json lists all)"
    yield from _passes([comparison for comparison in comparisons if comparison.outcome is Outcome.PASS])
    for scope in other:
        yield f"not compared: {scope} (hosts, ranks or sizes differ from the baseline)"
    yield ""
    verdict = overall([Outcome.PASS, *(comparison.outcome for comparison in bad)])
    yield f"{verdict.value.upper()}: {len(bad)} of {len(comparisons)} bandwidths too low"
    yield "next: preflight explain PRB115" if bad else "next: preflight baseline show"


def _passes(passes: Sequence[Comparison]) -> Iterator[str]:
    for same in alike(passes, lambda comparison: comparison.now.shape):
        yield _line(min(same, key=lambda comparison: comparison.share), [comparison.now.shape for comparison in same])


def _line(worst: Comparison, shapes: Sequence[Shape]) -> str:
    figures = f"{shown_GBps(worst.was.busbw):>9}{shown_GBps(worst.now.busbw):>9}{worst.share:>7.0%}"
    return f"{worst.outcome.value:5}{figures}  {what(worst.now.shape):40} {who(shapes)}"


def alike(items: Iterable[T], shape: Callable[[T], Shape]) -> Iterator[list[T]]:
    """Yield groups of the items that differ only in the members of their test's group."""
    groups: dict[object, list[T]] = defaultdict(list)
    for item in items:
        test = shape(item)
        groups[test.scope, test.op, test.reduction, test.form, test.dtype, test.bytes, test.ranks].append(item)
    yield from groups.values()


def what(shape: Shape) -> str:
    form = "" if shape.form == "tensor" else shape.form
    return " ".join(filter(None, (shape.op, shape.reduction, form, shape.dtype, shown_bytes(shape.bytes))))


def who(shapes: Sequence[Shape]) -> str:
    first, number = shapes[0], len(shapes)
    if number > 1:
        return f"{number} {first.scope}s, slowest shown"
    return first.place.replace(" ", " - ") if first.scope is Scope.PAIR else first.place or f"all {first.ranks} ranks"


def shown_document(known: Iterable[tuple[str, CheckRun]]) -> str:
    return _text([{**_head(name, run), "figures": list(map(figure_row, run.figures))} for name, run in known])


def compared_document(past: CheckRun, baseline: Baseline, comparisons: Iterable[Comparison]) -> str:
    body = [
        {
            **figure_row(comparison.now),
            "saved_GBps": comparison.was.busbw,
            "share": round(comparison.share, 4),
            "outcome": comparison.outcome,
        }
        for comparison in comparisons
    ]
    return _text([{**_head(baseline.name, past), "baseline": baseline.run, "compared": body}])


def _head(name: str, past: CheckRun) -> dict[str, Any]:
    return {"name": name, "run": past.run, "started": past.started, **past.setting._asdict()}


def _text(baselines: list[dict[str, Any]]) -> str:
    body = {"schema": "preflight.baseline/1", "baselines": baselines}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
