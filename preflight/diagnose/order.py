"""The order in which errors were logged, as far as times and places in files tell. Pure."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

from preflight.diagnose.types import Seen

NEVER = float("inf")
_OUT_OF_ORDER = 5.0  # seconds, in which a launcher may print lines of several ranks in another order
_LINES_OUT_OF_ORDER = 50  # the same in lines
_INNER = re.compile(r"E[1-9A-Z]9\d{3}|EE8888|\d{6}")


def when(seen: Seen) -> float:
    """Return the error's time; an error without one comes last."""
    return NEVER if seen.time is None else seen.time


def first_of(all_seen: Sequence[Seen]) -> Seen:
    """Return the first error: by place within a file, else by time. Inner codes and numbers of CANN come last."""
    inner = [error for error in all_seen if _INNER.fullmatch(error.sign.id)]
    candidates = [error for error in all_seen if error not in inner] or inner
    if len({error.file for error in candidates}) == 1:
        return min(candidates, key=lambda error: error.number)
    return min(candidates, key=lambda error: (when(error), error.number))


def is_before(seen: Seen, other: Seen) -> bool:
    """Return whether `seen` was logged before `other`, for certain."""
    if seen.file == other.file:
        return seen.number < other.number
    return seen.time is not None and other.time is not None and seen.time < other.time


class Errors:
    """Errors by file, place and time, to be compared with another error at once: a job has thousands of them."""

    def __init__(self, errors: Iterable[Seen]) -> None:
        by_file: dict[str, list[Seen]] = defaultdict(list)
        for error in errors:
            by_file[error.file].append(error)
        self._files = {file: _Places(of_file) for file, of_file in by_file.items()}
        firsts = sorted((places.first, file) for file, places in self._files.items())
        self._firsts = firsts[:2]  # two files are enough to know the first error that is in another one
        self._untimed = sum(places.has_untimed for places in self._files.values())

    def any_before(self, seen: Seen) -> bool:
        """Return whether any of them was logged before `seen`, for certain."""
        places = self._files.get(seen.file)
        if places and places.numbers[0] < seen.number:
            return True
        return seen.time is not None and self._first_elsewhere(seen.file) < seen.time

    def all_after(self, seen: Seen) -> bool:
        """Return whether `seen` was logged before all of them, for certain."""
        places = self._files.get(seen.file)
        if places and places.numbers[0] <= seen.number:
            return False
        if len(self._files) == (places is not None):
            return True
        untimed = self._untimed - (places is not None and places.has_untimed)
        return seen.time is not None and not untimed and seen.time < self._first_elsewhere(seen.file)

    def any_well_before(self, seen: Seen) -> bool:
        """Return whether any of them was logged before `seen`, also where lines of several ranks are out of order."""
        if self._first_elsewhere(seen.file) < when(seen) - _OUT_OF_ORDER and seen.time is not None:
            return True
        places = self._files.get(seen.file)
        return places is not None and places.any_well_before(seen)

    def _first_elsewhere(self, file: str) -> float:
        """Return the first time of the errors in other files."""
        return next((time for time, first_file in self._firsts if first_file != file), NEVER)


class _Places:
    """Errors of one file, by their lines.

    `first`: the first time. `_until`: for each error, the first time up to it.
    """

    def __init__(self, errors: list[Seen]) -> None:
        errors = sorted(errors, key=lambda error: error.number)
        self.numbers = [error.number for error in errors]
        self._until = list(accumulate(map(when, errors), min))
        self.first = self._until[-1]
        self._first_untimed = next((error.number for error in errors if error.time is None), NEVER)

    @property
    def has_untimed(self) -> bool:
        return self._first_untimed < NEVER

    def any_well_before(self, seen: Seen) -> bool:
        """Return whether one of them is clearly before `seen`: in time, or else in lines."""
        far = seen.number - _LINES_OUT_OF_ORDER
        if seen.time is None:
            return self.numbers[0] < far
        if self._time_until(bisect_right(self.numbers, seen.number)) < seen.time - _OUT_OF_ORDER:
            return True
        near_in_time = self._time_until(bisect_left(self.numbers, far)) <= seen.time + _OUT_OF_ORDER
        return near_in_time or self._first_untimed < far

    def _time_until(self, count: int) -> float:
        """Return the first time of the first `count` errors."""
        return self._until[count - 1] if count else NEVER
