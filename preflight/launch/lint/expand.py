"""A script's own variables, put in where they are used. Uses with a value from the run alone stay as written. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from preflight.launch.lint.arithmetic import evaluate
from preflight.launch.lint.source_map import behind
from preflight.launch.lint.types import ScriptSpot, Word, WordPart

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)
_USED = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:\[[@*]\])?\}"
    r"|\(\(([^()\n]{1,120}(?:\([^()\n]{1,120}\)[^()\n]{0,120}){0,4})\)\))"
)
_DECLARING = ("export", "declare", "local", "readonly", "typeset")

Values = dict[str, Word | tuple[Word, ...] | None]  # None: several values, by branches of the script


def assignment(word: Word) -> tuple[str, str] | None:
    """Return (name, value) of `NAME=value` with an unquoted name."""
    head = word.parts[0].text if word.parts and not word.parts[0].quote else ""
    pair = _ASSIGNMENT.fullmatch(word.text)
    return (pair[1], pair[2]) if pair and _ASSIGNMENT.match(head) else None


def assigned(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Yield the assignments of a command that only assigns."""
    declares = bool(words) and words[0].text in _DECLARING
    operands = words[1:] if declares else words
    pairs = [(pair[0], word) for word in operands if (pair := assignment(word))]
    if declares or len(pairs) == len(operands):
        yield from pairs


def value_of(word: Word) -> str:
    """Return the value that a word assigns, or the word's text."""
    pair = assignment(word)
    return pair[1] if pair else word.text


def known(name: str, values: Values) -> str | None:
    """Return a variable's one value, None if it has none or several."""
    value = values.get(name)
    return value_of(value) if isinstance(value, Word) else None


def put_in(word: Word, values: Values, longest: int) -> list[Word]:
    """Return the word with variables put in, of at most `longest` characters.

    An array makes several words, and so does an unquoted value with blanks.
    """
    if not _uses_variable(word):
        return [word]
    value = values.get(_only_variable(word))
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Word) and word.bare:
        text = value_of(value)
        if len(text) > longest:
            return [word]
        return [Word(word.spot, (WordPart(piece, "", word.spot, put=True),)) for piece in text.split()]
    return [Word(word.spot, tuple(piece for part in word.parts for piece in _put_in_part(part, values, longest)))]


def _uses_variable(word: Word) -> bool:
    return any("$" in part.text and not part.literal for part in word.parts)


def _only_variable(word: Word) -> str:
    """Return the name of the variable that is all of a word, or an empty text."""
    use = _USED.fullmatch(word.text)
    return (use[1] or use[2] or "") if use else ""


def _put_in_part(part: WordPart, values: Values, longest: int) -> list[WordPart]:
    if part.literal or len(part.text) > longest:
        return [part]

    def value(use: "re.Match[str]") -> str | None:
        if not use[3]:
            return known(use[1] or use[2], values)
        number = evaluate(use[3], lambda name: known(name, values))
        return None if number is None else str(number)

    pieces = in_pieces(part, _USED, value)
    return pieces if sum(len(piece.text) for piece in pieces) <= longest else [part]


def in_pieces(
    part: WordPart, form: "re.Pattern[str]", value: "Callable[[re.Match[str]], str | None]"
) -> list[WordPart]:
    """Return the part in pieces, with each match of `form` replaced that has a `value`."""
    pieces: list[WordPart] = []
    at, spot = 0, part.spot
    for use in form.finditer(part.text):
        text = value(use)
        if text is None:
            continue
        before = part.text[at : use.start()]
        pieces += [replace(part, text=before, spot=spot)] if before else []
        spot = _spot_behind(part, spot, before)
        pieces.append(WordPart(text, part.quote, spot, put=True))
        spot = _spot_behind(part, spot, use[0])
        at = use.end()
    if at < len(part.text):
        pieces.append(replace(part, text=part.text[at:], spot=spot))
    return pieces or [part]


def _spot_behind(part: WordPart, spot: ScriptSpot | None, text: str) -> ScriptSpot | None:
    return behind(spot, text) if spot and not part.put else spot
