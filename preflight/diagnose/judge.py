"""Who was first, and what is only an echo of it. Pure.

An error that says what is wrong where it is logged, or between two ends, is a cause; one that says that others did not
come, is none, and names nobody. Of causes the first in time leads.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from preflight.diagnose import kills
from preflight.diagnose.gather import Counted, Gathered, Process
from preflight.diagnose.host import is_of_kernel
from preflight.diagnose.types import Diagnosis, Group, Role, Seen

_NEVER = float("inf")
_CLOCKS = 1.0  # seconds that clocks of two hosts may differ without anybody noticing
_NEAR = 600.0  # seconds before the first error of a job in which what the kernel says may have to do with it
_PATIENCE = 2100.0  # seconds: HCCL waits 1836 inside a collective, gloo 1800
_SAME = 60  # characters in which two unknown errors are the same
_SILENT = 64  # ranks that are named at most


def diagnosis(found: Gathered) -> Diagnosis:
    said = [(process, [_by(process, seen) for seen in process.said.values()]) for process in found.processes.values()]
    hints = [seen for _, all_seen in said for seen in all_seen if seen.sign.role is Role.HINT]
    foreign = kills.of_others([seen for _, all_seen in said for seen in all_seen], found.files)
    past: set[Seen] = set()  # exceptions that programs caught
    while True:
        own = [(process, _leads(process, all_seen, past | foreign)) for process, all_seen in said]
        leads, earlier = _of_this_job([*found.compared(), *(seen for _, ones in own for seen in ones)])
        if not (more := _past(leads)):
            break
        past |= more
    past |= {seen for _, all_seen in said for seen in all_seen if seen.survived} - set(leads)
    hints += [*map(_caught, past), *map(kills.note, foreign)]
    names: Counter[str] = Counter()
    for process, ones in own:
        if any(seen.sign.role in (Role.WAIT, Role.LINK) for seen in ones):
            missing = set(range(min(found.world, _SILENT))) - process.met if process.met else set()
            names.update(sorted((process.names | {f"rank {rank}" for rank in missing}) - {f"rank {process.who.rank}"}))
    notes = []
    if found.too_many:
        notes.append(f"{found.too_many} errors of further processes were not kept")
    if earlier:
        notes.append(
            f"the kernel reported {', '.join(sorted({seen.sign.id for seen in earlier}))} more than "
            f"{_NEAR / 60:.0f} min before the first error of the job; taken as another matter"
        )
    causes, echoes = _split(leads)
    silent: tuple[int, ...] = ()
    if echoes and not causes:
        heard = {seen.who.rank for seen in leads}
        ranks = range(found.world) if 0 < found.world <= 100_000 else sorted(found.ranks)
        known = any(rank is not None for rank in heard)
        silent = tuple(rank for rank in ranks if rank not in heard)[:_SILENT] if known else ()
    notes += _about_order(causes, echoes)
    return Diagnosis(
        causes[0] if causes else None,
        tuple(causes[1:]),
        tuple(echoes),
        tuple(names.most_common(5)),
        silent,
        tuple(_grouped(hints)),
        tuple(notes),
    )


def _by(process: Process, counted: Counted) -> Seen:
    """With all that was learnt of the process since."""
    survived = counted.caught and counted.survived
    seen = replace(counted.seen, count=counted.count, caught=counted.caught, survived=survived)
    return seen if process.mixed else replace(seen, who=process.who)


def _when(seen: Seen) -> float:
    return _NEVER if seen.time is None else seen.time


def _leads(process: Process, all_seen: Sequence[Seen], past: set[Seen]) -> list[Seen]:
    """The one error that speaks for a process: a cause before a wait, and what is known before what is not. Where
    several may have written, each that is known. What it survived is not what it died of."""
    errors = [seen for seen in all_seen if seen.sign.role is not Role.HINT and seen not in past]
    if any(not seen.survived and seen.sign.role is not Role.WAIT for seen in errors):
        errors = [seen for seen in errors if not seen.survived]
    known = [seen for seen in errors if seen.sign.role is not Role.UNKNOWN]
    if process.mixed and known:
        return known
    for roles in ((Role.OWN, Role.LINK), (Role.WAIT,), (Role.UNKNOWN,)):
        fitting = [seen for seen in errors if seen.sign.role in roles]
        if fitting:
            return [min(fitting, key=_when)]  # of equal times the first that was read
    return []


def _of_this_job(leads: Sequence[Seen]) -> tuple[list[Seen], list[Seen]]:
    """Those of the job, and those of the kernel that are too old to be."""
    jobs = [seen.time for seen in leads if seen.time is not None and not is_of_kernel(seen.sign)]
    if not jobs:
        return list(leads), []
    begin = min(jobs) - _NEAR
    old = [seen for seen in leads if is_of_kernel(seen.sign) and seen.time is not None and seen.time < begin]
    return [seen for seen in leads if seen not in old], old


def _past(leads: Sequence[Seen]) -> set[Seen]:
    """Exceptions of programs that went on: they are errors only where something came of them, in the time that ranks
    wait. One that its program says it survived is none where somebody else's error tells why the job failed."""
    first = min((_when(seen) for seen in leads if not seen.caught), default=None)
    explained = any(not seen.caught and seen.sign.role is not Role.WAIT for seen in leads)

    def is_past(seen: Seen) -> bool:
        if seen.survived and explained:
            return True
        return first is None or (seen.time is not None and _PATIENCE < first - seen.time < _NEVER)

    return {seen for seen in leads if seen.caught and is_past(seen)}


def _caught(seen: Seen) -> Seen:
    cause = "an exception was logged there, and the log goes on after it"
    return replace(seen, sign=replace(seen.sign, role=Role.HINT, cause=cause))


def _grouped(all_seen: Iterable[Seen]) -> list[Group]:
    """By what was said, the first one first; of equal times one whose host or rank is known."""
    groups: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for seen in sorted(all_seen, key=lambda seen: (_when(seen), not (seen.who.host or seen.who.rank is not None))):
        groups[seen.sign.id, _shape(seen)].append(seen)
    return sorted((Group(same[0].sign, tuple(same)) for same in groups.values()), key=lambda group: _when(group.first))


def _shape(seen: Seen) -> str:
    """What tells errors apart that the catalogue does not: their words, without numbers."""
    if seen.sign.role is not Role.UNKNOWN:
        return ""
    said = seen.text.partition(seen.sign.id)[2] or seen.text.rpartition("]")[2]
    return re.sub(r"[\d\W]+", " ", said)[:_SAME]


def _split(leads: Sequence[Seen]) -> tuple[list[Group], list[Group]]:
    """Causes and echoes. What is not known is a cause where nobody had begun to wait before it."""
    waits = [seen for seen in leads if seen.sign.role is Role.WAIT]
    known = [seen for seen in leads if seen.sign.role in (Role.OWN, Role.LINK)]
    unknown = [seen for seen in leads if seen.sign.role is Role.UNKNOWN]
    begin = min(map(_when, (*waits, *known)), default=_NEVER)
    first = [seen for seen in unknown if _when(seen) < begin or (not waits and not known)]
    causes = _grouped((*known, *first))
    later = [seen for seen in unknown if seen not in first]
    return causes, _grouped((*waits, *later))


def _about_order(causes: Sequence[Group], echoes: Sequence[Group]) -> list[str]:
    notes = []
    if causes or echoes:
        times = [seen.time for group in (*causes, *echoes) for seen in group.seen]
        if not any(time is not None for time in times):
            notes.append("no line of an error has a time: which came first is not known")
        elif None in times:
            notes.append("some errors have no time, and were put last")
    if causes and echoes:
        late = _when(causes[0].first) - _when(echoes[0].first)
        if _CLOCKS < late < _NEVER:
            notes.append(
                f"others had begun to complain {late:.0f} s before the first different error: either that rank was "
                "late already, or its error came of theirs"
            )
    if len(causes) > 1:
        apart = _when(causes[1].first) - _when(causes[0].first)
        hosts = {group.first.who.host for group in causes[:2]} - {""}
        if apart < _CLOCKS and len(hosts) > 1:
            notes.append(f"two different errors are less than {_CLOCKS:.0f} s apart: the clocks decide (HST102)")
    return notes
