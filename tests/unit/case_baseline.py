"""The saved baseline of a case of tests/cases/checks."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from preflight.checks.engine.run import NotRun
from preflight.model.figures import Baseline, figures
from preflight.model.measure import Observation, Scope


def baseline(case: Mapping[str, Any], observations: Iterable[Observation]) -> Baseline | NotRun:
    """What the case's own tests measure, unless its `[baseline]` says otherwise: `busbw` by place ("node01/3
    node02/3", "" for all devices), `ranks` and `hosts` of all devices, `bytes`, its `scopes`, or `none = true`."""
    said = case.get("baseline", {})
    if said.get("none"):
        return NotRun("no baseline is saved")
    saved = []
    for figure in figures(seen.test for seen in observations):
        shape = figure.shape
        if shape.scope not in said.get("scopes", list(Scope)):
            continue
        of_all = {key: said[key] for key in ("ranks", "hosts") if key in said and shape.scope is Scope.ALL}
        busbw = said.get("busbw", {}).get(shape.place, figure.busbw)
        saved.append(replace(figure, shape=replace(shape, bytes=said.get("bytes", shape.bytes), **of_all), busbw=busbw))
    return Baseline("default", "20261101-080000-cafe", tuple(saved))
