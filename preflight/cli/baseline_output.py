"""Baselines and comparisons as lines, folded, and as JSON (docs/contracts.md, `preflight.baseline/1`)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from preflight.cli.history_document import figure_row
from preflight.history.runs import CheckRun
from preflight.model.figures import Baseline, Comparison, Shape, comparable, shown_bytes, shown_GBps
from preflight.model.measure import Scope
from preflight.model.outcome import Outcome

LINES = 20
T = TypeVar("T")


def shown(known: Sequence[tuple[str, CheckRun]]) -> Iterator[str]:
    if not known:
        yield "no baseline is saved yet: preflight baseline save"
        return
    for name, look in known:
        cluster, product, backend = look.setting
        yield f"{name} of {cluster} ({product}, {backend}): run {look.run}, {look.started}"
        yield f"{'GB/s':>9}  {'what':44} who"
        for figures in alike(comparable(look.figures), lambda figure: figure.shape):
            slowest = min(figures, key=lambda figure: figure.busbw)
            yield f"{shown_GBps(slowest.busbw):>9}  {what(slowest.shape):44} {who([one.shape for one in figures])}"
        yield ""
    yield "next: preflight baseline compare"


def compared(look: CheckRun, baseline: Baseline, found: Sequence[Comparison], other: Iterable[Scope]) -> Iterator[str]:
    """The worst first; what is well stands in one line a kind, with its slowest."""
    yield f"run {look.run} beside the baseline {baseline.name}, run {baseline.run}; GB/s of bus bandwidth"
    yield f"{'':5}{'saved':>9}{'now':>9}{'share':>7}  {'what':40} who"
    bad = [one for one in found if one.outcome is not Outcome.PASS]
    for one in bad[:LINES]:
        yield _line(one, [one.now.shape])
    if len(bad) > LINES:
        yield f"     … and {len(bad) - LINES} more below their limits (-o json has them all)"
    well = [one for one in found if one.outcome is Outcome.PASS]
    for same in alike(well, lambda one: one.now.shape):
        yield _line(min(same, key=lambda one: one.share), [one.now.shape for one in same])
    for scope in other:
        yield f"not compared: {scope}: other hosts, ranks or sizes than in the baseline"
    yield ""
    failed = any(one.outcome is Outcome.FAIL for one in bad)
    yield f"{'FAIL' if failed else 'WARN' if bad else 'PASS'}: {len(bad)} of {len(found)} too slow"
    yield "next: preflight explain PRB115" if bad else "next: preflight baseline show"


def _line(worst: Comparison, shapes: Sequence[Shape]) -> str:
    figures = f"{shown_GBps(worst.was.busbw):>9}{shown_GBps(worst.now.busbw):>9}{worst.share:>7.0%}"
    return f"{worst.outcome.value:5}{figures}  {what(worst.now.shape):40} {who(shapes)}"


def alike(items: Iterable[T], shape: Callable[[T], Shape]) -> Iterator[list[T]]:
    """Those that differ in nothing but who was in the group, together."""
    groups: dict[object, list[T]] = defaultdict(list)
    for item in items:
        one = shape(item)
        groups[one.scope, one.op, one.reduction, one.form, one.dtype, one.bytes, one.ranks].append(item)
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
    return _text([{**_head(name, look), "figures": list(map(figure_row, look.figures))} for name, look in known])


def compared_document(look: CheckRun, baseline: Baseline, found: Iterable[Comparison]) -> str:
    body = [
        {**figure_row(one.now), "saved_GBps": one.was.busbw, "share": round(one.share, 4), "outcome": one.outcome}
        for one in found
    ]
    return _text([{**_head(baseline.name, look), "baseline": baseline.run, "compared": body}])


def _head(name: str, look: CheckRun) -> dict[str, Any]:
    return {"name": name, "run": look.run, "started": look.started, **look.setting._asdict()}


def _text(baselines: list[dict[str, Any]]) -> str:
    import msgspec

    body = {"schema": "preflight.baseline/1", "baselines": baselines}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
