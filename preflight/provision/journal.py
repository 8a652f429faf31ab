"""What was done from this machine: a file a run, a JSON object a line, on the disk before the next thing begins.

    start      run, command, inventory, owner, changes (the plan); undoes (the run that this one takes back, or "") and
               asked (the hosts that were asked for it)
    begin      host, steps: what is now done there, in order
    end        host, step, kind, target, state, found, message: what became of one change; maybe: whether it may have
               changed something though it is not done
    stopped    why: no other host is begun
    finish     exit: the command's exit code

The files may hold what hosts' files held; only their owner reads them.
"""

import errno
import getpass
import os
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

from preflight.model.change import Change, Plan, StepResult, StepState
from preflight.model.errors import PreflightError, UsageError
from preflight.model.places import state_home

_LONGEST = 200  # characters of a found value
_ROOM = 1 << 16  # bytes that a small run needs; the plan of a large one is written before any host is begun


def directory() -> Path:
    """Where the runs of this user are kept."""
    return state_home() / "runs"


def require_directory() -> None:
    """Make the directory of the journals. Raises UsageError where nothing could be written there: a disk may have room
    for a directory and for nothing in it."""
    place = directory()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(b"\0" * _ROOM)
    except OSError as error:
        raise UsageError(_unwritable(place, error)) from None


def _unwritable(path: Path, error: OSError) -> str:
    return f"the journal {path} cannot be written: {error.strerror}; XDG_STATE_HOME names another place for it"


class RunJournal:
    """One run's journal, open for writing. Thread-safe."""

    def __init__(self, run: str) -> None:
        """Raises PreflightError where it cannot be written: what is not written down is not done."""
        self.run = run
        self.path = directory() / f"{run}.jsonl"
        self._lock = threading.Lock()
        try:
            self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            raise PreflightError(_unwritable(self.path, error)) from None

    def start(self, command: str, inventory: Path, plan: Plan, *, undoes: str = "", asked: Sequence[str] = ()) -> None:
        """Raises PreflightError where there is no room for the plan: then nothing is to be begun."""
        changes = msgspec.to_builtins(plan.changes)
        try:
            self._note("start", run=self.run, command=command, inventory=str(inventory.absolute()), owner=owner(),
                       undoes=undoes, asked=asked, changes=changes)  # fmt: skip
        except PreflightError as error:
            self.path.unlink(missing_ok=True)
            raise PreflightError(f"{error}; nothing was changed") from None

    def begin(self, host: str, changes: Sequence[Change]) -> None:
        self._note("begin", host=host, steps=[f"{change.kind} {change.target}" for change in changes])

    def end(self, results: Sequence[StepResult]) -> None:
        for number, result in enumerate(results):
            change, found = result.change, result.found
            self._note("end", host=change.host, step=number, kind=change.kind, target=change.target,
                       state=result.state, found=found and found[:_LONGEST], message=result.message,
                       maybe=result.maybe)  # fmt: skip

    def stopped(self, why: str) -> None:
        self._note("stopped", why=why)

    def finish(self, exit_code: int) -> None:
        self._note("finish", exit=exit_code)

    def _note(self, event: str, **more: Any) -> None:
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = msgspec.json.encode({"event": event, "time": time, **more}) + b"\n"
        try:
            with self._lock:
                if os.write(self._handle, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._handle)
        except OSError as error:
            raise PreflightError(_unwritable(self.path, error)) from None


def owner() -> str:
    """Who runs this, for others to read."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without an entry in /etc/passwd
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


@dataclass(frozen=True)
class PastRun:
    """A run as its journal tells it."""

    run: str
    command: str
    started: str
    inventory: str
    owner: str
    changes: tuple[Change, ...]
    undoes: str = ""
    asked: frozenset[str] = frozenset()
    states: dict[StepState, int] = field(default_factory=dict)  # how many changes ended how, as far as was heard
    maybe: int = 0  # of those that are not done: how many may have changed something all the same
    begun: tuple[str, ...] = ()  # hosts
    exit: int | None = None  # None: the run was cut off, or is at work

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(change.host for change in self.changes))

    @property
    def not_begun(self) -> int:
        """Changes of hosts that were not begun."""
        begun = set(self.begun)
        return sum(change.host not in begun for change in self.changes)

    @property
    def unheard(self) -> int:
        """Changes of hosts that were begun and of which nothing was heard since."""
        return len(self.changes) - self.not_begun - sum(self.states.values())

    @property
    def touched(self) -> bool:
        """Whether a host may be otherwise than before because of the run."""
        return bool(self.states.get(StepState.DONE) or self.maybe or self.unheard)


def past_runs() -> Iterator[PastRun]:
    """The runs of this user, the newest first. Files that are no journals are passed over."""
    for path in sorted(directory().glob("*.jsonl"), reverse=True):
        if run := _read(path):
            yield run


def taken_back(runs: Iterable[PastRun]) -> frozenset[str]:
    """The runs among these that another one has taken back, on all their hosts, and that was not taken back itself. A
    run that has changed nothing needs none."""
    known = {past.run: past for past in runs}
    undone: set[str] = set()
    for past in sorted(known.values(), key=lambda past: past.run, reverse=True):  # what undoes comes later
        earlier = known.get(past.undoes)
        whole = earlier and earlier.touched and past.asked >= set(earlier.hosts)
        if whole and past.exit == 0 and past.run not in undone:
            undone.add(past.undoes)
    return frozenset(undone)


def known_journals() -> list[str]:
    """Return the ids of all runs of this user that changed hosts, the newest first."""
    return sorted((path.stem for path in directory().glob("*.jsonl")), reverse=True)


def past_run(run: str) -> PastRun | None:
    """One run, None if this machine knows nothing of it."""
    path = directory() / f"{run}.jsonl"
    return _read(path) if os.path.isfile(path) else None  # noqa: PTH113 - that one raises at a long name


def _read(path: Path) -> PastRun | None:
    lines = []
    for line in path.read_bytes().splitlines():
        try:
            lines.append(msgspec.json.decode(line))
        except msgspec.MsgspecError:
            continue  # cut, where the machine went down
    if not lines or lines[0].get("event") != "start":
        return None
    start = lines[0]
    ends = {(line["host"], line["step"]): line for line in lines if line["event"] == "end"}  # the last word counts
    return PastRun(
        run=start["run"],
        command=start["command"],
        started=start["time"],
        inventory=start["inventory"],
        owner=start["owner"],
        changes=tuple(msgspec.convert(start["changes"], list[Change])),
        undoes=start["undoes"],
        asked=frozenset(start["asked"]),
        states=dict(Counter(StepState(line["state"]) for line in ends.values())),
        maybe=sum(line.get("maybe", False) for line in ends.values()),
        begun=tuple(line["host"] for line in lines if line["event"] == "begin"),
        exit=next((line["exit"] for line in lines if line["event"] == "finish"), None),
    )
