"""Loops of a script: their ends, and the values that they run over as far as the script has them. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from preflight.launch.lint.arithmetic import evaluate
from preflight.launch.lint.expand import Values, known, put_in
from preflight.launch.lint.types import ShellCommand, Word

MOST = 1024  # rounds of a loop
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
_RUN_ONLY = re.compile(r"[$`*?\[]")  # values from the run alone


@dataclass(frozen=True)
class Rounds:
    """The values of a loop's variable `name`, in their order, and the `word` that they come from."""

    name: str
    word: Word
    values: tuple[str, ...]


def head(command: ShellCommand) -> tuple[str, tuple[Word, ...]]:
    """Return the first word of a command behind `do`, `then` and the like, and the words that follow it."""
    words = command.words
    at = next((at for at, word in enumerate(words) if not (word.bare and word.text in _BEFORE)), len(words))
    return (words[at].text, words[at + 1 :]) if at < len(words) and words[at].bare else ("", ())


def ends(commands: Sequence[ShellCommand]) -> Mapping[int, int]:
    """Return the number of a loop's first command → that of its last one."""
    closed: dict[int, int] = {}
    opened: list[int] = []
    for number, command in enumerate(commands):
        word = head(command)[0]
        if word in _LOOPS:
            opened.append(number)
        elif word == "done" and opened:
            closed[opened.pop()] = number
    return closed


def variable(command: ShellCommand) -> str:
    """Return the variable of a loop, empty if it has none."""
    word, operands = head(command)
    if word not in ("for", "select") or not operands:
        return ""
    counting = _COUNTING.fullmatch(operands[0].text)
    return counting["name"] if counting else operands[0].text


def rounds(command: ShellCommand, values: Values, longest: int) -> Rounds | None:
    """Return the rounds of a `for` loop; None where only the run has them, or there are more than MOST."""
    word, operands = head(command)
    if word != "for" or not operands:
        return None
    name = operands[0]
    if counting := _COUNTING.fullmatch(name.text):
        return _counted(counting, name, values)
    if len(operands) < 2 or operands[1].text != "in":
        return None
    listed = _listed(operands[2:], values, longest)
    return None if listed is None else Rounds(name.text, name, tuple(listed))


def braced_variables(command: ShellCommand) -> Word | None:
    """Return the word `{0..$N}` of a loop, which bash does not expand but for $N."""
    word, operands = head(command)
    if word != "for":
        return None
    return next((operand for operand in operands if operand.bare and _BRACED.fullmatch(operand.text)), None)


def _counted(counting: "re.Match[str]", word: Word, values: Values) -> Rounds | None:
    first, last = (evaluate(counting[part], lambda name: known(name, values)) for part in ("first", "last"))
    step = int(counting["step"] or 1)
    if first is None or last is None or not step:
        return None
    numbers = range(first, last + (counting["sign"] == "<="), step)
    return Rounds(counting["name"], word, tuple(map(str, numbers))) if len(numbers) <= MOST else None


def _listed(items: Sequence[Word], values: Values, longest: int) -> list[str] | None:
    """Return the values of a list of words, None where only the run has them, or there are more than MOST."""
    if items and items[0].text.startswith("`"):  # to the reader, several words
        return _sequence(" ".join(item.text for item in items))
    listed: list[str] = []
    for item in items:
        texts = braces(item.text) if item.bare else None
        if texts is None:
            texts = _expanded(item, values, longest)
        if texts is None or len(listed) + len(texts) > MOST:
            return None
        listed += texts
    return listed


def _expanded(item: Word, values: Values, longest: int) -> list[str] | None:
    texts: list[str] = []
    for word in put_in(item, values, longest):
        numbers = _sequence(word.text)
        if numbers is None and _RUN_ONLY.search(word.text):
            return None
        texts += [word.text] if numbers is None else numbers
    return texts


def braces(text: str) -> list[str] | None:
    """Expand `a{0..3}` and `a{0,2}`. Return None for a text without braces, or with more than MOST values."""
    if numbers := _RANGE.fullmatch(text):
        before, behind = numbers[1], numbers[5]
        values = _range(numbers[2], numbers[3], int(numbers[4] or 1) or 1)
    elif choice := _CHOICE.fullmatch(text):
        before, behind = choice[1], choice[3]
        values = choice[2].split(",")
    else:
        return None
    return [f"{before}{value}{behind}" for value in values] if values is not None else None


def _range(first: str, last: str, step: int) -> list[str] | None:
    """Return the numbers of {FIRST..LAST}, with leading zeros if one of the two has them."""
    low, high = int(first), int(last)
    numbers = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
    padded = any(len(text) > 1 and text.startswith("0") for text in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}}" for number in numbers] if len(numbers) <= MOST else None


def _sequence(text: str) -> list[str] | None:
    """Return the numbers that seq prints; None for any other text, or more than MOST of them."""
    call = _SEQ.fullmatch(text)
    if not call:
        return None
    first, step, last = 1, 1, 1
    match [int(number) for number in call[1].split()]:
        case [last]:
            pass
        case [first, last]:
            pass
        case [first, step, last]:
            pass
    numbers = range(first, last + 1, step) if step else None
    return [str(number) for number in numbers] if numbers is not None and len(numbers) <= MOST else None
