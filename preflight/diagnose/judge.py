"""The first error of a job, and which other errors are its consequences. Pure.

An error that says what is wrong where it is logged, or between two ends, is a cause; one that says that others did not
come is none, and identifies no culprit. Of causes the first in time leads.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from preflight.diagnose import kills, waiting
from preflight.diagnose.catalogue import ends_traceback
from preflight.diagnose.consequences import causes_and_consequences
from preflight.diagnose.errors.host import MEMORY, is_of_kernel
from preflight.diagnose.errors.launchers import ENDED_BADLY
from preflight.diagnose.errors.schedulers import CANCELLED, JOB_MEMORY
from preflight.diagnose.gather import Counted, Gathered, Process
from preflight.diagnose.order import NEVER, Errors, first_of, is_before, when
from preflight.diagnose.types import Diagnosis, Group, LastLines, Role, Seen, Weight, Who

_CLOCKS = 1.0  # seconds that clocks of two hosts may differ unnoticed
_NEAR = 600.0  # seconds before the first error of a job in which a kernel's report may belong to it
_PATIENCE = 2100.0  # seconds: HCCL waits 1836 inside a collective, gloo 1800
_SAME = 60  # characters in which two unknown errors are the same
_ENDS_OF_CPP = ("terminate", "abort")
_WRAPPERS = ("RuntimeError", "TVMError")
_BELOW = 30  # lines from an exception to the error that it passes on
_OF_CANN = re.compile(r"E[1-9A-Z]\d{4}|\d{6}$|npu-|ai-c|sdma$|hccl-|data-queue$")


def diagnosis(logs: Gathered) -> Diagnosis:
    """Return the reading of all logs of a job."""
    observed = _observed(logs)
    everything = [seen for _, all_seen in observed for seen in all_seen]
    hints = [seen for seen in everything if seen.sign.role is Role.HINT]
    foreign = kills.of_others(everything, logs.files)
    cancelled = Errors(seen for seen in hints if seen.sign.id == CANCELLED)
    past: set[Seen] = set()  # exceptions that programs caught
    while True:
        ignored = past | foreign
        leading = [(process, _leads(process, all_seen, ignored)) for process, all_seen in observed]
        leads, earlier = _of_this_job([*logs.compared(), *(seen for _, all_seen in leading for seen in all_seen)])
        if not (more := _past(leads)):
            break
        past |= more
    past |= {seen for seen in everything if seen.survived} - set(leads)
    leads = [seen for seen in leads if not _follows_cancellation(seen, cancelled)]
    restarted = [seen for seen in leads if seen.restarted]
    leads = [seen for seen in leads if not seen.restarted]
    hints += [*map(_caught, past), *map(kills.note, foreign), *map(_restarted, restarted)]
    causes, echoes = map(_grouped, causes_and_consequences(leads))
    silence, last = waiting.NO_SILENCE, tuple[LastLines, ...]()
    unexplained = bool(echoes) and not causes and all(group.sign.id in ENDED_BADLY for group in echoes)
    if unexplained:
        last = waiting.last_of_failed(logs, echoes)
    elif echoes and not causes:
        silence, last = waiting.silent(logs, leads), waiting.last_of_quiet_files(logs, leads)
    return Diagnosis(
        causes[0] if causes else None,
        tuple(causes[1:]),
        tuple(echoes),
        waiting.named(leading, logs, silence),
        silence.ranks,
        silence.unlogged,
        tuple(_grouped(hints)),
        (*_about_logs(logs, earlier), *waiting.behind(logs), *_about_order(causes, echoes)),
        unexplained,
        last,
    )


def _observed(logs: Gathered) -> list[tuple[Process, list[Seen]]]:
    """Return each process with what it logged. Lines that nothing ties to a writer are those of the only process that
    CANN names in their file."""
    observed: list[tuple[Process, list[Seen]]] = []
    of_file: dict[str, tuple[Process, list[Seen]]] = {}
    for key, process in logs.processes.items():
        all_seen = [_identified(process, counted, logs) for counted in process.said.values()]
        file = _only_file(key, process, logs)
        if file in of_file:
            of_file[file][1].extend(all_seen)
            of_file[file][0].names.update(process.names)
            continue
        if file:
            process = replace(process, mixed=False, names=set(process.names))
            of_file[file] = (process, all_seen)
        observed.append((process, all_seen))
    return observed + [another for merged in of_file.values() for another in _of_others(*merged)]


def _of_others(process: Process, all_seen: list[Seen]) -> list[tuple[Process, list[Seen]]]:
    """Take exceptions out of a process's observations that stand before all that CANN tells of it, and that pass on
    none of it: where the process only waited afterwards, they may be another rank's, and the reason."""
    known = [seen for seen in all_seen if seen.sign.role not in (Role.UNKNOWN, Role.HINT)]
    if not known or any(seen.sign.role is not Role.WAIT for seen in known):
        return []
    before = [
        seen
        for seen in all_seen
        if seen.sign.role is Role.UNKNOWN
        and ends_traceback(seen.sign, seen.text)
        and not _is_wrapper(seen, known)
        and all(is_before(seen, other) for other in known)
    ]
    all_seen[:] = [seen for seen in all_seen if seen not in before]
    return [
        (replace(process, mixed=True, names=set()), [replace(seen, who=Who(host=seen.who.host, file=seen.file))])
        for seen in before
    ]


def _only_file(key: tuple[str, ...], process: Process, logs: Gathered) -> str:
    """Return the file of which CANN names this process as the only writer; empty: there is none."""
    kind, file = key[:2]
    pid = logs.writers.only(file).pid if kind in ("pid", "file") else None
    of_writer = process.who.pid == pid if kind == "pid" else key == ("file", file, "")
    return file if pid is not None and of_writer else ""


def _identified(process: Process, counted: Counted, logs: Gathered) -> Seen:
    """Return the observation with all that is known of its process by now."""
    survived = counted.caught and counted.survived
    seen = replace(
        counted.seen, count=counted.count, caught=counted.caught, survived=survived, restarted=counted.restarted
    )
    who = seen.who if process.mixed else process.who
    if process.mixed and who.rank is None and who.pid is None:
        writer = logs.writers.only(seen.file)
        who = replace(who, rank=writer.rank, pid=writer.pid, device=who.device or writer.device)
    return replace(seen, who=logs.writers.identified(who))


def _leads(process: Process, all_seen: Sequence[Seen], past: set[Seen]) -> list[Seen]:
    """Return the error that speaks for a process; where several processes may have written, each that may be one's.
    What a process survived is not what it died of."""
    errors = [seen for seen in all_seen if seen.sign.role is not Role.HINT and seen not in past]
    if any(not seen.survived and seen.sign.role is not Role.WAIT for seen in errors):
        errors = [seen for seen in errors if not seen.survived]
    if any(seen.sign.id in (JOB_MEMORY, MEMORY) for seen in errors):
        errors = [seen for seen in errors if seen.sign.id != "killed"]
    return _leads_of_several(errors) if process.mixed else _lead_of_one(errors)


def _lead_of_one(errors: Sequence[Seen]) -> list[Seen]:
    for tier in _tiers(errors):
        if tier:
            return [first_of(tier)]
    return []


def _leads_of_several(errors: Sequence[Seen]) -> list[Seen]:
    causes, waits, symptoms, unknown, ends = _tiers(errors)
    known = [*causes, *waits]
    if known:
        first = [seen for seen in unknown if all(is_before(seen, other) for other in known)]
        return known + [seen for seen in first if not _is_wrapper(seen, known)] + ends[:1]
    for tier in (symptoms, unknown):
        if tier:
            return [first_of(tier), *ends[:1]]
    return ends[:1]


def _is_wrapper(unknown: Seen, known: Sequence[Seen]) -> bool:
    """Return whether an exception only passes on a known error right below it: that of CANN, or what C++ threw."""
    if unknown.sign.id in _ENDS_OF_CPP:
        return any(seen.sign.id != "killed" for seen in known)
    return unknown.sign.id in _WRAPPERS and any(
        0 < seen.number - unknown.number <= _BELOW and _OF_CANN.match(seen.sign.id) for seen in known
    )


def _tiers(errors: Sequence[Seen]) -> tuple[list[Seen], ...]:
    """Return errors by what they explain, the most first: causes; waits, deaths and ends of the job; failures without
    a reason; exceptions that the catalogue does not have; reports of launchers."""
    own = (Role.OWN, Role.LINK)
    known = [seen for seen in errors if seen.sign.role is not Role.UNKNOWN]
    return (
        [seen for seen in known if seen.sign.role in own and seen.sign.weight is Weight.CAUSE],
        [
            seen
            for seen in known
            if seen.sign.weight is Weight.DEATH
            or (seen.sign.role not in own and seen.sign.weight is not Weight.SYMPTOM)
        ],
        [seen for seen in known if seen.sign.role in own and seen.sign.weight is Weight.SYMPTOM],
        [seen for seen in errors if seen.sign.role is Role.UNKNOWN],
        [seen for seen in known if seen.sign.role not in own and seen.sign.weight is Weight.SYMPTOM],
    )


def _of_this_job(leads: Sequence[Seen]) -> tuple[list[Seen], list[Seen]]:
    """Return those of the job, and those of the kernel that are too old to be."""
    jobs = [seen.time for seen in leads if seen.time is not None and not is_of_kernel(seen.sign)]
    if not jobs:
        return list(leads), []
    begin = min(jobs) - _NEAR

    def is_old(seen: Seen) -> bool:
        return is_of_kernel(seen.sign) and seen.time is not None and seen.time < begin

    return [seen for seen in leads if not is_old(seen)], [seen for seen in leads if is_old(seen)]


def _past(leads: Sequence[Seen]) -> set[Seen]:
    """Return exceptions of programs that went on: they are errors only where something came of them, in the time that
    ranks wait. One that its program says it survived is none where another error tells why the job failed."""
    first = min((when(seen) for seen in leads if not seen.caught), default=None)
    explained = any(not seen.caught and seen.sign.role is not Role.WAIT for seen in leads)

    def is_past(seen: Seen) -> bool:
        if seen.survived and explained:
            return True
        return first is None or (seen.time is not None and _PATIENCE < first - seen.time < NEVER)

    return {seen for seen in leads if seen.caught and is_past(seen)}


def _follows_cancellation(seen: Seen, cancelled: Errors) -> bool:
    """Return whether it is only what ranks log when their job is cancelled."""
    if seen.sign.role in (Role.OWN, Role.LINK) and seen.sign.weight is Weight.CAUSE:
        return False
    return cancelled.any_before(seen)


def _restarted(seen: Seen) -> Seen:
    cause = f"{seen.sign.cause}; it was started again, and ended well"
    return replace(seen, sign=replace(seen.sign, role=Role.HINT, cause=cause))


def _caught(seen: Seen) -> Seen:
    cause = "an exception was logged there, and the log goes on after it"
    return replace(seen, sign=replace(seen.sign, role=Role.HINT, cause=cause))


def _grouped(all_seen: Iterable[Seen]) -> list[Group]:
    """Return observations by their error, the first one first; of equal times one whose host or rank is known."""
    groups: dict[tuple[str, str], dict[Who, Seen]] = defaultdict(dict)
    for seen in sorted(
        all_seen, key=lambda seen: (when(seen), not (seen.who.host or seen.who.rank is not None), seen.number)
    ):
        groups[seen.sign.id, _shape(seen)].setdefault(seen.who, seen)
    same = [tuple(by_writer.values()) for by_writer in groups.values()]
    return sorted(
        (Group(seen[0].sign, seen) for seen in same), key=lambda group: (when(group.first), group.first.number)
    )


def _shape(seen: Seen) -> str:
    """Return what tells errors apart that the catalogue does not have: their words, without numbers."""
    if seen.sign.role is not Role.UNKNOWN:
        return ""
    message = seen.text.partition(seen.sign.id)[2] or seen.text.rpartition("]")[2]
    return re.sub(r"[\d\W]+", " ", message)[:_SAME]


def _about_logs(logs: Gathered, earlier: Sequence[Seen]) -> list[str]:
    notes = []
    if logs.too_many:
        notes.append(f"{logs.too_many} errors of further processes were not kept")
    if earlier:
        notes.append(
            f"the kernel reported {', '.join(sorted({seen.sign.id for seen in earlier}))} more than "
            f"{_NEAR / 60:.0f} min before the first error of the job; taken as another matter"
        )
    return notes


def _about_order(causes: Sequence[Group], echoes: Sequence[Group]) -> list[str]:
    notes = []
    if causes or echoes:
        times = [seen.time for group in (*causes, *echoes) for seen in group.seen]
        if not any(time is not None for time in times):
            notes.append("no line of an error has a time: which came first is not known")
        elif None in times:
            notes.append("some errors have no time, and were put last")
    if causes and echoes:
        late = when(causes[0].first) - when(echoes[0].first)
        if _CLOCKS < late < NEVER:
            notes.append(
                f"others had begun to complain {late:.0f} s before the first different error: either that rank was "
                "late already, or its error came of theirs"
            )
    if len(causes) > 1:
        apart = when(causes[1].first) - when(causes[0].first)
        hosts = {group.first.who.host for group in causes[:2]} - {""}
        if apart < _CLOCKS and len(hosts) > 1:
            notes.append(f"two different errors are less than {_CLOCKS:.0f} s apart: the clocks decide (HST102)")
    return notes
