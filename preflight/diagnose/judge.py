"""The first error of a job, and which other errors are its consequences. Pure.

An error that names a fault where it is logged, or between two ends, is a cause. An error that only reports that others
did not come is none, and identifies no culprit. The first cause in time leads.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from preflight.diagnose import kills, waiting
from preflight.diagnose.catalogue import ends_traceback
from preflight.diagnose.consequences import causes_and_consequences
from preflight.diagnose.errors.host import MEMORY, is_of_kernel
from preflight.diagnose.errors.launchers import ENDED_BADLY
from preflight.diagnose.errors.schedulers import CANCELLED, JOB_MEMORY
from preflight.diagnose.gather import Counted, Gathered, LoggedProcess, ProcessErrors
from preflight.diagnose.order import NEVER, Errors, first_of, is_before, when
from preflight.diagnose.types import Diagnosis, ErrorGroup, LastLines, LoggedError, Role, Sign, Weight, Who

_CLOCKS = 1.0  # seconds that clocks of two hosts may differ unnoticed
_NEAR = 600.0  # seconds before the first error of a job in which a kernel's report may belong to it
_TIMEOUT = 2100.0  # seconds: HCCL waits 1836 inside a collective, gloo 1800
_SAME = 60  # characters that are equal in messages of the same unknown error
_ENDS_OF_CPP = ("terminate", "abort")
_WRAPPERS = ("RuntimeError", "TVMError")
_BELOW = 30  # lines from an exception to the error that it passes on
_OF_CANN = re.compile(r"E[1-9A-Z]\d{4}|\d{6}$|npu-|ai-c|sdma$|hccl-|data-queue$")


@dataclass(frozen=True)
class _Leads:
    """The errors that lead the processes of a job.

    `by_process`: with those of the kernel that are too old to be the job's. `too_old`: these. `caught`: exceptions that
    programs caught, so that they lead no process.
    """

    by_process: list[ProcessErrors]
    errors: list[LoggedError]
    too_old: list[LoggedError]
    caught: set[LoggedError]


def diagnosis(logs: Gathered) -> Diagnosis:
    """Return the reading of all logs of a job."""
    observed = _observed(logs)
    everything = list(chain.from_iterable(errors for _, errors in observed))
    foreign = kills.foreign_kills(everything, logs.files)
    leading = _leading(observed, foreign, logs)
    leads, hints = _without_hints(leading, everything, foreign)
    causes, echoes = map(_group, causes_and_consequences(leads))
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
        waiting.awaited_peers(leading.by_process, logs, silence),
        silence.ranks,
        silence.unlogged,
        tuple(_group(hints)),
        (*_notes_on_logs(logs, leading.too_old), *waiting.behind(logs), *_notes_on_order(causes, echoes)),
        unexplained,
        last,
    )


def _leading(observed: Sequence[ProcessErrors], foreign: set[LoggedError], logs: Gathered) -> _Leads:
    """Return the errors that lead processes, without exceptions that programs caught."""
    caught: set[LoggedError] = set()
    while True:
        ignored = caught | foreign
        by_process = [(process, _leads(process, errors, ignored)) for process, errors in observed]
        leads = chain.from_iterable(errors for _, errors in by_process)
        errors, too_old = _split_by_age([*logs.comparison_errors(), *leads])
        newly_caught = _caught(errors)
        if not newly_caught:
            return _Leads(by_process, errors, too_old, caught)
        caught |= newly_caught


def _without_hints(
    leading: _Leads, everything: Sequence[LoggedError], foreign: set[LoggedError]
) -> tuple[list[LoggedError], list[LoggedError]]:
    """Return the leading errors of the job, and hints: all that is worth a line but no error of it."""
    caught = leading.caught | {error for error in everything if error.survived} - set(leading.errors)
    hints = [error for error in everything if error.sign.role is Role.HINT]
    leads = _without_cancelled(leading.errors, hints)
    restarted = [error for error in leads if error.restarted]
    hints += [*map(_caught_hint, caught), *map(kills.note, foreign), *map(_restarted_hint, restarted)]
    return [error for error in leads if not error.restarted], hints


def _observed(logs: Gathered) -> list[ProcessErrors]:
    """Return each process with its errors.

    Lines without a writer belong to the only process that CANN names in their file.
    """
    observed: list[ProcessErrors] = []
    of_file: dict[str, ProcessErrors] = {}
    for key, process in logs.processes.items():
        errors = [_completed(process, counted, logs) for counted in process.errors.values()]
        file = _only_file(key, process, logs)
        if file in of_file:
            of_file[file][1].extend(errors)
            of_file[file][0].names.update(process.names)
            continue
        if file:
            process = replace(process, mixed=False, names=set(process.names))
            of_file[file] = (process, errors)
        observed.append((process, errors))
    return observed + [entry for merged in of_file.values() for entry in _foreign_exceptions(*merged)]


def _foreign_exceptions(process: LoggedProcess, errors: list[LoggedError]) -> list[ProcessErrors]:
    """Take the exceptions that may be another rank's out of a process's errors, and return each as its own process."""
    before = _exceptions_before_waits(errors)
    errors[:] = [error for error in errors if error not in before]
    return [
        (replace(process, mixed=True, names=set()), [replace(error, who=Who(host=error.who.host, file=error.file))])
        for error in before
    ]


def _exceptions_before_waits(errors: Sequence[LoggedError]) -> list[LoggedError]:
    """Return exceptions that come before all that CANN reports of a process, and do not pass it on.

    If the process only waited afterwards, they may be another rank's, and the reason.
    """
    catalogued = [error for error in errors if error.sign.role not in (Role.UNKNOWN, Role.HINT)]
    if not catalogued or any(error.sign.role is not Role.WAIT for error in catalogued):
        return []
    return [
        error
        for error in errors
        if error.sign.role is Role.UNKNOWN and ends_traceback(error.sign, error.text) and _precedes(error, catalogued)
    ]


def _precedes(unknown: LoggedError, catalogued: Sequence[LoggedError]) -> bool:
    """Return whether an exception comes before all of these errors for certain, and passes none of them on."""
    return all(is_before(unknown, error) for error in catalogued) and not _is_wrapper(unknown, catalogued)


def _only_file(key: tuple[str, ...], process: LoggedProcess, logs: Gathered) -> str:
    """Return the file in which CANN names this process as the only writer, empty if there is none."""
    kind, file = key[:2]
    pid = logs.writers.only_writer(file).pid if kind in ("pid", "file") else None
    of_writer = process.who.pid == pid if kind == "pid" else key == ("file", file, "")
    return file if pid is not None and of_writer else ""


def _completed(process: LoggedProcess, counted: Counted, logs: Gathered) -> LoggedError:
    """Return the error with all that is known of its process by now."""
    survived = counted.caught and counted.survived
    error = replace(
        counted.error, count=counted.count, caught=counted.caught, survived=survived, restarted=counted.restarted
    )
    writer = error.who if process.mixed else process.who
    if process.mixed and writer.rank is None and writer.pid is None:
        file_writer = logs.writers.only_writer(error.file)
        writer = replace(writer, rank=file_writer.rank, pid=file_writer.pid, device=writer.device or file_writer.device)
    return replace(error, who=logs.writers.complete(writer))


def _leads(process: LoggedProcess, observed: Sequence[LoggedError], ignored: set[LoggedError]) -> list[LoggedError]:
    """Return the error that leads a process; if several processes may have written, each error that may lead one."""
    errors = _deadly([error for error in observed if error.sign.role is not Role.HINT and error not in ignored])
    if any(error.sign.id in (JOB_MEMORY, MEMORY) for error in errors):
        errors = [error for error in errors if error.sign.id != "killed"]
    return _leads_of_several(errors) if process.mixed else _lead_of_one(errors)


def _deadly(errors: list[LoggedError]) -> list[LoggedError]:
    """Return the errors without those that the process survived, if it may have died of another."""
    deadly = [error for error in errors if not error.survived]
    return deadly if any(error.sign.role is not Role.WAIT for error in deadly) else errors


def _lead_of_one(errors: Sequence[LoggedError]) -> list[LoggedError]:
    for tier in _tiers(errors):
        if tier:
            return [first_of(tier)]
    return []


def _leads_of_several(errors: Sequence[LoggedError]) -> list[LoggedError]:
    causes, waits, symptoms, unknown, ends = _tiers(errors)
    catalogued = [*causes, *waits]
    if catalogued:
        return catalogued + [error for error in unknown if _precedes(error, catalogued)] + ends[:1]
    for tier in (symptoms, unknown):
        if tier:
            return [first_of(tier), *ends[:1]]
    return ends[:1]


def _is_wrapper(unknown: LoggedError, known: Sequence[LoggedError]) -> bool:
    """Return whether an exception only passes on a known error right below it: of CANN, or thrown by C++."""
    if unknown.sign.id in _ENDS_OF_CPP:
        return any(error.sign.id != "killed" for error in known)
    return unknown.sign.id in _WRAPPERS and any(
        0 < error.number - unknown.number <= _BELOW and _OF_CANN.match(error.sign.id) for error in known
    )


def _tiers(errors: Sequence[LoggedError]) -> tuple[list[LoggedError], ...]:
    """Return errors in tiers, those that explain the most first.

    The tiers are causes, then waits, deaths and ends of the job, then failures without a reason, then exceptions that
    the catalogue does not have, then reports of launchers.
    """
    tiers: tuple[list[LoggedError], ...] = ([], [], [], [], [])
    for error in errors:
        tiers[_tier(error.sign)].append(error)
    return tiers


def _tier(sign: Sign) -> int:
    """Return the place of an error's tier in `_tiers`."""
    if sign.role is Role.UNKNOWN:
        return 3
    if sign.role in (Role.OWN, Role.LINK):
        return {Weight.CAUSE: 0, Weight.DEATH: 1, Weight.SYMPTOM: 2}[sign.weight]
    return 4 if sign.weight is Weight.SYMPTOM else 1


def _split_by_age(leads: Sequence[LoggedError]) -> tuple[list[LoggedError], list[LoggedError]]:
    """Return the errors of the job, and those of the kernel that are too old to be."""
    jobs = [error.time for error in leads if error.time is not None and not is_of_kernel(error.sign)]
    if not jobs:
        return list(leads), []
    begin = min(jobs) - _NEAR

    def is_old(error: LoggedError) -> bool:
        return is_of_kernel(error.sign) and when(error) < begin

    return [error for error in leads if not is_old(error)], [error for error in leads if is_old(error)]


def _caught(leads: Sequence[LoggedError]) -> set[LoggedError]:
    """Return exceptions after which programs went on.

    Such an exception counts only if other errors followed in the time that ranks wait. If its program reports that it
    survived, it does not count if another error explains why the job failed.
    """
    failures = [error for error in leads if not error.caught]
    first = min(map(when, failures), default=None)
    explained = any(error.sign.role is not Role.WAIT for error in failures)

    def is_past(error: LoggedError) -> bool:
        if error.survived and explained:
            return True
        return first is None or _TIMEOUT < first - when(error) < NEVER

    return {error for error in leads if error.caught and is_past(error)}


def _without_cancelled(leads: Sequence[LoggedError], hints: Sequence[LoggedError]) -> list[LoggedError]:
    """Return the errors without those that ranks only log when their job is cancelled."""
    cancelled = Errors(error for error in hints if error.sign.id == CANCELLED)
    return [error for error in leads if _tier(error.sign) == 0 or not cancelled.any_before(error)]


def _restarted_hint(error: LoggedError) -> LoggedError:
    return _hint(error, f"{error.sign.cause}. The job was restarted and completed")


def _caught_hint(error: LoggedError) -> LoggedError:
    return _hint(error, "an exception was logged, and the program continued")


def _hint(error: LoggedError, cause: str) -> LoggedError:
    return replace(error, sign=replace(error.sign, role=Role.HINT, cause=cause))


def _group(errors: Iterable[LoggedError]) -> list[ErrorGroup]:
    """Return groups of the same error, the first one first; at equal times, one with a known host or rank is first."""
    groups: dict[tuple[str, str], dict[Who, LoggedError]] = defaultdict(dict)
    for error in sorted(
        errors, key=lambda error: (when(error), not (error.who.host or error.who.rank is not None), error.number)
    ):
        groups[error.sign.id, _shape(error)].setdefault(error.who, error)
    same = (tuple(by_writer.values()) for by_writer in groups.values())
    return sorted(
        (ErrorGroup(errors[0].sign, errors) for errors in same),
        key=lambda group: (when(group.first), group.first.number),
    )


def _shape(error: LoggedError) -> str:
    """Return the words of an error that the catalogue does not have, without numbers; empty for other errors."""
    if error.sign.role is not Role.UNKNOWN:
        return ""
    message = error.text.partition(error.sign.id)[2] or error.text.rpartition("]")[2]
    return re.sub(r"[\d\W]+", " ", message)[:_SAME]


def _notes_on_logs(logs: Gathered, too_old: Sequence[LoggedError]) -> list[str]:
    notes = []
    if logs.too_many:
        notes.append(f"{logs.too_many} errors of additional processes were dropped")
    if too_old:
        notes.append(
            f"the kernel reported {', '.join(sorted({error.sign.id for error in too_old}))} more than "
            f"{_NEAR / 60:.0f} min before the first error of the job, so these reports are treated as unrelated"
        )
    return notes


def _notes_on_order(causes: Sequence[ErrorGroup], echoes: Sequence[ErrorGroup]) -> Iterator[str]:
    yield from _notes_on_times([error for group in (*causes, *echoes) for error in group.seen])
    if causes and echoes:
        delay = when(causes[0].first) - when(echoes[0].first)
        if _CLOCKS < delay < NEVER:
            yield (
                f"other ranks logged errors {delay:.0f} s before the first different error. Either the rank "
                "with the different error was already late, or its error is a consequence of the earlier errors"
            )
    if len(causes) > 1:
        interval = when(causes[1].first) - when(causes[0].first)
        hosts = {group.first.who.host for group in causes[:2]} - {""}
        if interval < _CLOCKS and len(hosts) > 1:
            yield (
                f"two different errors are less than {_CLOCKS:.0f} s apart, so their order depends on the clocks "
                "(HST102)"
            )


def _notes_on_times(errors: Sequence[LoggedError]) -> Iterator[str]:
    untimed = sum(error.time is None for error in errors)
    if errors and untimed == len(errors):
        yield "no error line has a timestamp, so it is unknown which error came first"
    elif untimed:
        yield "some errors have no timestamp and are listed last"
