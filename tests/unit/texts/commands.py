"""Commands and options of preflight in texts, tried with its own parsers."""

import argparse
import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import cache

from gate.main import GateUsageError, parse_arguments

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import select
from preflight.cli.commands.explain import find
from preflight.cli.main import parser
from preflight.cli.parser import Parser
from preflight.facts.parsers.registry import PARSERS
from preflight.lab.faults import FAULTS
from preflight.lab.firewalls import FIREWALLS
from preflight.lab.settings import SETTINGS
from preflight.lab.spec import FABRICS, PRODUCTS
from preflight.model.errors import UsageError
from tests.unit.texts.passages import HOLE, Kind, Mistake, Passage, mistake
from tests.unit.texts.places import NO_CHECKS

_CALL = re.compile(r"(?<![\w./@-])(?<!--comment )preflight[ \n]+(?=[a-z\[-])")
_RUN = re.compile(r"^run (?=[a-z])")  # a function of playbooks/demo.sh that shows and runs a command
_PLACEHOLDER = re.compile(r"\[?[A-Z][A-Z0-9_-]*\]?(?:=[A-Z]+)?")
_CHECK_ID = re.compile(r"[A-Z]{3}\d{3}")
# Where a command ends: at a sign of the shell, or of the sentence around it.
_END_OF_CODE = re.compile(r"\s*(?:[;|&]|\d?>|<(?!\w+>)|\)$|,\s|\s[(#]|\s{2,}|$)")
_END_OF_PROSE = re.compile(r"\s*(?:[;|()\"“”→—、。，；：]|&&|[,.:…](?=\s|$)|\s[#>]\s|$)")
# What comes before a command that stands there to be typed.
_BEGINS = re.compile(r"(?:^|[|;&(]|->|\b(?:next|fix|retest|again|by|then|do|if|salloc [^|;]*):?)\s*(?:\$ )?$")
_VERB = re.compile(r"(?:e?s|e?d|ing)$")
_CANDIDATES = (
    "1",
    "10",
    "60",
    "node01",
    "hosts.toml",
    "0-1",
    "10m",
    "60s",
    "8,1M",
    "pair",
    "ports",
    "main",
    "atlas-a2",
)


@cache
def the_parser() -> Parser:
    """Return the parser of the whole command line, the modules of all commands loaded."""
    whole = parser()
    commands: list[argparse.ArgumentParser] = [whole]
    while commands:
        command = commands.pop()
        if isinstance(command, Parser):
            command.load()
        commands += _subcommands(command).values()
    return whole


def _subcommands(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in command._actions:  # argparse has no public way to them
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def options_of(path: Iterable[str]) -> frozenset[str]:
    """Return the long options of a command and of all below it; of no words: those of all commands."""
    command: argparse.ArgumentParser = the_parser()
    for word in path:
        command = _subcommands(command)[word]
    below = (options_of([*path, name]) for name in _subcommands(command))
    return frozenset(command._option_string_actions).union(*below)


def mistakes_in_commands(passage: Passage) -> Iterator[Mistake]:
    """Yield each command of a passage that the parser refuses."""
    for call in _calls(passage):
        snippet, code = _snippet(passage, call)
        if reason := refusal(_split(snippet)[1:], passage.kind if code else Kind.PROSE):
            yield mistake(passage, snippet, reason)


def _calls(passage: Passage) -> Iterator[re.Match[str]]:
    yield from _CALL.finditer(passage.words)
    if passage.path.endswith(".sh") and passage.kind is Kind.LINE:
        yield from _RUN.finditer(passage.words)


def commands_in(passage: Passage) -> list[str]:
    """Return the commands of a passage as they are written."""
    return [_snippet(passage, call)[0] for call in _calls(passage)]


def without_commands(passage: Passage) -> str:
    """Return the words of a passage with its commands blanked out."""
    words = passage.words
    for snippet in commands_in(passage):
        words = words.replace(snippet, HOLE)
    return words


def _snippet(passage: Passage, call: re.Match[str]) -> tuple[str, bool]:
    """Return a command's text up to its end, and whether it is code."""
    code = passage.kind is Kind.SPAN or (
        passage.kind is Kind.LINE and bool(_BEGINS.search(passage.words[: call.start()]))
    )
    ends = _END_OF_PROSE if passage.kind is Kind.PROSE else _END_OF_CODE
    end = ends.search(passage.words, call.end())
    return passage.words[call.start() : end.start() if end else None], code


def _split(snippet: str) -> list[str]:
    """Return the words of a command; the brackets of "[-o FILE]" are left out."""
    try:
        words = shlex.split(snippet)
    except ValueError:
        words = snippet.split()
    words = [word[1:] if word.startswith("[-") else word for word in words]
    return [word[:-1] if word.endswith("]") and "[" not in word else word for word in words]


class _RefusedError(Exception):
    """A word of a command that the parser does not take."""


class _StoppedError(Exception):
    """The end of a command within a sentence, or a part of which nothing is known."""


class _Attempt:
    """A command that is filled in word by word, so that the parser can be asked."""

    def __init__(self, words: list[str], kind: Kind) -> None:
        self.words = words
        self.kind = kind
        self.command: argparse.ArgumentParser = the_parser()
        self.filled: list[str] = []
        self.positionals: list[argparse.Action] = []

    def run(self) -> None:
        """Take all words. Raises _RefusedError."""
        with contextlib.suppress(_StoppedError):
            while self.words:
                self._take(self.words.pop(0))
        if self.command is not the_parser():
            self._complete()

    def _take(self, word: str) -> None:
        if word in ("…", "..."):
            self.kind = Kind.SPAN  # the author leaves something out
        elif word == "--":
            self.filled += [word, *self.words]
            self.words = []
            self.positionals = [action for action in self.positionals if action.nargs not in ("*", "...")]
        elif re.match(r"--?[A-Za-z]", word):
            self._take_option(word)
        elif _subcommands(self.command) and HOLE not in word:
            self._take_subcommand(word)
        else:
            self._take_positional(word)

    def _take_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if HOLE in name or name in ("--…", "-…"):
            return
        action = self.command._option_string_actions.get(name)
        if action is None:
            raise _RefusedError(f"{self.command.prog} has no option {name}")
        if action.nargs == 0:
            self.filled.append(word)
        elif equals:
            self.filled.append(f"{name}={_value(action, value)}")
        else:
            self.filled.append(name)
            self._take_values(action)

    def _take_values(self, action: argparse.Action) -> None:
        several = action.nargs in ("*", "+")
        taken = 0
        while self.words and not re.match(r"--?[A-Za-z]", self.words[0]) and (several or not taken):
            self.filled.append(_value(action, self.words.pop(0)))
            taken += 1
        if not taken and self.kind is not Kind.LINE:
            self.filled.append(_dummy(action))

    def _take_subcommand(self, word: str) -> None:
        choices = _subcommands(self.command)
        if word in choices:
            self.command = choices[word]
            self.filled.append(word)
            self.positionals = [action for action in self.command._actions if _is_positional(action)]
            return
        if word.endswith("…") and any(name.startswith(word[:-1]) for name in choices):
            raise _StoppedError  # a line that is cut off
        close = get_close_matches(word, choices, 1, 0.75)
        is_verb = bool(close) and word.startswith(close[0][:-1]) and bool(_VERB.search(word))
        if self.kind is not Kind.PROSE or (close and not is_verb):
            raise _RefusedError(f"{self.command.prog} has no command {word}")
        raise _StoppedError

    def _take_positional(self, word: str) -> None:
        if self.command is the_parser():
            raise _StoppedError  # "preflight {}": whichever command it is
        if self.positionals:
            if self.kind is Kind.PROSE and not _is_placeholder(word):
                raise _StoppedError
            self.filled.append(_value(self.positionals[0], word))
            if self.positionals[0].nargs not in ("*", "+", "..."):
                del self.positionals[0]
        elif HOLE not in word:
            if self.kind is Kind.PROSE:
                raise _StoppedError
            raise _RefusedError(f"{self.command.prog} takes no {word!r}")

    def _complete(self) -> None:
        """Add what a mention leaves out; a line that is to be typed has to be whole."""
        if self.kind is not Kind.LINE:
            given = set(self.filled)
            for action in self.command._actions:
                if action.required and action.option_strings and not given & set(action.option_strings):
                    self.filled += [action.option_strings[-1], _dummy(action)]
            missing = [_dummy(action) for action in self.positionals if action.nargs is None]
            self.filled += missing
            if not missing and _subcommands(self.command) and _needs_subcommand(self.command):
                self.filled = []  # "preflight lab": the name of a family


def _is_positional(action: argparse.Action) -> bool:
    return not action.option_strings and not isinstance(action, argparse._SubParsersAction)


def _needs_subcommand(command: argparse.ArgumentParser) -> bool:
    return any(isinstance(action, argparse._SubParsersAction) and action.required for action in command._actions)


def _is_placeholder(word: str) -> bool:
    if _CHECK_ID.fullmatch(word):
        return False
    is_open = bool(set(word) & {HOLE, "$", "…", "{"}) or "..." in word or word.startswith("<")
    return is_open or bool(_PLACEHOLDER.fullmatch(word))


def _value(action: argparse.Action, word: str) -> str:
    """Return a value as it is written, or one that fits where a placeholder stands."""
    if action.dest in ("only", "skip", "ignore") and HOLE not in word and word != "ID":
        return word  # areas and beginnings of ids look like placeholders
    return _dummy(action) if _is_placeholder(word) else word


def _dummy(action: argparse.Action) -> str:
    if action.choices:
        return str(next(iter(action.choices)))
    convert = action.type
    if not callable(convert):
        return HOLE
    for candidate in _CANDIDATES:
        with contextlib.suppress(ValueError, argparse.ArgumentTypeError):
            convert(candidate)
            return candidate
    raise AssertionError(f"no candidate fits {action.dest}")


def refusal(words: list[str], kind: Kind = Kind.LINE) -> str:
    """Return why the parser refuses the words of a command behind "preflight", or nothing."""
    attempt = _Attempt(list(words), kind)
    try:
        attempt.run()
    except _RefusedError as refused:
        return str(refused)
    return _parsed(tuple(attempt.filled)) if attempt.filled else ""


@cache
def _parsed(filled: tuple[str, ...]) -> str:
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message), contextlib.redirect_stdout(io.StringIO()):
            arguments = the_parser().parse_args(list(filled))
    except SystemExit as ended:
        return message.getvalue().strip().removeprefix("preflight: ") if ended.code else ""
    return next(filter(None, _names_of(arguments)), "")


def _names_of(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what is wrong with values that the commands themselves judge, not their parsers."""
    command = " ".join(filter(None, (arguments.command, getattr(arguments, "action", None))))
    for name, judge in _JUDGES.items():
        where, _, key = name.rpartition(" ")
        value = getattr(arguments, key, None)
        if where == command and isinstance(value, str | list):
            yield from (judge(word) for word in ([value] if isinstance(value, str) else value) if HOLE not in word)


def _checks(words: str) -> str:
    try:
        select(all_checks(), words.split(","))
    except UsageError as error:
        return str(error)
    return ""


def _explained(word: str) -> str:
    if word in NO_CHECKS:
        return ""
    try:
        find(word)
    except UsageError as error:
        return str(error)
    return ""


def _in(names: Iterable[str], what: str) -> Callable[[str], str]:
    known = frozenset(names)
    return lambda word: "" if word in known else f"there is no {what} {word}"


_JUDGES: dict[str, Callable[[str], str]] = {
    "check only": _checks,
    "check skip": _checks,
    "check ignore": _checks,
    "explain id": _explained,
    "parse parser": _in(PARSERS, "parser"),
    "lab up product": _in(PRODUCTS, "product"),
    "lab up firewall": _in(FIREWALLS, "firewall"),
    "lab up fabric": _in(FABRICS, "fabric"),
    "lab break name": _in((fault.name for fault in FAULTS), "fault"),
    "lab fix name": _in((fault.name for fault in FAULTS), "fault"),
    "lab set name": _in(SETTINGS, "setting"),
}


# The program that stands on the hosts, with what is typed behind it.
_GATE = re.compile(r"(?<![\w-])preflight-gate((?: (?:-[a-z-]+|[a-z]+(?![\w:])))+)")


def mistakes_in_gate_commands(passage: Passage) -> Iterator[Mistake]:
    """Yield each call of preflight-gate that it refuses; its first word is an option."""
    for call in _GATE.finditer(passage.words):
        words = call[1].split()
        try:
            if words[0].startswith("-"):
                parse_arguments(words, {})
        except GateUsageError as error:
            yield mistake(passage, call[0], str(error))
