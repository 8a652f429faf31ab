"""JSON with the offset of every value, and a sentence for each of the usual mistakes in files that people write."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from preflight.model.text import quote
from preflight.ranktable.types import Path, TableProblem, format_path

_COMMENT = re.compile(r"//|/\*|#")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class NotJsonError(Exception):
    """A text is not JSON. `problem` has the reason and the place."""

    def __init__(self, why: str, offset: int | None = None) -> None:
        super().__init__(why)
        self.problem = TableProblem("json", f"not valid JSON: {why}", offset=offset)


def parse(text: str) -> tuple[Any, tuple[TableProblem, ...]]:
    """Return the value, and a problem for each repeated key of an object (the last counts). Raises NotJsonError."""
    repeated = False

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        members = dict(pairs)
        repeated = repeated or len(members) < len(pairs)
        return members

    try:
        value = json.loads(text, object_pairs_hook=to_object, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise _explain(text, error) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets in brackets
        raise NotJsonError(quote(str(error))) from None
    return value, tuple(_repeated_keys(text)) if repeated else ()


def places(text: str) -> dict[Path, int]:
    """Return the offset in characters of each value of a JSON text."""
    return {path: offset for path, offset, is_value in _walk(text) if is_value}


def offset_at(places: Mapping[Path, int], path: Path) -> int:
    """Return the offset of a value, or of the object or list from which it is missing."""
    while path and path not in places:
        path = path[:-1]
    return places.get(path, 0)


def offset_of(problem: TableProblem, places: Mapping[Path, int]) -> int:
    """Return the offset of a problem. `places` may be empty if it has no path."""
    return offset_at(places, problem.path or ()) if problem.offset is None else problem.offset


def position(text: str, offset: int) -> tuple[int, int]:
    """Return (line, column) of a character, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _reject_constant(word: str) -> NoReturn:
    raise NotJsonError(f"{word} is not a JSON number")


def _explain(text: str, error: json.JSONDecodeError) -> NotJsonError:
    offset = len(text) - len(text[error.pos :].lstrip())
    before, after = text[:offset].rstrip(), text[offset:]
    if not text.strip():
        why = "the file is empty"
    elif text.startswith("\ufeff"):
        why = "the file begins with a byte order mark, which some readers reject. Save it as UTF-8 without this mark"
    elif _COMMENT.match(after):
        why = f"JSON has no comments. Remove {quote(after)}"
    elif after.startswith(("]", "}")) and before.endswith(","):
        why, offset = "nothing follows the comma", len(before) - 1
    elif after.startswith("..."):
        why = "'...' is a placeholder for values. Write all values"
    else:
        actual = f", found {quote(after)}" if after else ", but the text ends here"
        why = f"{error.msg[:1].lower()}{error.msg[1:]}{actual}"
    return NotJsonError(why, offset)


def _walk(text: str) -> Iterator[tuple[Path, int, bool]]:
    """Yield path and offset of every key (False) and value (True) in a text that is JSON."""
    path: list[str | int] = []
    in_object: list[bool] = []  # for each step of the path
    key_next = False
    for token in _TOKEN.finditer(text):
        word, offset = token[0], token.start()
        if word in "]}":
            path.pop()
            in_object.pop()
        elif word == ",":
            key_next = in_object[-1]
            if not key_next:
                path[-1] = int(path[-1]) + 1
        elif word == ":":
            key_next = False
        elif key_next:
            path[-1] = json.loads(word, strict=False)
            yield tuple(path), offset, False
        else:
            yield tuple(path), offset, True
            if word in "[{":
                key_next = word == "{"
                in_object.append(key_next)
                path.append("" if key_next else 0)


def _repeated_keys(text: str) -> Iterator[TableProblem]:
    """Yield a problem for each key that its object has already, but not for those inside a repeated value."""
    keys: set[Path] = set()
    repeated: set[Path] = set()
    for path, offset, is_value in _walk(text):
        if is_value or any(path[:length] in repeated for length in range(1, len(path))):
            continue
        if path in keys:
            repeated.add(path)
            yield TableProblem("json", f"{format_path(path)} occurs twice. The last value counts", offset=offset)
        keys.add(path)
