"""Loops of a script: where they end, and what they run over, as far as that stands there. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from preflight.launch.lint.arithmetic import worked_out
from preflight.launch.lint.expand import Values, known, put_in
from preflight.launch.lint.types import Command, Word

MOST = 1024  # rounds of a loop that are looked at
_BEFORE = ("do", "then", "else", "elif", "{", "!", "time")
_LOOPS = ("for", "while", "until", "select")
_SEQ = re.compile(r"(?:\$\(|`)\s*seq((?:\s+[0-9]{1,9}){1,3})\s*[)`]")
_COUNTING = re.compile(
    r"\(\(\s*(?P<name>\w+)\s*=(?P<first>[^;]+);\s*(?P=name)\s*(?P<sign><=?)(?P<last>[^;]+);"
    r"\s*(?:(?P=name)\+\+|\+\+(?P=name)|(?P=name)\s*\+=\s*(?P<step>[0-9]{1,9}))\s*\)\)"
)
_RANGE = re.compile(r"([^{}]*)\{([0-9]{1,9})\.\.([0-9]{1,9})(?:\.\.([0-9]{1,9}))?\}([^{}]*)")
_CHOICE = re.compile(r"([^{}]*)\{([^{},]*(?:,[^{},]*)+)\}([^{}]*)")
_BRACED = re.compile(r"\{[^{}\s]{1,40}\.\.\$\{?\w{1,40}\}?\}")
_RUN_ONLY = re.compile(r"[$`*?\[]")  # what only the run tells


@dataclass(frozen=True)
class Rounds:
    """The values that the variable `name` of a loop has one after the other; `word`: where they come from."""

    name: str
    word: Word
    values: tuple[str, ...]


def head(command: Command) -> tuple[str, tuple[Word, ...]]:
    """The word that a command begins with, behind `do`, `then` and the like, and those that follow."""
    words = command.words
    at = next((at for at, word in enumerate(words) if not (word.bare and word.text in _BEFORE)), len(words))
    return (words[at].text, words[at + 1 :]) if at < len(words) and words[at].bare else ("", ())


def ends(commands: Sequence[Command]) -> Mapping[int, int]:
    """The command with which a loop begins → that with which it ends, both by their numbers."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for number, command in enumerate(commands):
        word = head(command)[0]
        if word in _LOOPS:
            opened.append(number)
        elif word == "done" and opened:
            found[opened.pop()] = number
    return found


def variable(command: Command) -> str:
    """The variable of a loop; empty where it has none."""
    word, rest = head(command)
    counting = _COUNTING.fullmatch(rest[0].text) if rest else None
    return (counting["name"] if counting else rest[0].text) if word in ("for", "select") and rest else ""


def rounds(command: Command, values: Values, left: int) -> Rounds | None:
    """The rounds of a `for` loop; None where only the run tells them, or there are more than MOST."""
    word, rest = head(command)
    if word != "for" or not rest:
        return None
    if counting := _COUNTING.fullmatch(rest[0].text):
        return _counted(counting, rest[0], values)
    if len(rest) < 2 or rest[1].text != "in":
        return None
    items = rest[2:]
    if items and items[0].text.startswith("`"):  # whose words stand apart, for the reader
        told = _sequence(" ".join(item.text for item in items))
    else:
        told = _listed(items, values, left)
    return Rounds(rest[0].text, rest[0], tuple(told)) if told is not None and len(told) <= MOST else None


def braced_variables(command: Command) -> Word | None:
    """`{0..$N}` of a loop, which bash leaves as it is but for $N."""
    word, rest = head(command)
    return next((it for it in rest if word == "for" and it.bare and _BRACED.fullmatch(it.text)), None)


def _counted(counting: "re.Match[str]", word: Word, values: Values) -> Rounds | None:
    first, last = (worked_out(counting[part], lambda name: known(name, values)) for part in ("first", "last"))
    step = int(counting["step"] or 1)
    if first is None or last is None or not step:
        return None
    counted = range(first, last + (counting["sign"] == "<="), step)
    return Rounds(counting["name"], word, tuple(map(str, counted))) if len(counted) <= MOST else None


def _listed(items: Sequence[Word], values: Values, left: int) -> list[str] | None:
    told: list[str] = []
    for item in items:
        if item.bare and (written := braces(item.text)) is not None:
            told += written
            continue
        for text in (word.text for word in put_in(item, values, left)):
            numbers = _sequence(text)
            if numbers is None and _RUN_ONLY.search(text):
                return None
            told += [text] if numbers is None else numbers
        if len(told) > MOST:
            return None
    return told


def braces(text: str) -> list[str] | None:
    """`a{0..3}`, `a{0,2}` written out; None for what has none, or more than MOST."""
    if numbers := _RANGE.fullmatch(text):
        first, last, step = int(numbers[2]), int(numbers[3]), int(numbers[4] or 1) or 1
        counted = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
        padded = any(len(one) > 1 and one[0] == "0" for one in (numbers[2], numbers[3]))
        width = max(len(numbers[2]), len(numbers[3])) if padded else 0
        return [f"{numbers[1]}{n:0{width}}{numbers[5]}" for n in counted] if len(counted) <= MOST else None
    choice = _CHOICE.fullmatch(text)
    return [f"{choice[1]}{one}{choice[3]}" for one in choice[2].split(",")] if choice else None


def _sequence(text: str) -> list[str] | None:
    """What seq prints; None for what is no such, or longer than MOST."""
    found = _SEQ.fullmatch(text)
    if not found:
        return None
    numbers = [int(one) for one in found[1].split()]
    first, step, last = (1, 1, *numbers) if len(numbers) == 1 else (numbers[0], 1, numbers[1])
    if len(numbers) == 3:
        first, step, last = numbers
    counted = range(first, last + 1, step) if step else None
    return [str(n) for n in counted] if counted is not None and len(counted) <= MOST else None
