"""What is known of lines, and what was found in logs."""

import re
from dataclasses import dataclass, field
from enum import StrEnum

_CHECK = re.compile(r"\b[A-Z]{3}\d{3}\b")


class Role(StrEnum):
    """What an error says about the process that logged it."""

    OWN = "own"  # the trouble is there, by its own words
    LINK = "link"  # something between two ends failed or differs: neither end is convicted
    WAIT = "wait"  # it waited for others in vain, or lost them: an echo
    UNKNOWN = "unknown"  # an error that the catalogue does not have
    HINT = "hint"  # worth a line, and no error
    NOISE = "noise"  # looks like an error, and is none


@dataclass(frozen=True)
class Sign:
    """Something that logs say. All `words` stand in its line, and `pattern` matches there, if there is one.

    `cause` is a clause, `step` what to do next, with the ids of checks that prove it; both without a full stop.
    """

    id: str
    role: Role
    words: tuple[str, ...]
    cause: str = ""
    step: str = ""
    pattern: str = ""

    @property
    def checks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_CHECK.findall(self.step)))


@dataclass(frozen=True)
class Who:
    """Who wrote a line, as far as lines and names of files tell. `host` may be an address."""

    rank: int | None = None
    host: str = ""
    device: str = ""
    pid: int | None = None
    file: str = ""


@dataclass(frozen=True)
class Line:
    """A line without terminal escapes. `time`: seconds since 1970, in the clock and zone of its log; `tag` tells
    several writers of one file apart; `peers`: whom it names besides itself."""

    text: str
    time: float | None = None
    tag: str = ""
    who: Who = field(default_factory=Who)
    level: str = ""  # of a plog line: "ERROR"
    peers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kill:
    """A process that the kernel killed for want of memory, as far as the line tells. `limited`: the limit of a cgroup
    was used up, not the host's memory; `cgroup`: that of the process."""

    pid: int | None
    name: str
    cgroup: str
    limited: bool


@dataclass(frozen=True)
class Seen:
    """The first time that a process said it; `count`: how often in all. `number`: of the line, from 1. `caught`: it is
    a Python exception, and the log goes on for long after the last one; `survived`: its writer says there that it went
    on."""

    sign: Sign
    who: Who
    time: float | None
    file: str
    number: int
    text: str
    count: int = 1
    caught: bool = False
    survived: bool = False
    kill: Kill | None = None


@dataclass(frozen=True)
class Group:
    """Processes that said the same, the first one first."""

    sign: Sign
    seen: tuple[Seen, ...]

    @property
    def first(self) -> Seen:
        return self.seen[0]


@dataclass(frozen=True)
class Diagnosis:
    """`cause`: the first different error; None where nothing is wrong, or all only waited. `others`: further different
    errors, later; `echoes`: those who waited. `named`: whom others name, and how many did, which convicts nobody;
    `silent`: ranks of the job without an error."""

    cause: Group | None = None
    others: tuple[Group, ...] = ()
    echoes: tuple[Group, ...] = ()
    named: tuple[tuple[str, int], ...] = ()
    silent: tuple[int, ...] = ()
    hints: tuple[Group, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        return bool(self.cause or self.others or self.echoes)
