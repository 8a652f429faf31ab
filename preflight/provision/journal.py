"""Journals of the runs from this machine: a file a run, a JSON object a line, on disk before the next step begins.

    `start`    run, command, inventory, owner and changes (the plan).
               `undoes` is the run that this one rolls back, or "". `asked` is the hosts that were asked for it.
    `begin`    host and steps (the changes that now begin there, in order).
    `end`      host, step, kind, target, state, found and message, which are the result of one change.
               `maybe` is true if the change may have changed something though it is not done.
    `stopped`  why no other host is begun.
    `finish`   exit (the command's exit code).

The files may hold text of hosts' files; only their owner can read them.
"""

import errno
import getpass
import os
import re
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from preflight.bounded_file import read_bounded
from preflight.model.change import DEVICE_KINDS, Change, Plan, StepResult, StepState
from preflight.model.errors import PreflightError, UsageError
from preflight.model.places import state_home

_LONGEST = 200  # characters of a found value
_LARGEST = 1 << 30  # bytes of a file that is read; the plan of 4,096 hosts may hold a long file of each
_ROOM = 1 << 16  # bytes that a small run needs; the plan of a large one is written before any host is begun


def directory() -> Path:
    """Return the directory of this user's runs."""
    return state_home() / "runs"


def require_directory() -> None:
    """Make the directory of the journals. Raises UsageError if nothing can be written there.

    A disk may have room for a directory, but not for files in it.
    """
    place = directory()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(b"\0" * _ROOM)
    except OSError as error:
        raise UsageError(_unwritable(place, error)) from None


def _unwritable(path: Path, error: OSError) -> str:
    return f"cannot write the journal {path}: {error.strerror}. To use another folder, set XDG_STATE_HOME."


class RunJournal:
    """One run's journal, open for writing. Thread-safe."""

    def __init__(self, run: str) -> None:
        """Create the file. Raises PreflightError if it cannot be written: a step without a record is not taken."""
        self.run = run
        self.path = directory() / f"{run}.jsonl"
        self._lock = threading.Lock()
        try:
            self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            raise PreflightError(_unwritable(self.path, error)) from None

    def start(self, command: str, inventory: Path, plan: Plan, *, undoes: str = "", asked: Sequence[str] = ()) -> None:
        """Record the plan. Raises PreflightError if there is no room for it: then nothing may begin."""
        changes = msgspec.to_builtins(plan.changes)
        try:
            self._note(
                "start",
                run=self.run,
                command=command,
                inventory=str(inventory.absolute()),
                owner=owner(),
                undoes=undoes,
                asked=asked,
                changes=changes,
            )
        except PreflightError as error:
            self.path.unlink(missing_ok=True)
            raise PreflightError(f"{error} Nothing was changed.") from None

    def begin(self, host: str, changes: Sequence[Change]) -> None:
        self._note("begin", host=host, steps=[f"{change.kind} {change.target}" for change in changes])

    def end(self, results: Sequence[StepResult]) -> None:
        for number, result in enumerate(results):
            change, value = result.change, result.found
            self._note(
                "end",
                host=change.host,
                step=number,
                kind=change.kind,
                target=change.target,
                state=result.state,
                found=value and value[:_LONGEST],
                message=result.message,
                maybe=result.maybe,
            )

    def stopped(self, why: str) -> None:
        self._note("stopped", why=why)

    def finish(self, exit_code: int) -> None:
        self._note("finish", exit=exit_code)

    def _note(self, event: str, **fields: Any) -> None:
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = msgspec.json.encode({"event": event, "time": time, **fields}) + b"\n"
        try:
            with self._lock:
                if os.write(self._handle, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._handle)
        except OSError as error:
            raise PreflightError(_unwritable(self.path, error)) from None


def owner() -> str:
    """Return user and host of this run, for other people to read."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without an entry in /etc/passwd
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


@dataclass(frozen=True)
class PastRun:
    """A run as its journal records it."""

    run: str
    command: str
    started: str
    inventory: str
    owner: str
    changes: tuple[Change, ...]
    undoes: str = ""
    asked: frozenset[str] = frozenset()
    states: dict[StepState, int] = field(default_factory=dict)  # number of changes by result, as far as is known
    maybe: int = 0  # number of changes that are not done, but may have changed something
    begun: tuple[str, ...] = ()  # hosts
    made: tuple[Change, ...] = ()  # changes that are done, or may be
    exit: int | None = None  # None: the run was cut off, or is at work

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(change.host for change in self.changes))

    @property
    def not_begun(self) -> int:
        """Number of changes of hosts that were not begun."""
        begun = set(self.begun)
        return sum(change.host not in begun for change in self.changes)

    @property
    def unheard(self) -> int:
        """Number of changes without a result, of hosts that were begun."""
        return len(self.changes) - self.not_begun - sum(self.states.values())

    @property
    def touched(self) -> bool:
        """True if a host may differ from before because of the run."""
        return bool(self.states.get(StepState.DONE) or self.maybe or self.unheard)


def past_runs() -> Iterator[PastRun]:
    """Yield the runs of this user, the newest first. Files that are no journals are skipped."""
    for path in sorted(directory().glob("*.jsonl"), reverse=True):
        if run := _read(path):
            yield run


def taken_back(runs: Iterable[PastRun]) -> frozenset[str]:
    """Return the runs that a later run has rolled back on all their hosts, unless that one was rolled back itself.

    A run that has changed nothing needs no rollback.
    """
    runs_by_id = {past.run: past for past in runs}
    undone: set[str] = set()
    for past in sorted(runs_by_id.values(), key=lambda past: past.run, reverse=True):  # rollbacks come later
        earlier = runs_by_id.get(past.undoes)
        whole = earlier and earlier.touched and past.asked >= set(earlier.hosts)
        if whole and past.exit == 0 and past.run not in undone:
            undone.add(past.undoes)
    return frozenset(undone)


def known_journals() -> list[str]:
    """Return the ids of all runs of this user that changed hosts, the newest first."""
    return sorted((path.stem for path in directory().glob("*.jsonl")), reverse=True)


def past_run(run: str) -> PastRun | None:
    """Return one run, None if this machine has no journal of it."""
    path = directory() / f"{run}.jsonl"
    return _read(path) if os.path.isfile(path) else None  # noqa: PTH113 - that one raises at a long name


# Lines of a journal, as RunJournal writes them; other fields and events are skipped.


class _Line(msgspec.Struct, tag_field="event"):
    """One line, of any event."""


class _Start(_Line, tag="start"):
    run: str
    command: str
    time: str
    inventory: str
    owner: str
    changes: tuple[Change, ...]
    undoes: str = ""
    asked: frozenset[str] = frozenset()


class _Begin(_Line, tag="begin"):
    host: str


class _End(_Line, tag="end"):
    host: str
    step: int
    kind: str
    target: str
    state: StepState
    maybe: bool = False


class _Finish(_Line, tag="finish"):
    exit: int


def _may_be_made(end: _End | None) -> bool:
    """Return whether a change of a host that was begun is done, or may be. `end` None: there is no result of it."""
    return end is None or end.state is StepState.DONE or end.maybe


def _read(path: Path) -> PastRun | None:
    """Return the run of a journal, None for a file that is no journal of a run, or damaged in its first line."""
    try:
        content = read_bounded(path, _LARGEST)
    except OSError:
        return None
    first, *later_lines = content.splitlines() or [b""]
    start = _line(first)
    if not isinstance(start, _Start) or not _is_sound(start, path.stem):
        return None
    return _past_run(start, list(map(_line, later_lines)))


def _past_run(start: _Start, lines: Sequence[_Line | None]) -> PastRun:
    """Return the run that begins with `start`, by the later lines of its journal."""
    hosts = {change.host for change in start.changes}
    ends = _last_ends(lines)
    begun = tuple(line.host for line in lines if isinstance(line, _Begin) and line.host in hosts)
    return PastRun(
        run=start.run,
        command=start.command,
        started=start.time,
        inventory=start.inventory,
        owner=start.owner,
        changes=start.changes,
        undoes=start.undoes,
        asked=start.asked,
        states=dict(Counter(end.state for end in ends)),
        maybe=sum(end.maybe for end in ends),
        begun=begun,
        made=_made(start.changes, frozenset(begun), ends),
        exit=next((line.exit for line in lines if isinstance(line, _Finish)), None),
    )


def _last_ends(lines: Iterable[_Line | None]) -> list[_End]:
    """Return the last result of each step."""
    return list({(line.host, line.step): line for line in lines if isinstance(line, _End)}.values())


def _made(changes: Iterable[Change], begun: frozenset[str], ends: Iterable[_End]) -> tuple[Change, ...]:
    """Return the changes of hosts that were begun which are done, or may be: those without a result, too."""
    ended = {(end.host, end.kind, end.target): end for end in ends}
    return tuple(
        change
        for change in changes
        if change.host in begun and _may_be_made(ended.get((change.host, change.kind, change.target)))
    )


def _is_sound(start: _Start, run: str) -> bool:
    """Return whether a first line is of this run, and can be shown."""
    texts = (start.command, start.time, start.inventory, start.owner, start.undoes)
    devices = (change.target for change in start.changes if change.kind in DEVICE_KINDS)
    return (
        start.run == run
        and all(map(str.isprintable, texts))
        and all(change.host.isprintable() for change in start.changes)
        and all(re.match(r"[0-9]{1,3}(?: |$)", device) for device in devices)
    )


def _line(text: bytes) -> _Start | _Begin | _End | _Finish | None:
    """Return one line, None for one that was cut when the machine went down, or that is no event of a run."""
    try:
        return msgspec.json.decode(text, type=_Start | _Begin | _End | _Finish)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
