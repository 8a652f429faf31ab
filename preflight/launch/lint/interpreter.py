"""A script's commands in the order in which they run, with variables put in and loops unrolled. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from preflight.launch.lint.expand import Values, assigned, assignment, put_in, value_of
from preflight.launch.lint.loops import Rounds, braced_variables, ends, head, rounds, variable
from preflight.launch.lint.nested_scripts import NestedScript, nested_script
from preflight.launch.lint.reader import TALK, ScriptReader
from preflight.launch.lint.types import ScriptFault, ShellCommand, Word, WordPart

_LONGEST = 1 << 16  # characters that variables may add to a script.
_UNROLLED = 1 << 17  # characters that loops and inner scripts may add.
_SHELL_COST = 64  # characters that reading an inner script counts as
_MOST_OWN = 64  # variables of a round or a shell, since each command keeps them
_BRANCHES = {"if": 1, "case": 1, "fi": -1, "esac": -1}
_TESTS = ("[", "[[", "test", "grep")
_DEEPEST = 6  # loops, and scripts within scripts


@dataclass
class Budget:
    """The characters that a script may still grow by, with all its inner scripts together."""

    variables: int = _LONGEST
    loops: int = _UNROLLED


@dataclass
class Flow:
    """A script's commands in the order in which they run.

    `values` has the variables at the end of the script. `settings` has those with one value throughout. `remote` has
    the scripts that ssh starts, each with its host.
    """

    path: Path
    budget: Budget = field(default_factory=Budget)
    depth: int = 0
    commands: list[ShellCommand] = field(default_factory=list)
    settings: dict[str, tuple[str, Word]] = field(default_factory=dict)
    remote: "list[tuple[str, Flow]]" = field(default_factory=list)
    faults: list[ScriptFault] = field(default_factory=list)
    values: Values = field(default_factory=dict)

    def read(self, text: str, parts: Sequence[WordPart] = (), own: dict[str, Word] | None = None) -> "Flow":
        """Read a script. `own` has the variables of a shell within a script, and is None for a script by itself."""
        reader = ScriptReader(text, self.path, parts)
        commands = reader.commands()
        self.faults += reader.faults
        _Interpreter(self, commands).run(0, len(commands), own, 0)
        return self


class _Interpreter:
    """An interpreter of a script's commands, which writes to a flow."""

    def __init__(self, flow: Flow, commands: Sequence[ShellCommand]) -> None:
        self._flow, self._commands, self._ends = flow, commands, ends(commands)
        self._costs = [0]
        for command in commands:
            self._costs.append(self._costs[-1] + 16 + _length(command.words))
        self._forgotten = 0  # the command up to which the variables of loops are marked as unknown

    def run(self, begin: int, end: int, own: dict[str, Word] | None, depth: int) -> None:
        """Run the commands from `begin` to `end`, in a loop of this depth and with its own variables."""
        at, branches = begin, 0
        while at < end:
            command = self._commands[at]
            branches += _BRANCHES.get(head(command)[0], 0)
            loop = self._rounds(at, depth)
            self._simple(command, own, certain=own is not None and not branches and not self._is_conditional(at))
            if loop:
                self._unroll(loop, at, dict(own or {}), depth)
            if at in self._ends and (branches or not loop):
                self._forget(at)
            at = self._ends[at] + 1 if loop else at + 1

    def _unroll(self, loop: Rounds, at: int, own: dict[str, Word], depth: int) -> None:
        spot = loop.word.spot
        for value in loop.values:
            self._flow.values[loop.name] = Word(spot, (WordPart(value, "", spot, put=True),))
            self.run(at + 1, self._ends[at], own, depth + 1)

    def _is_conditional(self, at: int) -> bool:
        """Return whether a command depends on a test: `test && A=1`, `x || A=1`, but not `cd folder && A=1`."""
        before = self._commands[at - 1] if at else ShellCommand(())
        return before.end == "||" or (before.end == "&&" and head(before)[0] in _TESTS)

    def _rounds(self, at: int, depth: int) -> Rounds | None:
        """Return the rounds of a loop that is short enough to be unrolled."""
        budget = self._flow.budget
        if at not in self._ends or depth >= _DEEPEST or budget.loops <= 0:
            return None
        loop = rounds(self._commands[at], self._flow.values, budget.variables)
        if loop is None:
            return None
        cost = len(loop.values) * (self._costs[self._ends[at]] - self._costs[at + 1])
        affordable = cost <= budget.loops
        budget.loops -= cost if affordable else len(loop.values)
        return loop if affordable else None

    def _forget(self, at: int) -> None:
        """Mark the variables as unknown that the rounds of a loop may set to different values."""
        if name := variable(self._commands[at]):
            self._set_unknown(name)
        if at < self._forgotten:
            return
        self._forgotten = self._ends[at]
        for command in self._commands[at + 1 : self._forgotten]:
            for name, word in assigned(_without_do(command.words)):
                if "$" in word.text or "`" in word.text:
                    self._set_unknown(name)

    def _set_unknown(self, name: str) -> None:
        self._flow.values[name] = None
        self._flow.settings.pop(name, None)

    def _simple(self, command: ShellCommand, own: dict[str, Word] | None, *, certain: bool) -> None:
        """Run a simple command. A `certain` one always runs, so that its variables have their last value."""
        flow = self._flow
        if braced := braced_variables(command):
            flow.faults.append(_runs_once(flow.path, braced))
        words = self._put_in(command.words)
        flow.budget.variables = max(0, flow.budget.variables - max(0, _length(words) - _length(command.words)))
        inner = None if _talks(words) or flow.depth >= _DEEPEST else nested_script(words)
        flow.commands.append(replace(command, words=inner.outside if inner else words, own=dict(own or {})))
        if inner:
            self._read_inner(inner, words, command.end, own)
        for name, word in assigned(_without_do(words)):
            if command.array is None:
                self._assign(name, word, own, certain=certain)
            else:
                self._assign_array(name, command.array, own, certain=certain)

    def _put_in(self, words: Sequence[Word]) -> tuple[Word, ...]:
        values, longest = self._flow.values, self._flow.budget.variables
        return tuple(piece for word in words for piece in put_in(word, values, longest))

    def _assign(self, name: str, word: Word, own: dict[str, Word] | None, *, certain: bool) -> None:
        flow, value = self._flow, value_of(word)
        same = name not in flow.values or flow.settings.get(name, ("",))[0] == value
        flow.values[name] = word if same or certain else None
        if same:
            flow.settings[name] = (value, word)
        else:
            flow.settings.pop(name, None)
        if own is not None:
            own.pop(name, None)
            if (same or certain) and len(own) < _MOST_OWN:
                own[name] = Word(word.spot, (WordPart(value),))

    def _assign_array(self, name: str, elements: Sequence[Word], own: dict[str, Word] | None, *, certain: bool) -> None:
        flow = self._flow
        value = self._put_in(elements)
        first = name not in flow.values
        flow.values[name] = value if first or certain else None
        if not first:
            flow.settings.pop(name, None)
        if own is not None:
            own.pop(name, None)

    def _read_inner(self, inner: NestedScript, words: Sequence[Word], end: str, own: Mapping[str, Word] | None) -> None:
        """Read the script in a command: as another script for another host, else as a part of this one."""
        flow = self._flow
        text = "".join(part.text for part in inner.parts)
        flow.budget.loops -= _SHELL_COST + len(text)
        if flow.budget.loops < 0:
            return
        within = Flow(flow.path, flow.budget, flow.depth + 1)
        if inner.host:
            flow.remote.append((inner.host, within.read(text, inner.parts)))
            flow.faults += within.faults
            return
        before = {pair[0]: Word(word.spot, (WordPart(pair[1]),)) for word in words if (pair := assignment(word))}
        within.read(text, inner.parts, {**(own or {}), **before})
        if end == "&" and within.commands:
            within.commands[-1] = replace(within.commands[-1], end=end)
        flow.commands += within.commands
        flow.remote += within.remote
        flow.faults += within.faults


def _runs_once(path: Path, word: Word) -> ScriptFault:
    first, _, last = word.text[1:-1].partition("..")
    message = f"bash expands {word.text} before variables, so the loop runs only once"
    return ScriptFault(
        path, word.spot, message, word.text, f"$(seq {first} {last})", f"count with $(seq {first} {last})"
    )


def _length(words: Sequence[Word]) -> int:
    return sum(len(word.text) for word in words)


def _without_do(words: Sequence[Word]) -> Sequence[Word]:
    return words[1:] if words and words[0].bare and words[0].text == "do" else words


def _talks(words: Sequence[Word]) -> bool:
    return bool(words) and words[0].text.rpartition("/")[2] in TALK
