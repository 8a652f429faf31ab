"""The script's own variables, put in where they are used; what only the run would tell stays as it is written. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence

from preflight.launch.lint.arithmetic import worked_out
from preflight.launch.lint.source_map import behind
from preflight.launch.lint.types import Part, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)
_USED = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:\[[@*]\])?\}"
    r"|\(\(([^()\n]{1,120}(?:\([^()\n]{1,120}\)[^()\n]{0,120}){0,4})\)\))"
)
_DECLARING = ("export", "declare", "local", "readonly", "typeset")

Values = dict[str, Word | tuple[Word, ...] | None]  # None: it has several, by branches of the script


def assignment(word: Word) -> tuple[str, str] | None:
    """(name, value) of `NAME=value`, whose name stands in no quotes."""
    head = word.parts[0].text if word.parts and not word.parts[0].quote else ""
    read = _ASSIGNMENT.fullmatch(word.text)
    return (read[1], read[2]) if read and _ASSIGNMENT.match(head) else None


def assigned(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """The assignments of a command that only assigns."""
    told = words[1:] if words and words[0].text in _DECLARING else words
    found = [(read[0], word) for word in told if (read := assignment(word))]
    if found and (len(found) == len(told) or told is not words):
        yield from found


def value_of(word: Word) -> str:
    """What a word assigns, or is."""
    read = assignment(word)
    return read[1] if read else word.text


def known(name: str, values: Values) -> str | None:
    """A variable's value, where it has one."""
    value = values.get(name)
    return value_of(value) if isinstance(value, Word) else None


def put_in(word: Word, values: Values, left: int) -> list[Word]:
    """The word with variables in it; several where an unquoted one has blanks, or an array is used. `left`: the
    characters that it may grow to."""
    if not any("$" in part.text and not part.literal for part in word.parts):
        return [word]
    alone = _USED.fullmatch(word.text)
    name = (alone[1] or alone[2] or "") if alone else ""
    value = values.get(name)
    if isinstance(value, tuple):
        return list(value)
    if alone and word.bare and isinstance(value, Word):
        texts = value_of(value).split() if len(value_of(value)) <= left else None
        return (
            [Word(word.spot, (Part(text, "", word.spot, put=True),)) for text in texts] if texts is not None else [word]
        )
    return [Word(word.spot, tuple(piece for part in word.parts for piece in _put(part, values, left)))]


def _put(part: Part, values: Values, left: int) -> list[Part]:
    if part.literal or len(part.text) > left:
        return [part]

    def value(used: "re.Match[str]") -> str | None:
        if used[3]:
            number = worked_out(used[3], lambda name: known(name, values))
            return None if number is None else str(number)
        return known(used[1] or used[2], values)

    pieces = in_pieces(part, _USED, value)
    return pieces if sum(len(piece.text) for piece in pieces) <= left else [part]


def in_pieces(part: Part, form: "re.Pattern[str]", value: "Callable[[re.Match[str]], str | None]") -> list[Part]:
    """The part with what `form` finds in it replaced, where there is a `value`; each piece where it stands."""
    pieces: list[Part] = []
    at, spot = 0, part.spot

    def as_it_stands(to: int) -> None:
        nonlocal at, spot
        text = part.text[at:to]
        if text:
            pieces.append(Part(text, part.quote, spot, part.put))
            spot = behind(spot, text) if spot and not part.put else spot
        at = to

    for found in form.finditer(part.text):
        text = value(found)
        if text is not None:
            as_it_stands(found.start())
            pieces.append(Part(text, part.quote, spot, put=True))
            spot = behind(spot, found[0]) if spot and not part.put else spot
            at = found.end()
    as_it_stands(len(part.text))
    return pieces or [part]
