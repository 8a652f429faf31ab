"""The five outcomes of a check and their order."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

K = TypeVar("K")


class Outcome(StrEnum):
    """What a check says about one subject.

    `SKIP`: does not apply to this product, or a person switched it off. `UNKNOWN`: could not look (timeout, no
    permission, unparsable output); never a pass and never a failure.
    """

    FAIL = "fail"
    UNKNOWN = "unknown"
    WARN = "warn"
    PASS = "pass"
    SKIP = "skip"


_WORST_FIRST = tuple(Outcome)


def overall(outcomes: Iterable[Outcome]) -> Outcome:
    """The verdict over many outcomes: fail > unknown > warn > pass > skip; nothing looked at is `UNKNOWN`."""
    return min(outcomes, key=_WORST_FIRST.index, default=Outcome.UNKNOWN)


def worst_by(said: Iterable[tuple[K, Outcome]]) -> dict[K, Outcome]:
    """What is said of each subject, as `overall` has it, in the order in which they are named first."""
    worst: dict[K, Outcome] = {}
    for subject, outcome in said:
        before = worst.get(subject)
        if before is not outcome:  # most pass, and most say what was said before
            worst[subject] = overall((outcome, before or outcome))
    return worst
