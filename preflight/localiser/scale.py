"""Groups that fail although all pairs in them pass: the smallest part that still fails. Pure.

The search is played from its beginning with the answers so far, until it needs one that is not there: so it has no
state, and takes in whatever else was observed. If a part fails, so does all that contains it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from preflight.localiser.evidence import Evidence
from preflight.localiser.types import Group, Member

_FUTILE = 2  # passes over the rest that save nothing: it is the number of members that fails, not which


class _UnknownError(Exception):
    def __init__(self, group: Group) -> None:
        self.group = group


@dataclass
class Search:
    """What a search found, and what it has to know to go on. `repeat`: how often a group has to fail to be believed.
    `limit`: groups that it may ask for, one after the other, before it is content with what it has."""

    evidence: Evidence
    repeat: int
    limit: int
    found: list[Group] = field(default_factory=list)
    wanted: list[Group] = field(default_factory=list)

    def fails(self, group: Group, *, certain: bool = False) -> bool:
        failed, passed = self.evidence.failed, self.evidence.passed
        if len(group) < 2 or group in passed or any(group < larger for larger in passed if len(larger) > 2):
            return False
        if len(failed.get(group, ())) >= (2 if certain else 1) * self.repeat:
            return True
        inside = (part for part in failed if part < group and part not in passed)
        if not certain and any(len(failed[part]) >= self.repeat for part in inside):
            return True
        raise _UnknownError(group)

    def halve(self, group: Sequence[Member]) -> None:
        """Both halves at once, and each that fails again in halves. Where both pass, neither is to blame alone."""
        left, right = group[: len(group) // 2], group[len(group) // 2 :]
        failing, unknown = [], False
        for half in (left, right):
            try:
                if self.fails(frozenset(half)):
                    failing.append(half)
            except _UnknownError as ask:
                self.wanted.append(ask.group)
                unknown = True
        for half in failing:
            self.halve(half)
        if not failing and not unknown:
            try:
                if self.fails(frozenset(group), certain=True):
                    self.found.append(self._narrow(list(group)))
            except _UnknownError as ask:
                self.wanted.append(ask.group)

    def _narrow(self, rest: list[Member]) -> Group:
        """The smallest part, one member at a time: with the fewest members in a row that fail, the last is needed."""
        needed: list[Member] = []
        asked, futile = 0, 0
        while rest and futile < _FUTILE and asked < self.limit:
            low, high = -1, len(rest)  # so many of the rest pass, so many fail
            middle = high - 1 if needed else (low + high) // 2
            while high - low > 1:
                asked += 1
                if self.fails(frozenset([*needed, *rest[:middle]])):
                    high = middle
                else:
                    low = middle
                middle = (low + high) // 2
            if high == 0:
                rest = []
                break
            futile = futile + 1 if high == len(rest) and needed else 0
            needed.append(rest[high - 1])
            rest = rest[: high - 1]
        smallest = frozenset([*needed, *rest])
        self.fails(smallest, certain=True)  # once it passes, the search takes another way
        return smallest
