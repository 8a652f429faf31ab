"""A start script as it was read, and its faults."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class ScriptSpot:
    """A place in a file: line and column, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class WordPart:
    """A piece of a word, with the kind of quote around it, if any.

    `spot` is where the piece begins in the file. A piece that is `put` in is the value of a variable, and all its
    characters are at that spot.
    """

    text: str
    quote: str = ""
    spot: ScriptSpot | None = field(default=None, compare=False)
    put: bool = field(default=False, compare=False)

    @property
    def literal(self) -> bool:
        """Return whether the shell leaves a $ in it as it is."""
        return self.quote in ("'", "\\")


@dataclass(frozen=True)
class Word:
    """A word of the shell, without its quotes."""

    spot: ScriptSpot
    parts: tuple[WordPart, ...]

    @cached_property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    @property
    def bare(self) -> bool:
        """Return whether no piece of it is quoted."""
        return not any(part.quote for part in self.parts)


@dataclass(frozen=True)
class ShellCommand:
    """A simple command.

    `end` is the newline or operator that ends it, empty at the end of the file. `array` has the elements where the last
    word is `NAME=(`. `own` has the variables of its loop round or inner shell, besides those of the script.
    """

    words: tuple[Word, ...]
    end: str = "\n"
    array: tuple[Word, ...] | None = None
    own: Mapping[str, Word] = field(default_factory=dict)


@dataclass(frozen=True)
class ScriptFault:
    """A fault of a script. `what` is a sentence without a full stop, `do` is the fix."""

    path: Path
    spot: ScriptSpot
    what: str
    found: str
    expected: str
    do: str


@dataclass(frozen=True)
class JobStart:
    """A command that starts a job.

    `family` names the set of options, see `options`. `given` maps an option to the words of its last value. `passed`
    has the names that mpirun's -x passes on. `program` is the started program with its arguments. `own` has the
    variables in front of the command and of its loop. `behind` means in the background. `listed` is the number of
    hosts that it takes of its host file, None without a readable file.
    """

    family: str
    word: Word
    given: Mapping[str, tuple[Word, ...]]
    passed: tuple[Word, ...]
    program: tuple[Word, ...]
    own: Mapping[str, Word] = field(default_factory=dict)
    behind: bool = False
    listed: int | None = None

    def value(self, *names: str) -> Word | None:
        """Return the value of the first of these options that is given."""
        return next((self.given[name][0] for name in names if self.given.get(name)), None)

    def number(self, *names: str) -> int | None:
        """Return that value as a number; None if it is none before the script runs."""
        value = self.value(*names)
        return digits(value.text) if value else None

    @property
    def hosts(self) -> Word | None:
        """Return the list of hosts in its options, for MPI and perseusrun."""
        return self.value("H", "host", "hosts") if self.family in ("mpi", "perseus") else None


@dataclass(frozen=True)
class Script:
    """A script with its own variables put in.

    `settings` maps a variable with one known value to that value and the word of its assignment. `host` is where the
    script runs, if ssh starts it. `remote` has the scripts that it starts by ssh itself.
    """

    path: Path
    commands: tuple[ShellCommand, ...]
    starts: tuple[JobStart, ...]
    settings: Mapping[str, tuple[str, Word]]
    host: str = ""
    remote: "tuple[Script, ...]" = ()

    @property
    def name(self) -> str:
        host = self.host[:253]  # the longest host name
        return f"{self.path} on {host}" if host else str(self.path)

    @property
    def of_hosts(self) -> "Iterator[Script]":
        """Yield the scripts that start the job: those on other hosts, and this one if it starts a rank here."""
        elsewhere = [inner for script in self.remote for inner in script.of_hosts if inner.starts]
        if self.starts or not elsewhere:
            yield self
        yield from elsewhere

    @property
    def words(self) -> Iterator[Word]:
        return (word for command in self.commands for word in command.words)

    def setting(self, name: str, start: JobStart | None = None) -> tuple[str, Word] | None:
        """Return value and place of a variable, for one command or for the script."""
        if start and name in start.own:
            return start.own[name].text, start.own[name]
        return self.settings.get(name)

    def number(self, name: str, start: JobStart | None = None) -> int | None:
        """Return a variable's value as a number; None if it is none."""
        setting = self.setting(name, start)
        return digits(setting[0]) if setting else None

    def fault(self, word: Word, message: str, found: str, expected: str, do: str) -> ScriptFault:
        """Return a fault at a word of this script."""
        return ScriptFault(self.path, word.spot, message, found, expected, do)


def digits(text: str) -> int | None:
    """Return a text of decimal digits as a number, None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def first_ten(numbers: list[int]) -> str:
    """Return the first ten of these numbers as a list for a sentence."""
    return ", ".join(map(str, numbers[:10])) + ("…" if len(numbers) > 10 else "")
