"""A start script as it is read, and what is found wrong with it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Spot:
    """Line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Part:
    """A piece of a word; `quote` is the kind it stands in, or empty. `spot`: where it begins, the rest of it following
    as it stands in the file; or where it was `put` in, as the value of a variable."""

    text: str
    quote: str = ""
    spot: Spot | None = field(default=None, compare=False)
    put: bool = field(default=False, compare=False)

    @property
    def literal(self) -> bool:
        """Whether the shell takes its $ for a letter."""
        return self.quote in ("'", "\\")


@dataclass(frozen=True)
class Word:
    """A word of the shell, without its quotes."""

    spot: Spot
    parts: tuple[Part, ...]

    @cached_property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    @property
    def bare(self) -> bool:
        """Whether nothing of it stands in quotes."""
        return not any(part.quote for part in self.parts)


@dataclass(frozen=True)
class Command:
    """A simple command. `end`: what it ends with: a newline, an operator, or nothing at the end of the file. `array`:
    the elements, where its last word is `NAME=(`. `own`: variables that it has besides those of its script: in a round
    of a loop, or in a shell of its own."""

    words: tuple[Word, ...]
    end: str = "\n"
    array: tuple[Word, ...] | None = None
    own: Mapping[str, Word] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong. `what` is a sentence without an end, `do` what to do about it."""

    path: Path
    spot: Spot
    what: str
    found: str
    expected: str
    do: str


@dataclass(frozen=True)
class Start:
    """A command that starts a job. `family`: whose options it takes, see `options`; `given`: option → the words of its
    value, the last time it is given; `passed`: the names that mpirun's -x passes on; `program`: what it starts, with
    its arguments; `own`: variables in front of the command itself, and of its loop; `behind`: in the background;
    `listed`: how many hosts of its host file it takes, None where there is no such file or it could not be read."""

    family: str
    word: Word
    given: Mapping[str, tuple[Word, ...]]
    passed: tuple[Word, ...]
    program: tuple[Word, ...]
    own: Mapping[str, Word] = field(default_factory=dict)
    behind: bool = False
    listed: int | None = None

    def value(self, *names: str) -> Word | None:
        """The value of the first of these options that is given."""
        return next((self.given[name][0] for name in names if self.given.get(name)), None)

    def number(self, *names: str) -> int | None:
        return number(self.value(*names))


@dataclass(frozen=True)
class Script:
    """`settings`: variables that it sets, to a value that is known; the word is the whole assignment. `host`: where it
    runs, if it is what a script starts by ssh; `remote`: what it starts so itself."""

    path: Path
    commands: tuple[Command, ...]  # with the script's own variables put in
    starts: tuple[Start, ...]
    settings: Mapping[str, tuple[str, Word]]
    host: str = ""
    remote: "tuple[Script, ...]" = ()

    @property
    def name(self) -> str:
        host = self.host[:253]  # as long as a host name may be
        return f"{self.path} on {host}" if host else str(self.path)

    @property
    def of_hosts(self) -> "Iterator[Script]":
        """Those of it that start the job: what it starts elsewhere, and itself where it starts something here."""
        elsewhere = [one for script in self.remote for one in script.of_hosts if one.starts]
        if self.starts or not elsewhere:
            yield self
        yield from elsewhere

    @property
    def words(self) -> Iterator[Word]:
        return (word for command in self.commands for word in command.words)

    def setting(self, name: str, start: Start | None = None) -> tuple[str, Word] | None:
        if start and name in start.own:
            return start.own[name].text, start.own[name]
        return self.settings.get(name)


def number(word: Word | None) -> int | None:
    """The number that a word is; None where it is none, or not known before the script runs."""
    return digits(word.text) if word else None


def digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
