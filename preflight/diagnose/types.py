"""The error catalogue's entries, and the observations and the diagnosis that are made of logs."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

_CHECK = re.compile(r"\b[A-Z]{3}\d{3}\b")


class Role(StrEnum):
    """Meaning of an error for the process that logged it."""

    OWN = "own"  # the fault is in this process, its device or its host
    LINK = "link"  # something between two ends failed or differs: neither end is the culprit
    WAIT = "wait"  # it waited for others until a timeout, or lost them: a consequence
    ENDED = "ended"  # a scheduler ended the job: no rank is the culprit
    UNKNOWN = "unknown"  # an error that the catalogue does not have
    HINT = "hint"  # worth a line, but no error
    NOISE = "noise"  # looks like an error, but is none


class Weight(IntEnum):
    """Share of a failure that an error explains, compared with other errors of the same process."""

    SYMPTOM = 1  # it reports that something failed: every other known error of the process explains more
    DEATH = 2  # it reports how the process died: a cause, or a wait before it, explains more
    CAUSE = 3


@dataclass(frozen=True)
class Sign:
    """An entry of the catalogue. All `words` are in its line, and `pattern` matches there, if there is one.

    `cause` is a clause. `step` is the next step in words, with the ids of checks that prove the cause, and below it a
    line for each command on the writer's host ({device}: the writer's). Both are without a full stop, and may have
    named groups of `pattern` as {name}.
    """

    id: str
    role: Role
    words: tuple[str, ...]
    cause: str = ""
    step: str = ""
    pattern: str = ""
    weight: Weight = Weight.CAUSE

    @property
    def checks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_CHECK.findall(self.step)))

    @property
    def fix(self) -> str:
        """The next step in words."""
        return self.step.partition("\n")[0]

    @property
    def commands(self) -> list[str]:
        return self.step.splitlines()[1:]

    def read_from(self, text: str) -> "Sign | None":
        """Return the sign with the values of `text` filled in, None if the line does not match."""
        if not all(word in text for word in self.words):
            return None
        if not self.pattern:
            return self
        match = re.search(self.pattern, text)
        if match is None:
            return None
        cause, step = self.cause, self.step
        for name, value in match.groupdict().items():
            cause, step = (template.replace(f"{{{name}}}", value or "") for template in (cause, step))
        return replace(self, cause=cause, step=step)


@dataclass(frozen=True)
class Who:
    """The writer of a line, as far as lines and names of files identify it. `host` may be an address."""

    rank: int | None = None
    host: str = ""
    device: str = ""
    pid: int | None = None
    file: str = ""

    def completed_by(self, other: "Who") -> "Who":
        """Return this writer, completed by the other one."""
        return Who(
            self.rank if self.rank is not None else other.rank,
            self.host or other.host,
            self.device or other.device,
            self.pid if self.pid is not None else other.pid,
            self.file or other.file,
        )


@dataclass(frozen=True)
class LogLine:
    """A line without terminal escapes.

    `time`: seconds since 1970, in the clock and zone of its log. `tag`: distinguishes several writers of one file.
    `peers`: names in it besides the writer's.
    """

    text: str
    time: float | None = None
    tag: str = ""
    who: Who = field(default_factory=Who)
    level: str = ""  # of a plog line: "ERROR"
    peers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spot:
    """The place of a line.

    `end`: bytes of the file up to its end, as it is read. `about`: the writer by the file's path. `year`: that of lines
    without one. `time_before`: the time of the nearest line before it that has one. `after` and `before`: the text that
    follows it, and that precedes it, bounded. `went_on`: returns whether a writer logs below that it went on.
    """

    file: str
    number: int
    end: int
    about: Who
    year: int
    time_before: Callable[[], float | None]
    after: Callable[[], str] = lambda: ""
    before: Callable[[], str] = lambda: ""
    went_on: Callable[[str], bool] = lambda _tag: False


@dataclass(frozen=True)
class Kill:
    """A process that the kernel killed for lack of memory, as far as the line names it.

    `limited`: the limit of a cgroup was used up, not the host's memory. `cgroup`: that of the process.
    """

    pid: int | None
    name: str
    cgroup: str
    limited: bool


@dataclass(frozen=True)
class LoggedError:
    """The first occurrence of an error in a process.

    `count`: number of occurrences. `number`: of the line, from 1. `caught`: it is a Python exception, and the log goes
    on for long after the last one. `survived`: its writer logs there that it went on. `restarted`: the job was started
    again, and ended well.
    """

    sign: Sign
    who: Who
    time: float | None
    file: str
    number: int
    text: str
    count: int = 1
    caught: bool = False
    survived: bool = False
    restarted: bool = False
    kill: Kill | None = None


@dataclass(frozen=True)
class ErrorGroup:
    """Processes that logged the same error, the first one first."""

    sign: Sign
    seen: tuple[LoggedError, ...]

    @property
    def first(self) -> LoggedError:
        return self.seen[0]


@dataclass(frozen=True)
class LastLines:
    """The last lines of one writer of a file, oldest first. `time`: of the last one that has one."""

    who: Who
    file: str
    time: float | None
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Diagnosis:
    """The reading of all logs of a job.

    `cause`: the first error that is no consequence of another; None if nothing is wrong, or all ranks only waited.
    `others`: further such errors, later. `echoes`: consequences, and the scheduler's end of the job. `named`: the
    ranks, devices and hosts that waiting ranks name, and by how many. `silent`: ranks without an error. `unlogged`:
    those of them without a log here. `unexplained`: the job ended early and no cause is known. `last`: then, the last
    lines of each rank that stopped first; if all ranks only waited, those of each log without an error.
    """

    cause: ErrorGroup | None = None
    others: tuple[ErrorGroup, ...] = ()
    echoes: tuple[ErrorGroup, ...] = ()
    named: tuple[tuple[str, int], ...] = ()
    silent: tuple[int, ...] = ()
    unlogged: tuple[int, ...] = ()
    hints: tuple[ErrorGroup, ...] = ()
    notes: tuple[str, ...] = ()
    unexplained: bool = False
    last: tuple[LastLines, ...] = ()

    @property
    def is_error(self) -> bool:
        return bool(self.cause or self.others or self.echoes)
