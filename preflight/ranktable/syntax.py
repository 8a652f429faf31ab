"""JSON that people write, rank tables above all: what is wrong with it, and where in the text a value stands."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from preflight.facts.quote import quote
from preflight.ranktable.types import Path, Problem, spelled

_COMMENT = re.compile(r"//|/\*|#")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class NotJsonError(Exception):
    """A text is no JSON: `problem` says why, and where."""

    def __init__(self, why: str, offset: int | None = None) -> None:
        super().__init__(why)
        self.problem = Problem("json", f"it is no JSON: {why}", offset=offset)


def parse(text: str) -> tuple[Any, tuple[Problem, ...]]:
    """The value, and a problem for each key that an object has twice (the last counts). Raises NotJsonError."""
    twice = False

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        object_ = dict(found)
        twice = twice or len(object_) < len(found)
        return object_

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _syntax(text, error) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets in brackets
        raise NotJsonError(quote(str(error))) from None
    return value, tuple(_repeated(text)) if twice else ()


def _no_constant(word: str) -> NoReturn:
    raise NotJsonError(f"{word} is no number there")


def _syntax(text: str, error: json.JSONDecodeError) -> NotJsonError:
    at = error.pos
    while at < len(text) and text[at].isspace():
        at += 1
    before = text[:at].rstrip()
    if not text.strip():
        why = "the file is empty"
    elif text.startswith("\ufeff"):
        why = "it begins with a byte order mark, which not every reader passes over: save it as UTF-8 without one"
    elif _COMMENT.match(text, at):
        why = f"a comment, {quote(text[at:])}: the comments that manuals show must be taken out"
    elif text[at : at + 1] in ("]", "}") and before.endswith(","):
        why, at = "a comma with nothing after it", len(before) - 1
    elif text[at : at + 3] == "...":
        why = "'...': the dots of a manual stand for what is left out there"
    else:
        found = f", found {quote(text[at:])}" if text[at:] else ", and the text ends here"
        why = f"{error.msg[:1].lower()}{error.msg[1:]}{found}"
    return NotJsonError(why, at)


def _walk(text: str) -> Iterator[tuple[Path, int, bool]]:
    """(where, offset, whether it is the value itself, else its key) of everything in a text that is JSON."""
    stack: list[list[str | int]] = []  # a step each
    keyed: list[bool] = []  # whether the innermost are objects
    key_next = False
    for token in _TOKEN.finditer(text):
        word, at = token[0], token.start()
        if word in "]}":
            stack.pop()
            keyed.pop()
        elif word == ",":
            last = stack[-1]
            key_next = keyed[-1]
            if not key_next:
                last[0] = int(last[0]) + 1
        elif word == ":":
            key_next = False
        elif key_next:
            stack[-1][0] = json.loads(word, strict=False)
            yield tuple(step[0] for step in stack), at, False
        else:
            yield tuple(step[0] for step in stack), at, True
            if word in "[{":
                key_next = word == "{"
                keyed.append(key_next)
                stack.append(["" if key_next else 0])


def places(text: str) -> dict[Path, int]:
    """Where each value of a text that is JSON begins: characters from the beginning."""
    return {path: at for path, at, is_value in _walk(text) if is_value}


def _repeated(text: str) -> Iterator[Problem]:
    seen: set[Path] = set()
    twice: set[Path] = set()
    for path, at, is_value in _walk(text):
        if is_value or any(path[:length] in twice for length in range(1, len(path))):
            continue
        if path in seen:
            twice.add(path)
            yield Problem("json", f"{spelled(path)} is given twice; the last one counts", offset=at)
        seen.add(path)


def position(text: str, offset: int) -> tuple[int, int]:
    """(line, column) of a character, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def offset_of(problem: Problem, places: Mapping[Path, int]) -> int:
    """Where a problem stands; `places` are the text's, and may be empty where it has no path."""
    return find(places, problem.path or ()) if problem.offset is None else problem.offset


def find(places: Mapping[Path, int], path: Path) -> int:
    """Where a value stands, or what it is missing from."""
    while path and path not in places:
        path = path[:-1]
    return places.get(path, 0)
