"""The host, port or path that lost connections of a port rehearsal have in common. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.model.ports import PortSet
from preflight.model.rehearsal import Attendance, How, Rehearsal, Visit


@dataclass(frozen=True)
class Wall:
    """Ports of `target` that nobody reaches who tried; `all_ports`: none of its ports was reached at all."""

    target: Attendance
    ports: frozenset[int]
    visits: tuple[Visit, ...]  # those that died there
    all_ports: bool

    @property
    def ephemeral(self) -> bool:
        """Whether all its ports are of those that the kernel gives out."""
        return self.ports <= set(self.target.ephemeral)


@dataclass(frozen=True)
class Path:
    """Connections from these sources to `target` die, while those from others come through. `both_ways`: from the
    target to them, too, and nothing at all comes through."""

    target: Attendance
    visits: tuple[Visit, ...]
    both_ways: bool = False


@dataclass(frozen=True)
class LostVisits:
    """`cut_off`: a host that reaches none of several others, which are reached from elsewhere → its visits."""

    cut_off: dict[str, tuple[Visit, ...]]
    walls: tuple[Wall, ...]
    paths: tuple[Path, ...]


def lost(rehearsal: Rehearsal) -> LostVisits:
    """What died, by what it has in common: the host it came from, the host or ports it went to, else the path."""
    attending = {one.host: one for one in rehearsal.hosts if not one.error}
    visits = [one for one in rehearsal.visits if one.target in attending and one.tried]
    to: dict[str, list[Visit]] = defaultdict(list)
    for visit in visits:
        to[visit.target].append(visit)
    cut_off = _cut_off(visits, to)
    walls, alone = list[Wall](), list[Visit]()
    for target, coming in to.items():
        wall, left = _of_target(attending[target], [one for one in coming if one.source not in cut_off])
        walls += [wall] if wall else []
        alone += left
    return LostVisits(cut_off, tuple(walls), tuple(_paths(alone, attending)))


def _cut_off(visits: Iterable[Visit], to: dict[str, list[Visit]]) -> dict[str, tuple[Visit, ...]]:
    by_source: dict[str, list[Visit]] = defaultdict(list)
    for visit in visits:
        by_source[visit.source].append(visit)
    alive = {target: {one.source for one in coming if not one.in_vain} for target, coming in to.items()}
    return {
        source: tuple(own)
        for source, own in by_source.items()
        if len(own) > 1 and all(visit.in_vain for visit in own) and all(alive[visit.target] for visit in own)
    }


def _of_target(target: Attendance, coming: Sequence[Visit]) -> tuple[Wall | None, Sequence[Visit]]:
    """What nobody reaches there, and the visits that died elsewhere than at that wall."""
    dead = [one for one in coming if one.in_vain]
    if dead and len(dead) == len(coming):
        ports = frozenset(port for one in dead for port in one.dead)
        return Wall(target, ports, tuple(dead), all_ports=True), ()
    others = [one for one in coming if not one.in_vain]
    tried = {port for one in others for port in one.tried}
    reached = {port for one in others for port in one.tried - one.dead}
    closed = frozenset(tried - reached)
    at_wall = tuple(one for one in others if one.dead & closed)
    wall = Wall(target, closed, at_wall, all_ports=False) if closed else None
    return wall, (*dead, *(one for one in others if one.dead - closed))


def _paths(visits: Iterable[Visit], attending: Mapping[str, Attendance]) -> Iterator[Path]:
    """By the host to which they went. Of pairs that are dead both ways each is told once, at the end with most."""
    by_pair = {(one.source, one.target): one for one in visits}
    partners: dict[str, list[str]] = defaultdict(list)
    for (source, target), visit in by_pair.items():
        back = by_pair.get((target, source))
        if visit.in_vain and back and back.in_vain:
            partners[target].append(source)
    while any(partners.values()):
        worst = max(attending, key=lambda host: len(partners[host]))
        pairs = [pair for other in partners.pop(worst) for pair in ((other, worst), (worst, other))]
        yield Path(attending[worst], tuple(by_pair.pop(pair) for pair in pairs), both_ways=True)
        for other, _ in pairs[::2]:
            partners[other].remove(worst)
    left: dict[str, list[Visit]] = defaultdict(list)
    for visit in by_pair.values():
        left[visit.target].append(visit)
    yield from (Path(attending[target], tuple(own)) for target, own in left.items())


def told(visits: Iterable[Visit], only: Iterable[int] = ()) -> str:
    """What became of them: `29500,60000-60031: no answer; 32768: refused, although it listens`."""
    kept = set(only)
    ends: dict[str, set[int]] = defaultdict(set)
    for visit in visits:
        for one in visit.blocked:
            if one.how is How.ERROR:
                continue
            ends[_words(one.how, one.by, one.error)] |= {port for port in one.ports if not kept or port in kept}
    return "; ".join(f"{PortSet.of((port, port) for port in ports)}: {words}" for words, ports in ends.items() if ports)


def _words(how: How, by: str, error: str) -> str:
    return {
        How.TIMEOUT: "no answer",
        How.REFUSED: "refused, although it listens",
        How.REJECTED: f"rejected{f' by {by}' if by else ''}{f' ({error})' if error else ''}",
        How.MUTE: "accepted, then no word",
        How.STRANGER: "somebody else answered",
    }[how]


def hows(visits: Iterable[Visit]) -> set[How]:
    return {one.how for visit in visits for one in visit.blocked} - {How.ERROR}


def untried(visits: Iterable[Visit]) -> dict[str, dict[str, int]]:
    """Source → why it could not try some of its connections → how many."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for visit in visits:
        for one in visit.blocked:
            if one.how is How.ERROR:
                found[visit.source][one.error] += len(one.ports)
    return found


def rejecting(visits: Iterable[Visit]) -> Iterator[str]:
    """Who says no."""
    yield from dict.fromkeys(one.by for visit in visits for one in visit.blocked if one.by)
