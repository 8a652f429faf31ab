"""The ranks that others waited for, and the last lines of those that stopped first. Pure.

Check these ranks first if all logged errors are of ranks that waited. A rank in this list is not necessarily the
culprit.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from preflight.diagnose.gather import Gathered, LoggedProcess, ProcessErrors
from preflight.diagnose.order import NEVER, when
from preflight.diagnose.types import ErrorGroup, LastLines, LoggedError, Role

_RANKS = 100_000
_SHOWN = 64  # ranks that are listed at most
_NAMED = 5  # names that are shown
_LAST = 8  # writers with last lines that are shown
_STOPPED = 5.0  # seconds between the last line of the first rank that stopped, and of others that count as first


@dataclass(frozen=True)
class Silence:
    """Ranks without an error, ascending. `unlogged`: those of them without a log here."""

    ranks: tuple[int, ...] = ()
    unlogged: tuple[int, ...] = ()


NO_SILENCE = Silence()


def silent(logs: Gathered, leads: Sequence[LoggedError]) -> Silence:
    """Return the ranks without an error, if all others only waited."""
    reporting = {error.who.rank for error in leads if error.who.rank is not None}
    known_ranks = reporting | logs.ranks
    if not reporting or (not logs.world and len(known_ranks) == 1):  # of one rank alone, no other rank is known
        return NO_SILENCE
    ranks = min(logs.world or max(known_ranks) + 1, _RANKS)
    quiet = tuple(rank for rank in range(ranks) if rank not in reporting)
    unlogged = tuple(sorted(set(quiet) - logs.ranks))
    return Silence(quiet[:_SHOWN], unlogged[:_SHOWN])


def awaited_peers(leading: Sequence[ProcessErrors], logs: Gathered, silence: Silence) -> tuple[tuple[str, int], ...]:
    """Return the ranks, hosts and devices that waiting processes name, and by how many.

    Those that have a log without an error come first.
    """
    names: Counter[str] = Counter()
    ranks = _ranks_of_devices(logs)
    for process, leads in leading:
        if any(error.sign.role in (Role.WAIT, Role.LINK) for error in leads):
            own = {f"rank {error.who.rank}" for error in leads}
            names.update(sorted(_named_peers(process, logs.world, ranks) - own))
    quiet = {f"rank {rank}" for rank in set(silence.ranks) - set(silence.unlogged)}
    ordered = sorted(names.items(), key=lambda item: (item[0] not in quiet, -item[1]))
    return tuple(ordered[:_NAMED])


def _ranks_of_devices(logs: Gathered) -> dict[str, int]:
    """Return the rank of each device by the name that peers give the device."""
    return {
        f"{writer.host} device {writer.device}": writer.rank
        for writer in logs.known_writers()
        if writer.device and writer.rank is not None
    }


def _named_peers(process: LoggedProcess, world: int, ranks: Mapping[str, int]) -> set[str]:
    """Return the peers that a process reports, by rank if that is known, and the ranks that it has not met."""
    missing = set(range(min(world, _SHOWN))) - process.met if process.met else set()
    peers = {f"rank {ranks[name]}" if name in ranks else name.strip() for name in process.names}
    return peers | {f"rank {rank}" for rank in missing}


def _last_lines(logs: Gathered) -> Iterator[LastLines]:
    for lines in logs.ends.last_lines():
        yield replace(lines, who=logs.writers.complete(lines.who))


def last_of_failed(logs: Gathered, echoes: Sequence[ErrorGroup]) -> tuple[LastLines, ...]:
    """Return the last lines of the ranks that launchers saw fail, else of those that stopped first."""
    last = list(_last_lines(logs))
    failed_ranks = {error.who.rank for group in echoes for error in group.seen} - {None}
    failed = [lines for lines in last if lines.who.rank in failed_ranks]
    return tuple((failed or _stopped_first(last))[:_LAST])


def _stopped_first(last: list[LastLines]) -> list[LastLines]:
    """Return the last lines of writers that stopped first, or at an unknown time."""
    first = min(map(_end, last), default=NEVER)
    return [lines for lines in last if lines.time is None or lines.time - first <= _STOPPED]


def _end(lines: LastLines) -> float:
    return NEVER if lines.time is None else lines.time


def last_of_quiet_files(logs: Gathered, leads: Sequence[LoggedError]) -> tuple[LastLines, ...]:
    """Return the last lines of files without an error and without a known rank, those that end first."""
    failed_files = {counted.error.file for process in logs.processes.values() for counted in process.errors.values()}
    begin = min(map(when, leads), default=NEVER)
    quiet = [
        lines
        for lines in _last_lines(logs)
        if lines.file not in failed_files and _is_anonymous(lines, logs) and _end(lines) <= begin < NEVER
    ]
    return tuple(sorted(quiet, key=_end)[:_LAST])


def _is_anonymous(lines: LastLines, logs: Gathered) -> bool:
    return lines.who.rank is None and lines.who.pid is None and not logs.writers.only_writer(lines.file).pid


def behind(logs: Gathered) -> list[str]:
    """Return which ranks have completed fewer collectives than the others of their group, by torch's watchdogs."""
    notes = []
    for group, ranks in logs.completed.items():
        counts = Counter(ranks.values())
        top = max(counts)
        lagging = sorted(rank for rank, count in ranks.items() if count < top)
        if lagging and len(lagging) * 2 <= len(ranks):
            shown = ", ".join(f"rank {rank} ({ranks[rank]})" for rank in lagging[:_NAMED])
            notes.append(
                f"some ranks completed fewer collectives in group {group} than the others ({top}): {shown}. These "
                "ranks joined last, or called different collectives"
            )
    return notes[:_NAMED]
