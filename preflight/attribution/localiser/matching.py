"""The order in which members meet while nothing is known about them. Pure."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random

from preflight.attribution.localiser.types import Member

Pair = tuple[Member, Member]
MayMeet = Callable[[Member, Member], bool]


def any_pair(_: Member, __: Member) -> bool:
    """Return True: any two members can be tested together."""
    return True


def meeting_order(members: Sequence[Member], topology: Mapping[Member, object], seed: int) -> list[Member]:
    """Return the members in a random order in which 0 and 1, 2 and 3, … are neighbours.

    Neighbours are behind different leaves where that is possible, and every two leaves meet before any two meet again.
    An odd member is the last.
    """
    random = Random(seed)
    shuffled = list(members)
    random.shuffle(shuffled)
    behind: dict[object, list[Member]] = defaultdict(list)
    for member in shuffled:
        behind[topology.get(member)].append(member)
    if len(behind) < 2:
        return shuffled
    place = {leaf: number for number, leaf in enumerate(behind)}
    pairs, remaining = _cross_leaves(list(behind.values()))
    # While nothing passes, blocks of two pairs are tried first. In a block two members have the same leaf, so that they
    # pass where only the paths between leaves are broken.
    pairs.sort(key=lambda pair: place[topology.get(pair[0])])
    return [member for pair in _spread(remaining, pairs, topology) for member in pair]


def pair_up(order: Sequence[Member], may_meet: MayMeet) -> list[Pair]:
    """Return pairs of every member with the next one that it may meet.

    If a member may meet all that it has not met, the first three matchings try all pairs of each block of four. So if
    at most half of an even number of members are bad, at least one test of three rounds passes. For if no pair of the
    first round does, each pair has exactly one good member. Two good members of a block then meet in the second or
    third round.
    """
    pairs, waiting = [], list(order)
    while waiting:
        member = waiting.pop(0)
        place = next((place for place, partner in enumerate(waiting) if may_meet(member, partner)), None)
        if place is not None:
            pairs.append((member, waiting.pop(place)))
    return pairs


def _cross_leaves(leaves: list[list[Member]]) -> tuple[list[Pair], list[Member]]:
    """Pair members of different leaves until one leaf has members left, and return those, too."""
    pairs: list[Pair] = []
    while len(leaves) > 1:
        for a, b in _tournament(len(leaves)):
            if leaves[a] and leaves[b]:
                pairs.append((leaves[a].pop(), leaves[b].pop()))
        leaves = [leaf for leaf in leaves if leaf]
    return pairs, leaves[0] if leaves else []


def _tournament(teams: int) -> list[tuple[int, int]]:
    """Return every pair of teams once, so that all play before any plays again (the circle method)."""
    circle = [*range(teams), *([-1] if teams % 2 else [])]
    half, games = len(circle) // 2, []
    for _ in range(len(circle) - 1):
        games += [game for game in zip(circle[:half], reversed(circle[half:]), strict=True) if -1 not in game]
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return games


def _spread(
    remaining: list[Member], pairs: Sequence[Pair], topology: Mapping[Member, object]
) -> list[Sequence[Member]]:
    """Give two members of the remaining leaf the partners of a pair that has no member behind that leaf."""
    groups: list[Sequence[Member]] = []
    for pair in pairs:
        if len(remaining) > 1 and all(topology.get(member) != topology.get(remaining[0]) for member in pair):
            groups += [(pair[0], remaining.pop()), (pair[1], remaining.pop())]
        else:
            groups.append(pair)
    return [*groups, remaining]
