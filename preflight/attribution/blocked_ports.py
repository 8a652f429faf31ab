"""The host, port or path that lost connections of a port rehearsal have in common. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from preflight.model.ports import PortSet
from preflight.model.rehearsal import Attendance, How, Rehearsal, Visit


@dataclass(frozen=True)
class Wall:
    """Ports of `target` that none of the hosts that tried them reached. `all_ports`: no port of it was reached."""

    target: Attendance
    ports: frozenset[int]
    visits: tuple[Visit, ...]  # those that failed at these ports
    all_ports: bool

    @property
    def ephemeral(self) -> bool:
        """True if all these ports are ones that the target's kernel gives out."""
        return self.ports <= set(self.target.ephemeral)


@dataclass(frozen=True)
class Path:
    """Connections from some sources to `target` that fail, while those from other sources succeed.

    `both_ways`: connections from the target to these sources fail, too, and none of either direction succeeds.
    """

    target: Attendance
    visits: tuple[Visit, ...]
    both_ways: bool = False


@dataclass(frozen=True)
class LostVisits:
    """Failed connections, by what they have in common.

    `cut_off`: a host that reaches none of several others, which other hosts reach → its visits.
    """

    cut_off: dict[str, tuple[Visit, ...]]
    walls: tuple[Wall, ...]
    paths: tuple[Path, ...]


def lost(rehearsal: Rehearsal) -> LostVisits:
    """Return the failed connections by what they have in common: source, target, the target's ports, else the path."""
    attending = {attendance.host: attendance for attendance in rehearsal.hosts if not attendance.error}
    visits = [visit for visit in rehearsal.visits if visit.target in attending and visit.tried]
    by_target = _grouped(visits, attrgetter("target"))
    cut_off = _cut_off(visits, by_target)
    walls, unexplained_visits = list[Wall](), list[Visit]()
    for target, incoming in by_target.items():
        wall, other_visits = _of_target(attending[target], [visit for visit in incoming if visit.source not in cut_off])
        walls += [wall] if wall else []
        unexplained_visits += other_visits
    return LostVisits(cut_off, tuple(walls), tuple(_paths(unexplained_visits, attending)))


def _grouped(visits: Iterable[Visit], host: Callable[[Visit], str]) -> dict[str, list[Visit]]:
    groups: dict[str, list[Visit]] = defaultdict(list)
    for visit in visits:
        groups[host(visit)].append(visit)
    return groups


def _cut_off(visits: Iterable[Visit], to: dict[str, list[Visit]]) -> dict[str, tuple[Visit, ...]]:
    reaching = {target: {visit.source for visit in incoming if not visit.in_vain} for target, incoming in to.items()}
    return {
        source: tuple(own_visits)
        for source, own_visits in _grouped(visits, attrgetter("source")).items()
        if len(own_visits) > 1
        and all(visit.in_vain for visit in own_visits)
        and all(reaching[visit.target] for visit in own_visits)
    }


def _of_target(target: Attendance, incoming: Sequence[Visit]) -> tuple[Wall | None, Sequence[Visit]]:
    """Return the ports of the target that no host reached, and the visits that failed elsewhere."""
    lost_visits = [visit for visit in incoming if visit.in_vain]
    connected = [visit for visit in incoming if not visit.in_vain]
    if not connected:
        return _wall(target, lost_visits, all_ports=True), ()
    wall = _wall(target, connected, all_ports=False)
    closed_ports = wall.ports if wall else frozenset()
    return wall, (*lost_visits, *(visit for visit in connected if visit.dead - closed_ports))


def _wall(target: Attendance, visits: Sequence[Visit], *, all_ports: bool) -> Wall | None:
    ports = _closed_ports(visits)
    return Wall(target, ports, tuple(visit for visit in visits if visit.dead & ports), all_ports) if ports else None


def _closed_ports(visits: Iterable[Visit]) -> frozenset[int]:
    """Return the ports that these visits tried and none of them reached."""
    tried, reached = set[int](), set[int]()
    for visit in visits:
        tried |= visit.tried
        reached |= visit.tried - visit.dead
    return frozenset(tried - reached)


def _paths(visits: Iterable[Visit], attending: Mapping[str, Attendance]) -> Iterator[Path]:
    """Yield the failed paths, by target.

    A pair that fails both ways is in one path only, that of its end with most such pairs.
    """
    by_pair = {(visit.source, visit.target): visit for visit in visits}
    partners = _partners_in_vain(by_pair)
    while any(partners.values()):
        worst = max(attending, key=lambda host: len(partners[host]))
        pairs = [pair for partner in partners.pop(worst) for pair in ((partner, worst), (worst, partner))]
        yield Path(attending[worst], tuple(by_pair.pop(pair) for pair in pairs), both_ways=True)
        for partner, _ in pairs[::2]:
            partners[partner].remove(worst)
    for target, target_visits in _grouped(by_pair.values(), attrgetter("target")).items():
        yield Path(attending[target], tuple(target_visits))


def _partners_in_vain(by_pair: Mapping[tuple[str, str], Visit]) -> dict[str, list[str]]:
    """Return for each host those with which all connections fail in both directions."""
    partners: dict[str, list[str]] = defaultdict(list)
    for (source, target), visit in by_pair.items():
        return_visit = by_pair.get((target, source))
        if visit.in_vain and return_visit and return_visit.in_vain:
            partners[target].append(source)
    return partners


def told(visits: Iterable[Visit], only: Iterable[int] = ()) -> str:
    """Return the failures in words: `29500,60000-60031: no answer`, separated by commas.

    `only`: the ports to name; all if it is empty.
    """
    wanted = set(only)
    ports_by_words: dict[str, set[int]] = defaultdict(set)
    for visit in visits:
        for blocked in visit.blocked:
            if blocked.how is How.ERROR:
                continue
            ports_by_words[_words(blocked.how, blocked.by, blocked.error)] |= {
                port for port in blocked.ports if not wanted or port in wanted
            }
    return ", ".join(
        f"{PortSet.of((port, port) for port in ports)}: {words}" for words, ports in ports_by_words.items() if ports
    )


def _words(how: How, by: str, error: str) -> str:
    return {
        How.TIMEOUT: "no answer",
        How.REFUSED: "refused although the host listens",
        How.REJECTED: f"rejected{f' by {by}' if by else ''}{f' ({error})' if error else ''}",
        How.MUTE: "accepted, then no reply",
        How.STRANGER: "another program answered",
    }[how]


def hows(visits: Iterable[Visit]) -> set[How]:
    return {blocked.how for visit in visits for blocked in visit.blocked} - {How.ERROR}


def untried(visits: Iterable[Visit]) -> dict[str, dict[str, int]]:
    """Return source → reason why it could not try some of its connections → number of their ports."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for visit in visits:
        for blocked in visit.blocked:
            if blocked.how is How.ERROR:
                counts[visit.source][blocked.error] += len(blocked.ports)
    return counts


def rejecting(visits: Iterable[Visit]) -> Iterator[str]:
    """Yield the addresses of firewalls and routers that rejected connections, each once."""
    yield from dict.fromkeys(blocked.by for visit in visits for blocked in visit.blocked if blocked.by)
