"""The first error of a job, and which other errors are its consequences. Pure.

An error that names a fault where it is logged, or between two ends, is a cause. An error that only reports that others
did not come is none, and identifies no culprit. The first cause in time leads.
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
_SAME = 60  # characters that are equal in messages of the same unknown error
_ENDS_OF_CPP = ("terminate", "abort")
_WRAPPERS = ("RuntimeError", "TVMError")
_BELOW = 30  # lines from an exception to the error that it passes on
_OF_CANN = re.compile(r"E[1-9A-Z]\d{4}|\d{6}$|npu-|ai-c|sdma$|hccl-|data-queue$")


def diagnosis(logs: Gathered) -> Diagnosis:
    """Return the reading of all logs of a job."""
    observed = _observed(logs)
    everything = [error for _, errors in observed for error in errors]
    hints = [error for error in everything if error.sign.role is Role.HINT]
    foreign = kills.of_others(everything, logs.files)
    cancelled = Errors(error for error in hints if error.sign.id == CANCELLED)
    past: set[Seen] = set()  # exceptions that programs caught
    while True:
        ignored = past | foreign
        leading = [(process, _leads(process, errors, ignored)) for process, errors in observed]
        leads, earlier = _of_this_job([*logs.compared(), *(error for _, errors in leading for error in errors)])
        if not (newly_past := _past(leads)):
            break
        past |= newly_past
    past |= {error for error in everything if error.survived} - set(leads)
    leads = [error for error in leads if not _follows_cancellation(error, cancelled)]
    restarted = [error for error in leads if error.restarted]
    leads = [error for error in leads if not error.restarted]
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
    """Return each process with its errors.

    Lines without a writer belong to the only process that CANN names in their file.
    """
    observed: list[tuple[Process, list[Seen]]] = []
    of_file: dict[str, tuple[Process, list[Seen]]] = {}
    for key, process in logs.processes.items():
        errors = [_identified(process, counted, logs) for counted in process.said.values()]
        file = _only_file(key, process, logs)
        if file in of_file:
            of_file[file][1].extend(errors)
            of_file[file][0].names.update(process.names)
            continue
        if file:
            process = replace(process, mixed=False, names=set(process.names))
            of_file[file] = (process, errors)
        observed.append((process, errors))
    return observed + [entry for merged in of_file.values() for entry in _of_others(*merged)]


def _of_others(process: Process, all_seen: list[Seen]) -> list[tuple[Process, list[Seen]]]:
    """Take exceptions out of a process's errors that come before all that CANN reports of it, and do not pass it on.

    If the process only waited afterwards, they may be another rank's, and the reason.
    """
    catalogued = [error for error in all_seen if error.sign.role not in (Role.UNKNOWN, Role.HINT)]
    if not catalogued or any(error.sign.role is not Role.WAIT for error in catalogued):
        return []
    before = [
        error
        for error in all_seen
        if error.sign.role is Role.UNKNOWN
        and ends_traceback(error.sign, error.text)
        and not _is_wrapper(error, catalogued)
        and all(is_before(error, catalogued_error) for catalogued_error in catalogued)
    ]
    all_seen[:] = [error for error in all_seen if error not in before]
    return [
        (replace(process, mixed=True, names=set()), [replace(error, who=Who(host=error.who.host, file=error.file))])
        for error in before
    ]


def _only_file(key: tuple[str, ...], process: Process, logs: Gathered) -> str:
    """Return the file in which CANN names this process as the only writer, empty if there is none."""
    kind, file = key[:2]
    pid = logs.writers.only(file).pid if kind in ("pid", "file") else None
    of_writer = process.who.pid == pid if kind == "pid" else key == ("file", file, "")
    return file if pid is not None and of_writer else ""


def _identified(process: Process, counted: Counted, logs: Gathered) -> Seen:
    """Return the error with all that is known of its process by now."""
    survived = counted.caught and counted.survived
    error = replace(
        counted.seen, count=counted.count, caught=counted.caught, survived=survived, restarted=counted.restarted
    )
    writer = error.who if process.mixed else process.who
    if process.mixed and writer.rank is None and writer.pid is None:
        file_writer = logs.writers.only(error.file)
        writer = replace(writer, rank=file_writer.rank, pid=file_writer.pid, device=writer.device or file_writer.device)
    return replace(error, who=logs.writers.identified(writer))


def _leads(process: Process, all_seen: Sequence[Seen], past: set[Seen]) -> list[Seen]:
    """Return the error that leads a process; if several processes may have written, each error that may lead one.

    A process did not die of an error that it survived.
    """
    errors = [error for error in all_seen if error.sign.role is not Role.HINT and error not in past]
    if any(not error.survived and error.sign.role is not Role.WAIT for error in errors):
        errors = [error for error in errors if not error.survived]
    if any(error.sign.id in (JOB_MEMORY, MEMORY) for error in errors):
        errors = [error for error in errors if error.sign.id != "killed"]
    return _leads_of_several(errors) if process.mixed else _lead_of_one(errors)


def _lead_of_one(errors: Sequence[Seen]) -> list[Seen]:
    for tier in _tiers(errors):
        if tier:
            return [first_of(tier)]
    return []


def _leads_of_several(errors: Sequence[Seen]) -> list[Seen]:
    causes, waits, symptoms, unknown, ends = _tiers(errors)
    catalogued = [*causes, *waits]
    if catalogued:
        first = [
            error for error in unknown if all(is_before(error, catalogued_error) for catalogued_error in catalogued)
        ]
        return catalogued + [error for error in first if not _is_wrapper(error, catalogued)] + ends[:1]
    for tier in (symptoms, unknown):
        if tier:
            return [first_of(tier), *ends[:1]]
    return ends[:1]


def _is_wrapper(unknown: Seen, known: Sequence[Seen]) -> bool:
    """Return whether an exception only passes on a known error right below it: of CANN, or thrown by C++."""
    if unknown.sign.id in _ENDS_OF_CPP:
        return any(error.sign.id != "killed" for error in known)
    return unknown.sign.id in _WRAPPERS and any(
        0 < error.number - unknown.number <= _BELOW and _OF_CANN.match(error.sign.id) for error in known
    )


def _tiers(errors: Sequence[Seen]) -> tuple[list[Seen], ...]:
    """Return errors in tiers, those that explain the most first.

    The tiers are causes, then waits, deaths and ends of the job, then failures without a reason, then exceptions that
    the catalogue does not have, then reports of launchers.
    """
    own = (Role.OWN, Role.LINK)
    catalogued = [error for error in errors if error.sign.role is not Role.UNKNOWN]
    return (
        [error for error in catalogued if error.sign.role in own and error.sign.weight is Weight.CAUSE],
        [
            error
            for error in catalogued
            if error.sign.weight is Weight.DEATH
            or (error.sign.role not in own and error.sign.weight is not Weight.SYMPTOM)
        ],
        [error for error in catalogued if error.sign.role in own and error.sign.weight is Weight.SYMPTOM],
        [error for error in errors if error.sign.role is Role.UNKNOWN],
        [error for error in catalogued if error.sign.role not in own and error.sign.weight is Weight.SYMPTOM],
    )


def _of_this_job(leads: Sequence[Seen]) -> tuple[list[Seen], list[Seen]]:
    """Return the errors of the job, and those of the kernel that are too old to be."""
    jobs = [error.time for error in leads if error.time is not None and not is_of_kernel(error.sign)]
    if not jobs:
        return list(leads), []
    begin = min(jobs) - _NEAR

    def is_old(seen: Seen) -> bool:
        return is_of_kernel(seen.sign) and seen.time is not None and seen.time < begin

    return [error for error in leads if not is_old(error)], [error for error in leads if is_old(error)]


def _past(leads: Sequence[Seen]) -> set[Seen]:
    """Return exceptions after which programs went on.

    Such an exception counts only if other errors followed in the time that ranks wait. If its program reports that it
    survived, it does not count if another error explains why the job failed.
    """
    first = min((when(error) for error in leads if not error.caught), default=None)
    explained = any(not error.caught and error.sign.role is not Role.WAIT for error in leads)

    def is_past(seen: Seen) -> bool:
        if seen.survived and explained:
            return True
        return first is None or (seen.time is not None and _PATIENCE < first - seen.time < NEVER)

    return {error for error in leads if error.caught and is_past(error)}


def _follows_cancellation(seen: Seen, cancelled: Errors) -> bool:
    """Return whether it is only an error that ranks log when their job is cancelled."""
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
    """Return groups of the same error, the first one first; at equal times, one with a known host or rank is first."""
    groups: dict[tuple[str, str], dict[Who, Seen]] = defaultdict(dict)
    for error in sorted(
        all_seen, key=lambda error: (when(error), not (error.who.host or error.who.rank is not None), error.number)
    ):
        groups[error.sign.id, _shape(error)].setdefault(error.who, error)
    same = [tuple(by_writer.values()) for by_writer in groups.values()]
    return sorted(
        (Group(errors[0].sign, errors) for errors in same), key=lambda group: (when(group.first), group.first.number)
    )


def _shape(seen: Seen) -> str:
    """Return the words of an error that the catalogue does not have, without numbers; empty for other errors."""
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
            f"the kernel reported {', '.join(sorted({error.sign.id for error in earlier}))} more than "
            f"{_NEAR / 60:.0f} min before the first error of the job; taken as another matter"
        )
    return notes


def _about_order(causes: Sequence[Group], echoes: Sequence[Group]) -> list[str]:
    notes = []
    if causes or echoes:
        times = [error.time for group in (*causes, *echoes) for error in group.seen]
        if not any(time is not None for time in times):
            notes.append("no line of an error has a time: which came first is not known")
        elif None in times:
            notes.append("some errors have no time, and were put last")
    if causes and echoes:
        delay = when(causes[0].first) - when(echoes[0].first)
        if _CLOCKS < delay < NEVER:
            notes.append(
                f"others had begun to complain {delay:.0f} s before the first different error: either that rank was "
                "late already, or its error came of theirs"
            )
    if len(causes) > 1:
        interval = when(causes[1].first) - when(causes[0].first)
        hosts = {group.first.who.host for group in causes[:2]} - {""}
        if interval < _CLOCKS and len(hosts) > 1:
            notes.append(f"two different errors are less than {_CLOCKS:.0f} s apart: the clocks decide (HST102)")
    return notes
