"""Line numbers of the keys in a TOML file; tomllib keeps no positions."""

import re
import tomllib
from collections.abc import Iterator

from preflight.inventory.errors import Location

# Strings and comments, which may hold these characters without meaning; then the meaningful characters.
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{}=\n]",
    re.DOTALL,
)
_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}


class KeyLines:
    """Line numbers (from 1) of the tables and keys of a TOML text that tomllib has accepted.

    Keys inside inline tables and arrays have the line of the enclosing key. A missing key has the line of its table.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[Location, int] = {}
        for location, line in _keys(text.replace("\r\n", "\n")):
            for length in range(1, len(location) + 1):
                self._lines.setdefault(location[:length], line)

    def of(self, location: Location) -> int:
        """Return the line of `location`, or of the nearest key or table around it; 1 if there is none."""
        for length in range(len(location), 0, -1):
            if location[:length] in self._lines:
                return self._lines[location[:length]]
        return 1


def _keys(text: str) -> Iterator[tuple[Location, int]]:
    """Yield every table and key with its line. Elements of an array of tables are numbered from 0."""
    table: Location = ()
    elements: dict[Location, int] = {}  # array of tables → index of its last element
    for statement, line in _statements(text):
        if statement.startswith("["):
            table = _in_last_elements(_path(statement), elements)
            if statement.startswith("[["):
                elements[table] = elements.get(table, -1) + 1
                table = (*table, elements[table])
            yield table, line
        else:
            yield table + _path(f"{statement} = 0"), line


def _statements(text: str) -> Iterator[tuple[str, int]]:
    """Yield the text before the equals sign of every key, and every table header, with its first line."""
    depth = 0  # of brackets and braces: a line break inside them ends nothing
    begin, key_end = 0, -1
    line = begin_line = 1
    for token in _TOKEN.finditer(text + "\n"):
        mark = token[0]
        line += mark.count("\n")
        depth += _DEPTH.get(mark, 0)
        if mark == "=" and key_end < 0:
            key_end = token.start()
        elif depth == 0 and (mark == "\n" or mark.startswith("#")):
            statement = text[begin : token.start() if key_end < 0 else key_end].strip()
            if statement:
                yield statement, begin_line
            begin, key_end, begin_line = token.end(), -1, line


def _path(statement: str) -> tuple[str, ...]:
    """Return the path of `a."b c" = 0`, `[a."b c"]` or `[[a."b c"]]`: ("a", "b c")."""
    path: list[str] = []
    inner: object = tomllib.loads(statement)
    while inner and isinstance(inner, list | dict):
        if isinstance(inner, list):
            inner = inner[0]
        else:
            ((key, inner),) = inner.items()
            path.append(key)
    return tuple(path)


def _in_last_elements(path: Location, elements: dict[Location, int]) -> Location:
    """Return the table of a header: [hosts.ssh] belongs to the last [[hosts]] before it."""
    table: Location = ()
    for part in path[:-1]:
        table = (*table, part)
        if table in elements:
            table = (*table, elements[table])
    return table + path[-1:]
