"""Groups that fail although all pairs in them pass: the search for the smallest part that still fails. Pure.

The search is replayed from its beginning with the answers so far, until it needs one that is not there. So it has no
state, and uses whatever else was observed. If a part fails, every group that contains it fails, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from preflight.attribution.localiser.evidence import Evidence
from preflight.attribution.localiser.types import Group, Member

_FUTILE = 2  # passes that remove no member: then the number of members matters, not which ones


class _UntestedError(Exception):
    def __init__(self, group: Group) -> None:
        self.group = group


@dataclass
class ScaleSearch:
    """The smallest failing groups (`smallest`), and those to test before the search can go on (`wanted`).

    `repeat`: failures that a group needs to be believed. `limit`: the number of groups that the search may ask for, one
    after the other, before it settles for the smallest so far.
    """

    evidence: Evidence
    repeat: int
    limit: int
    smallest: list[Group] = field(default_factory=list)
    wanted: list[Group] = field(default_factory=list)

    def halve(self, group: Sequence[Member]) -> None:
        """Test both halves at once, and halve again each that fails. If both pass, narrow the group itself."""
        middle = len(group) // 2
        failing, unknown = [], False
        for half in (group[:middle], group[middle:]):
            try:
                if self._fails(frozenset(half)):
                    failing.append(half)
            except _UntestedError as error:
                self.wanted.append(error.group)
                unknown = True
        for half in failing:
            self.halve(half)
        if not failing and not unknown:
            try:
                if self._fails(frozenset(group), certain=True):
                    self.smallest.append(self._narrow(list(group)))
            except _UntestedError as error:
                self.wanted.append(error.group)

    def _fails(self, group: Group, *, certain: bool = False) -> bool:
        """Return whether a group fails. Raise _UntestedError if the results do not show it.

        `certain`: only twice as many failures of this very group are enough.
        """
        if self._passes(group):
            return False
        if len(self.evidence.failed.get(group, ())) >= (2 if certain else 1) * self.repeat:
            return True
        if not certain and self._has_failing_part(group):
            return True
        raise _UntestedError(group)

    def _passes(self, group: Group) -> bool:
        passed = self.evidence.passed
        return len(group) < 2 or group in passed or any(group < larger for larger in passed if len(larger) > 2)

    def _has_failing_part(self, group: Group) -> bool:
        failed, passed = self.evidence.failed, self.evidence.passed
        parts = (part for part in failed if part < group and part not in passed)
        return any(len(failed[part]) >= self.repeat for part in parts)

    def _narrow(self, candidates: list[Member]) -> Group:
        """Return the smallest part, one member at a time: the last member of the shortest failing prefix is needed."""
        needed: list[Member] = []
        tests = futile = 0
        while candidates and futile < _FUTILE and tests < self.limit:
            low, high = -1, len(candidates)  # prefixes of these lengths pass, and fail
            middle = high - 1 if needed else (low + high) // 2
            while high - low > 1:
                tests += 1
                if self._fails(frozenset([*needed, *candidates[:middle]])):
                    high = middle
                else:
                    low = middle
                middle = (low + high) // 2
            if high == 0:
                candidates = []
                break
            futile = futile + 1 if high == len(candidates) and needed else 0
            needed.append(candidates[high - 1])
            candidates = candidates[: high - 1]
        smallest = frozenset([*needed, *candidates])
        self._fails(smallest, certain=True)  # if it passes once, the search goes another way
        return smallest
