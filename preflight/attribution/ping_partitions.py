"""Parts of a fabric that reach themselves and not each other: pings as tests for the localiser. Pure.

Pings have no order, but the localiser weighs tests in one. So a member that answers any other is good before and after
each of its lost pings. A member that answers no other takes part in no test: it is broken by itself, whichever part it
is in.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from preflight.attribution.localiser.evidence import weigh
from preflight.attribution.localiser.rules import FAILURES_APART, Rules
from preflight.attribution.localiser.types import Group, GroupOutcome, GroupResult, Member, Test
from preflight.attribution.ping_types import Pair, PingEnd


@dataclass(frozen=True)
class ReachablePart:
    """Hosts, or devices, that reach each other and none of the `others`."""

    members: Group
    others: Group

    def has(self, device: PingEnd) -> bool:
        return device in self.members or device.host in self.members

    def is_without(self, device: PingEnd) -> bool:
        """Return whether the device is one of the others."""
        return device in self.others or device.host in self.others

    def ends_at(self, pair: Pair) -> bool:
        """Return whether one end of the pair is a member and the other is one of the others."""
        near_end, far_end = pair
        return (self.has(near_end) and self.is_without(far_end)) or (self.has(far_end) and self.is_without(near_end))


class ReachableParts:
    """Parts that the localiser finds by pings between devices.

    `member` returns the device itself, or its host, for which one rail is enough to reach another. `lost`: the pairs
    without any answer, with the number of their pings.
    """

    def __init__(self, member: Callable[[PingEnd], Member], lost: Mapping[Pair, int], reached: Iterable[Pair]) -> None:
        self._member = member
        together = {frozenset(map(member, pair)) for pair in reached}
        passes = {group: GroupResult(Test(group), GroupOutcome.PASS) for group in together if len(group) == 2}
        pass_of_member = {name: result for group, result in passes.items() for name in group}
        lost_by_group = _lost_by_group(member, lost)
        failed = {group: pings for group, pings in lost_by_group.items() if len(group) == 2 and group not in passes}
        results = [*passes.values(), *_failures(failed, pass_of_member)]
        self._rules = Rules(list(pass_of_member), weigh(results))

    def are_joined(self, device: PingEnd, other: PingEnd) -> bool:
        """Return whether a chain of pings that came back leads from one device to the other."""
        island = self._rules.evidence.island
        return bool(island(self._member(device)) == island(self._member(other)))

    def cut_off(self) -> list[ReachablePart]:
        """Return the parts that are cut off: all but those larger than every part that they do not reach.

        So of two equal parts both are returned.
        """
        islands = self._rules.islands
        islands_apart: dict[Member, set[Member]] = defaultdict(set)
        for ends in self._rules.apart:
            for end in ends:
                islands_apart[end] |= ends - {end}
        return _of_all_rails(
            ReachablePart(
                frozenset(islands[island]), frozenset().union(*(islands[other_island] for other_island in unreached))
            )
            for island, unreached in islands_apart.items()
            if any(len(islands[other_island]) >= len(islands[island]) for other_island in unreached)
        )


def _lost_by_group(member: Callable[[PingEnd], Member], lost: Mapping[Pair, int]) -> Mapping[Group, int]:
    counts: dict[Group, int] = defaultdict(int)
    for pair, pings in lost.items():
        counts[frozenset(map(member, pair))] += pings
    return counts


def _failures(lost: Mapping[Group, int], pass_of_member: Mapping[Member, GroupResult]) -> Iterator[GroupResult]:
    """Yield failures of each two members, as many as pings were lost, and then a pass of either member."""
    for group, pings in lost.items():
        if group <= pass_of_member.keys():
            for attempt in range(1, min(pings, FAILURES_APART) + 1):
                yield GroupResult(Test(group, attempt), GroupOutcome.FAIL)
            yield from (pass_of_member[name] for name in group)


def _of_all_rails(parts: Iterable[ReachablePart]) -> list[ReachablePart]:
    """Return the parts, and devices that are cut off from those of the same hosts on several rails as one part."""
    rails: dict[tuple[Group, Group], list[ReachablePart]] = defaultdict(list)
    for part in parts:
        rails[_hosts(part.members), _hosts(part.others)].append(part)
    joined_parts = (
        ReachablePart(
            frozenset().union(*(part.members for part in same_hosts)),
            frozenset().union(*(part.others for part in same_hosts)),
        )
        for same_hosts in rails.values()
    )
    return sorted(joined_parts, key=lambda part: sorted(part.members))


def _hosts(members: Collection[Member]) -> Group:
    return frozenset(member.host if isinstance(member, PingEnd) else member for member in members)
