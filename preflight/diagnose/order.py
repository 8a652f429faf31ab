"""The order in which errors were logged, as far as times and places in files show it. Pure."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

from preflight.diagnose.types import LoggedError

NEVER = float("inf")
_OUT_OF_ORDER = 5.0  # seconds, in which a launcher may print lines of several ranks in another order
_LINES_OUT_OF_ORDER = 50  # the same in lines
_INNER = re.compile(r"E[1-9A-Z]9\d{3}|EE8888|\d{6}")


def when(error: LoggedError) -> float:
    """Return the error's time; an error without one comes last."""
    return NEVER if error.time is None else error.time


def first_of(errors: Sequence[LoggedError]) -> LoggedError:
    """Return the first error: by place within a file, else by time. Inner codes and numbers of CANN come last."""
    inner = [error for error in errors if _INNER.fullmatch(error.sign.id)]
    candidates = [error for error in errors if error not in inner] or inner
    if len({error.file for error in candidates}) == 1:
        return min(candidates, key=lambda error: error.number)
    return min(candidates, key=lambda error: (when(error), error.number))


def is_before(error: LoggedError, other: LoggedError) -> bool:
    """Return whether `error` was logged before `other`, for certain."""
    if error.file == other.file:
        return error.number < other.number
    return error.time is not None and other.time is not None and error.time < other.time


class Errors:
    """Errors by file, place and time, to be compared with another error at once: a job has thousands of them."""

    def __init__(self, errors: Iterable[LoggedError]) -> None:
        by_file: dict[str, list[LoggedError]] = defaultdict(list)
        for error in errors:
            by_file[error.file].append(error)
        self._files = {file: _Places(of_file) for file, of_file in by_file.items()}
        firsts = sorted((places.first, file) for file, places in self._files.items())
        self._firsts = firsts[:2]  # two files are enough to know the first error that is in another one
        self._untimed = sum(places.has_untimed for places in self._files.values())

    def any_before(self, error: LoggedError) -> bool:
        """Return whether any of them was logged before `error`, for certain."""
        places = self._files.get(error.file)
        if places and places.numbers[0] < error.number:
            return True
        return error.time is not None and self._first_elsewhere(error.file) < error.time

    def all_after(self, error: LoggedError) -> bool:
        """Return whether `error` was logged before all of them, for certain."""
        places = self._files.get(error.file)
        if places and places.numbers[0] <= error.number:
            return False
        if len(self._files) == (places is not None):
            return True
        untimed = self._untimed - (places is not None and places.has_untimed)
        return error.time is not None and not untimed and error.time < self._first_elsewhere(error.file)

    def any_well_before(self, error: LoggedError) -> bool:
        """Return whether any of them was logged before `error`, also where lines of several ranks are out of order."""
        if self._first_elsewhere(error.file) < when(error) - _OUT_OF_ORDER and error.time is not None:
            return True
        places = self._files.get(error.file)
        return places is not None and places.any_well_before(error)

    def _first_elsewhere(self, file: str) -> float:
        """Return the first time of the errors in other files."""
        return next((time for time, first_file in self._firsts if first_file != file), NEVER)


class _Places:
    """Errors of one file, by their lines.

    `first`: the first time. `_until`: for each error, the first time up to it.
    """

    def __init__(self, errors: list[LoggedError]) -> None:
        errors = sorted(errors, key=lambda error: error.number)
        self.numbers = [error.number for error in errors]
        self._until = list(accumulate(map(when, errors), min))
        self.first = self._until[-1]
        self._first_untimed = next((error.number for error in errors if error.time is None), NEVER)

    @property
    def has_untimed(self) -> bool:
        return self._first_untimed < NEVER

    def any_well_before(self, error: LoggedError) -> bool:
        """Return whether one of them is clearly before `error`: in time, or else in lines."""
        far = error.number - _LINES_OUT_OF_ORDER
        if error.time is None:
            return self.numbers[0] < far
        if self._time_until(bisect_right(self.numbers, error.number)) < error.time - _OUT_OF_ORDER:
            return True
        near_in_time = self._time_until(bisect_left(self.numbers, far)) <= error.time + _OUT_OF_ORDER
        return near_in_time or self._first_untimed < far

    def _time_until(self, count: int) -> float:
        """Return the first time of the first `count` errors."""
        return self._until[count - 1] if count else NEVER
