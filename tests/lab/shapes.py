"""What is left of a tool's output when its values are taken away: keys, columns, and the kinds of its values."""

import re

_VALUES = (
    (re.compile(r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\b"), "DATE"),
    (re.compile(r"\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b"), "MAC"),
    (re.compile(r"^[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]\b"), "BUS"),
    (re.compile(r"\b\d+(\.\d+){3}\b *"), "ADDRESS"),
    (re.compile(r"\d+(\.\d+)? *"), "N"),
)


def shape(text: str) -> list[str]:
    """The different kinds of lines in the order in which they first come.

    A line of a table is where its bars stand; of "key : value" the key is left, with the blanks that line up the colons
    (a tab and eight blanks are the same: pastes turn one into the other). A value keeps the width of its column.
    """
    return list(dict.fromkeys(_shape_of(line.rstrip()) for line in text.splitlines() if line.strip()))


def _shape_of(line: str) -> str:
    if line[0] in "+|":
        return " ".join([line[0], *(str(at) for at, mark in enumerate(line) if mark == line[0])])
    for pattern, kind in _VALUES:
        line = pattern.sub(lambda found, kind=kind: _as_wide(kind, found[0]), line)  # type: ignore[misc]
    line = re.sub(r"^[ \t]+", lambda blanks: "\t" if len(blanks[0].expandtabs()) == 8 else blanks[0], line)
    key, colon, _ = line.partition(":")
    return f"{key}:" if colon and not line.startswith("(") else line


def _as_wide(kind: str, found: str) -> str:
    """Up to two blanks are taken for what stands between two words."""
    blanks = len(found) - len(found.rstrip())
    return kind.ljust(len(found)) if blanks > 2 else kind + " " * blanks
