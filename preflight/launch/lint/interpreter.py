"""What a script does, in order: its variables put in, its loops written out, and the scripts within it read. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from preflight.launch.lint.expand import Values, assigned, assignment, put_in, value_of
from preflight.launch.lint.loops import Rounds, braced_variables, ends, head, rounds, variable
from preflight.launch.lint.nested_scripts import Nested, nested
from preflight.launch.lint.reader import TALK, Reader
from preflight.launch.lint.types import Command, Fault, Part, Word

_LONGEST = 1 << 16  # characters that variables may make a script grow by
_WRITTEN_OUT = 1 << 17  # characters, and some a command, that loops and scripts within scripts may
_A_SHELL = 64  # characters that reading another script is like
_MOST_OWN = 64  # variables of a round or a shell, since each command keeps them
_TESTS = ("[", "[[", "test", "grep")
_DEEPEST = 6  # loops, and scripts within scripts


@dataclass
class Budget:
    """What may still be made of a script; of all that stands in it together."""

    variables: int = _LONGEST
    loops: int = _WRITTEN_OUT


@dataclass
class Flow:
    """A script's commands as they are run. `values`: of variables, as they are at the end; `settings`: of those that
    have one and the same all the time; `remote`: what ssh starts, and on which host."""

    path: Path
    budget: Budget = field(default_factory=Budget)
    depth: int = 0
    commands: list[Command] = field(default_factory=list)
    settings: dict[str, tuple[str, Word]] = field(default_factory=dict)
    remote: "list[tuple[str, Flow]]" = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    values: Values = field(default_factory=dict)

    def read(self, text: str, parts: Sequence[Part] = (), own: Mapping[str, Word] | None = None) -> "Flow":
        """`own`: variables of a shell within the script; None for a script of its own. Its commands have no others."""
        reader = Reader(text, self.path, parts)
        commands = reader.commands()
        self.faults += reader.faults
        _Run(self, commands).all(own)
        return self


class _Run:
    """One reading of a script's commands."""

    def __init__(self, flow: Flow, commands: Sequence[Command]) -> None:
        self._flow, self._commands, self._ends = flow, commands, ends(commands)
        self._costs = [0]
        for command in commands:
            self._costs.append(self._costs[-1] + 16 + sum(len(word.text) for word in command.words))
        self._unknown = 0  # the command up to which what loops set is known to be unknown

    def all(self, own: Mapping[str, Word] | None) -> None:
        self._some(0, len(self._commands), dict(own) if own is not None else None, 0)

    def _some(self, begin: int, end: int, own: dict[str, Word] | None, depth: int) -> None:
        at, branches = begin, 0
        while at < end:
            command = self._commands[at]
            word = head(command)[0]
            branches += (word in ("if", "case")) - (word in ("fi", "esac"))
            if braced := braced_variables(command):
                self._flow.faults.append(_runs_once(self._flow.path, braced))
            found = self._rounds(at, depth) if at in self._ends else None
            self._one(command, own, certain=own is not None and not branches and not self._may_be_left_out(at))
            if found:
                rest = dict(own or {})
                for value in found.values:
                    self._flow.values[found.name] = Word(found.word.spot, (Part(value, "", found.word.spot, put=True),))
                    self._some(at + 1, self._ends[at], rest, depth + 1)
            if at in self._ends and (branches or not found):
                self._forget(at)
            at = self._ends[at] + 1 if found else at + 1

    def _may_be_left_out(self, at: int) -> bool:
        """`test && A=1`, `x || A=1`: other than with `cd folder && A=1`, what follows does not count on it."""
        before = self._commands[at - 1] if at else Command(())
        return before.end == "||" or (before.end == "&&" and head(before)[0] in _TESTS)

    def _rounds(self, at: int, depth: int) -> Rounds | None:
        """Those of a loop that can be written out."""
        budget = self._flow.budget
        if depth >= _DEEPEST or budget.loops <= 0:
            return None
        found = rounds(self._commands[at], self._flow.values, budget.variables)
        if found is None:
            return None
        cost = len(found.values) * (self._costs[self._ends[at]] - self._costs[at + 1])
        affordable = cost <= budget.loops
        budget.loops -= cost if affordable else len(found.values)
        return found if affordable else None

    def _forget(self, at: int) -> None:
        """What the rounds of a loop make of variables is not known, but where each makes the same of them."""
        if name := variable(self._commands[at]):
            self._set(name, None)
        if at < self._unknown:
            return
        self._unknown = self._ends[at]
        for command in self._commands[at + 1 : self._unknown]:
            for name, word in assigned(_without_do(command.words)):
                if "$" in word.text or "`" in word.text:
                    self._set(name, None)

    def _set(self, name: str, word: Word | None) -> None:
        self._flow.values[name] = word
        if word is None:
            self._flow.settings.pop(name, None)

    def _one(self, command: Command, own: dict[str, Word] | None, *, certain: bool) -> None:
        """`certain`: it is run for sure, after all that stands before it, so that variables have their last value."""
        flow = self._flow
        words = tuple(put for word in command.words for put in put_in(word, flow.values, flow.budget.variables))
        flow.budget.variables = max(0, flow.budget.variables - max(0, _length(words) - _length(command.words)))
        inner = None if _talks(words) or flow.depth >= _DEEPEST else nested(words)
        flow.commands.append(replace(command, words=inner.outside if inner else words, own=dict(own or {})))
        if inner:
            self._within(inner, words, command.end, own)
        for name, word in assigned(_without_do(words)):
            self._assign(name, word, command.array, own, certain=certain)

    def _assign(
        self, name: str, word: Word, array: Sequence[Word] | None, own: dict[str, Word] | None, *, certain: bool
    ) -> None:
        flow = self._flow
        value: Word | tuple[Word, ...] = word
        if array is not None:
            value = tuple(put for element in array for put in put_in(element, flow.values, flow.budget.variables))
        first = name not in flow.values
        same = first or (array is None and flow.settings.get(name, ("",))[0] == value_of(word))
        flow.values[name] = value if same or certain else None
        if not same:
            flow.settings.pop(name, None)
        elif array is None:
            flow.settings[name] = (value_of(word), word)
        if own is not None:
            own.pop(name, None)
            if array is None and (same or certain) and len(own) < _MOST_OWN:
                own[name] = Word(word.spot, (Part(value_of(word)),))

    def _within(self, inner: Nested, words: Sequence[Word], end: str, own: Mapping[str, Word] | None) -> None:
        """Read the script in a command: on another host by itself, else as a part of this one."""
        flow = self._flow
        text = "".join(part.text for part in inner.parts)
        flow.budget.loops -= _A_SHELL + len(text)
        if flow.budget.loops < 0:
            return
        within = Flow(flow.path, flow.budget, flow.depth + 1)
        if inner.host:
            flow.remote.append((inner.host, within.read(text, inner.parts)))
            flow.faults += within.faults
            return
        before = {read[0]: Word(word.spot, (Part(read[1]),)) for word in words if (read := assignment(word))}
        within.read(text, inner.parts, {**(own or {}), **before})
        if end == "&" and within.commands:
            within.commands[-1] = replace(within.commands[-1], end=end)
        flow.commands += within.commands
        flow.remote += within.remote
        flow.faults += within.faults


def _runs_once(path: Path, word: Word) -> Fault:
    first, _, last = word.text[1:-1].partition("..")
    return Fault(
        path, word.spot, f"bash writes {word.text} out before it puts variables in: the loop runs once", word.text,
        f"$(seq {first} {last})", f"count with $(seq {first} {last})",
    )  # fmt: skip


def _length(words: Sequence[Word]) -> int:
    return sum(len(word.text) for word in words)


def _without_do(words: Sequence[Word]) -> Sequence[Word]:
    return words[1:] if words and words[0].bare and words[0].text == "do" else words


def _talks(words: Sequence[Word]) -> bool:
    return bool(words) and words[0].text.rpartition("/")[2] in TALK
