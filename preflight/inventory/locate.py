"""Where in the text of a TOML file a key stands; tomllib keeps no positions."""

import tomllib
from collections.abc import Iterator

from preflight.inventory.errors import Location


class Lines:
    """Line numbers (from 1) of the tables and keys of a TOML text that tomllib has accepted.

    Keys inside inline tables and arrays have no line of their own: the enclosing key's line stands for them.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[Location, int] = {}
        for location, line in _walk(text.splitlines()):
            self._lines.setdefault(location, line)

    def of(self, location: Location) -> int:
        """The line of `location`, or of the nearest thing around it; 1 if there is none."""
        for length in range(len(location), 0, -1):
            if location[:length] in self._lines:
                return self._lines[location[:length]]
        return 1


def _walk(lines: list[str]) -> Iterator[tuple[Location, int]]:
    table: Location = ()
    counts: dict[Location, int] = {}
    number = 0
    while number < len(lines):
        line = lines[number].strip()
        start = number + 1
        number += 1
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            header = tomllib.loads(line)
            name = _with_indices(_only_path(header), counts)
            if line.startswith("[["):
                counts[name] = counts.get(name, -1) + 1
                name = (*name, counts[name])
            table = name
            yield table, start
            continue
        statement = lines[start - 1]
        while (parsed := _complete(statement)) is None and number < len(lines):
            statement += "\n" + lines[number]
            number += 1
        path = _only_path(parsed or {})
        for length in range(1, len(path) + 1):
            yield table + path[:length], start


def _complete(statement: str) -> dict[str, object] | None:
    """A key with its whole value, or None while a multi-line string or array is still open."""
    try:
        return tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return None


def _only_path(parsed: dict[str, object]) -> Location:
    """The dotted key of a statement that holds one: `a.b = 1` → ("a", "b"); an inline table ends the path."""
    path: list[str | int] = []
    inner: object = parsed
    while isinstance(inner, list | dict) and len(inner) == 1:
        inner = inner[0] if isinstance(inner, list) else inner
        if not isinstance(inner, dict) or len(inner) != 1:
            break
        ((key, inner),) = inner.items()
        path.append(key)
    return tuple(path)


def _with_indices(name: Location, counts: dict[Location, int]) -> Location:
    """[hosts.ssh] after a [[hosts]] belongs to the last of them."""
    location: Location = ()
    for part in name:
        location = (*location, part)
        if location in counts and location != name:
            location = (*location, counts[location])
    return location
