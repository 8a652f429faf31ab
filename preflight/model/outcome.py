"""The five outcomes of a check and their order."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

K = TypeVar("K")


class Outcome(StrEnum):
    """Outcome of a check for one subject.

    `SKIP`: does not apply to this product, or a person switched it off. `UNKNOWN`: not determined (timeout, no
    permission, unparsable output), so neither a pass nor a failure.
    """

    FAIL = "fail"
    UNKNOWN = "unknown"
    WARN = "warn"
    PASS = "pass"
    SKIP = "skip"


_WORST_FIRST = tuple(Outcome)


def overall(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst of the outcomes: fail > unknown > warn > pass > skip. Without outcomes it is `UNKNOWN`."""
    return min(outcomes, key=_WORST_FIRST.index, default=Outcome.UNKNOWN)


def worst_by(outcomes: Iterable[tuple[K, Outcome]]) -> dict[K, Outcome]:
    """Return the worst outcome of each subject, in the order of the subjects' first appearance."""
    worst: dict[K, Outcome] = {}
    for subject, outcome in outcomes:
        before = worst.get(subject)
        if before is not outcome:  # most outcomes repeat the one before
            worst[subject] = overall((outcome, before or outcome))
    return worst
