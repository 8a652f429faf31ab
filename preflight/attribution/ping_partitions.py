"""Parts of a fabric that reach themselves and not each other: pings as tests for the localiser. Pure.

Pings have no order, and the localiser weighs tests in one. So whoever answers anybody is well before and after each of
its lost pings, and who answers nobody takes part in none: it is broken by itself, whichever part it is in.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
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
        """Whether it is one of the others."""
        return device in self.others or device.host in self.others

    def ends_at(self, pair: Pair) -> bool:
        """Whether one of the two is a member and the other is not."""
        one, other = pair
        return (self.has(one) and self.is_without(other)) or (self.has(other) and self.is_without(one))


class ReachableParts:
    """What the localiser makes of pings between devices; `member`: the device itself, or its host, of which one rail is
    enough to reach another. `lost`: pairs of whose pings nothing came back, with their number."""

    def __init__(self, member: Callable[[PingEnd], Member], lost: Mapping[Pair, int], reached: Iterable[Pair]) -> None:
        self._member = member
        together = {frozenset(map(member, pair)) for pair in reached}
        passed = {group: GroupResult(Test(group), GroupOutcome.PASS) for group in together if len(group) == 2}
        failed: dict[Group, int] = defaultdict(int)
        for pair, pings in lost.items():
            failed[frozenset(map(member, pair))] += pings
        well = {one: result for group, result in passed.items() for one in group}
        results = list(passed.values())
        for group, pings in failed.items():
            if len(group) == 2 and group not in passed and group <= well.keys():
                results += [
                    GroupResult(Test(group, attempt), GroupOutcome.FAIL)
                    for attempt in range(1, min(pings, FAILURES_APART) + 1)
                ]
                results += [well[one] for one in group]
        self._rules = Rules(list(well), weigh(results))

    def joined(self, one: PingEnd, other: PingEnd) -> bool:
        """Whether a chain of pings that came back leads from one to the other."""
        island = self._rules.evidence.island
        return bool(island(self._member(one)) == island(self._member(other)))

    def named(self) -> list[ReachablePart]:
        """Each part that is not larger than all it does not reach: what is cut off. Equals are all named."""
        islands = self._rules.islands
        apart: dict[Member, set[Member]] = defaultdict(set)
        for ends in self._rules.apart:
            for one in ends:
                apart[one] |= ends - {one}
        return _of_all_rails(
            ReachablePart(frozenset(islands[island]), frozenset().union(*(islands[other] for other in others)))
            for island, others in apart.items()
            if any(len(islands[other]) >= len(islands[island]) for other in others)
        )


def _of_all_rails(parts: Iterable[ReachablePart]) -> list[ReachablePart]:
    """Devices that are cut off from those of the same hosts on several rails are one part."""
    rails: dict[tuple[Group, Group], list[ReachablePart]] = defaultdict(list)
    for part in parts:
        rails[_hosts(part.members), _hosts(part.others)].append(part)
    whole = (
        ReachablePart(frozenset().union(*(it.members for it in those)), frozenset().union(*(it.others for it in those)))
        for those in rails.values()
    )
    return sorted(whole, key=lambda part: sorted(part.members))


def _hosts(members: Collection[Member]) -> Group:
    return frozenset(one.host if isinstance(one, PingEnd) else one for one in members)
