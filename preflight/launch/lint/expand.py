"""The script's own variables, put in where they are used; what only the run would tell stays as it is written. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from preflight.launch.lint.types import Command, Part, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)
_USED = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:\[[@*]\])?\})")
_DECLARING = ("export", "declare", "local", "readonly", "typeset")
LONGEST = 1 << 16  # characters that a variable may grow to, and a whole script by all of them

Values = dict[str, Word | tuple[Word, ...] | None]  # None: it has several, by branches of the script


def assignment(word: Word) -> tuple[str, str] | None:
    """(name, value) of `NAME=value`, whose name stands in no quotes."""
    head = word.parts[0].text if word.parts and not word.parts[0].quote else ""
    read = _ASSIGNMENT.fullmatch(word.text)
    return (read[1], read[2]) if read and _ASSIGNMENT.match(head) else None


def expanded(commands: Sequence[Command]) -> tuple[tuple[Command, ...], Mapping[str, tuple[str, Word]]]:
    """The commands with the values of variables in them, and those variables that have one known value."""
    values: Values = {}
    settings: dict[str, tuple[str, Word]] = {}
    done: list[Command] = []
    left = LONGEST
    for command in commands:
        words = tuple(found for word in command.words for found in _words(word, values, left))
        left = max(0, left - max(0, _length(words) - _length(command.words)))
        done.append(Command(words, command.end))
        for name, word in _assigned(words):
            value: Word | tuple[Word, ...] = word
            if command.array is not None:
                value = tuple(found for element in command.array for found in _words(element, values, left))
            known = name not in values or (command.array is None and settings.get(name, ("",))[0] == _text(word))
            values[name] = value if known else None
            settings.pop(name, None)
            if known and command.array is None:
                settings[name] = (_text(word), word)
    return tuple(done), settings


def _length(words: Sequence[Word]) -> int:
    return sum(len(word.text) for word in words)


def _assigned(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """The assignments of a command that only assigns."""
    told = words[1:] if words and words[0].text in _DECLARING else words
    found = [(read[0], word) for word in told if (read := assignment(word))]
    if found and (len(found) == len(told) or told is not words):
        yield from found


def _text(word: Word) -> str:
    read = assignment(word)
    return read[1] if read else word.text


def _words(word: Word, values: Values, left: int) -> list[Word]:
    """The word with variables in it; several where an unquoted one has blanks, or an array is used."""
    if not any("$" in part.text and part.quote != "'" and part.quote != "\\" for part in word.parts):
        return [word]
    alone = _USED.fullmatch(word.text)
    name = (alone[1] or alone[2]) if alone else ""
    value = values.get(name)
    if isinstance(value, tuple):
        return list(value)
    if alone and word.bare and isinstance(value, Word):
        return (
            [Word(word.spot, (Part(text),)) for text in _text(value).split()] if len(_text(value)) <= left else [word]
        )
    return [Word(word.spot, tuple(Part(_put(part, values, left), part.quote) for part in word.parts))]


def _put(part: Part, values: Values, left: int) -> str:
    if part.quote in ("'", "\\"):
        return part.text

    def value(used: "re.Match[str]") -> str:
        known = values.get(used[1] or used[2])
        return _text(known) if isinstance(known, Word) else used[0]

    text = _USED.sub(value, part.text) if len(part.text) <= left else part.text
    return text if len(text) <= left else part.text
