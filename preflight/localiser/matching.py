"""The order in which members meet when nothing is known of them. Pure."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random

from preflight.localiser.types import Member

Pair = tuple[Member, Member]
MayMeet = Callable[[Member, Member], bool]


def anybody(_: Member, __: Member) -> bool:
    """Where every two can be tested together."""
    return True


def meeting_order(members: Sequence[Member], topology: Mapping[Member, object], seed: int) -> list[Member]:
    """Members in a random order, such that neighbours (0 and 1, 2 and 3, …) are behind different leaves where that is
    possible, and every two leaves meet before any two meet again. An odd member is the last."""
    random = Random(seed)  # noqa: S311  (a seed that is told makes a run repeatable)
    shuffled = list(members)
    random.shuffle(shuffled)
    if len({topology.get(member) for member in members}) < 2:
        return shuffled
    behind: dict[object, list[Member]] = defaultdict(list)
    for member in shuffled:
        behind[topology.get(member)].append(member)
    leaves = list(behind.values())
    pairs: list[Pair] = []
    while len(leaves) > 1:
        for one, other in _tournament(len(leaves)):
            if leaves[one] and leaves[other]:
                pairs.append((leaves[one].pop(), leaves[other].pop()))
        leaves = [leaf for leaf in leaves if leaf]
    rest = leaves[0] if leaves else []
    # Blocks of two pairs are what is tried first while nothing passes: each has two behind the same leaf, who pass
    # where all that is broken is between leaves.
    place = {leaf: number for number, leaf in enumerate(behind)}
    pairs.sort(key=lambda pair: place[topology.get(pair[0])])
    return [member for pair in _spread(rest, pairs, topology) for member in pair]


def _tournament(teams: int) -> list[tuple[int, int]]:
    """Every two of the teams once, such that all have played before any plays again (the circle method)."""
    circle = [*range(teams), *([-1] if teams % 2 else [])]
    half, games = len(circle) // 2, []
    for _ in range(len(circle) - 1):
        games += [game for game in zip(circle[:half], reversed(circle[half:]), strict=True) if -1 not in game]
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return games


def _spread(rest: Sequence[Member], pairs: Sequence[Pair], topology: Mapping[Member, object]) -> list[Sequence[Member]]:
    """Whoever is left over, all behind one leaf, takes the partners of pairs that have nobody behind it."""
    left, done = list(rest), []
    for pair in pairs:
        if len(left) > 1 and all(topology.get(member) != topology.get(left[0]) for member in pair):
            done += [(pair[0], left.pop()), (pair[1], left.pop())]
        else:
            done.append(pair)
    return [*done, left]


def pair_up(order: Sequence[Member], may_meet: MayMeet) -> list[Pair]:
    """Everybody with the next one that it may meet.

    Where all may meet but those who did, its first three matchings try all pairs of each block of four. So if no more
    than half of an even number of members are bad, one of three rounds passes somewhere: if none of the first round's
    pairs does, each has exactly one good member, and two good ones of a block meet in the second or third.
    """
    pairs, waiting = [], list(order)
    while waiting:
        one = waiting.pop(0)
        partner = next((place for place, other in enumerate(waiting) if may_meet(one, other)), None)
        if partner is not None:
            pairs.append((one, waiting.pop(partner)))
    return pairs
