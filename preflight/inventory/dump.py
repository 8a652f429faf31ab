"""Writer of TOML documents with comments in their tables. `load` reads its output. Pure.

Values are those of `tomllib`: text, numbers, dates, lists, tables. A table inside a table is written inline.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from preflight.inventory.errors import Location

_WIDTH = 100  # columns up to which a list stands on one line


def dump(document: Mapping[str, Any], comments: Mapping[Location, Sequence[str]] | None = None) -> str:
    """Return the document's text. `comments` are lines for a table, ("hosts", 3) or ("cluster",), or the head, ()."""
    lines = comments or {}
    parts = ["".join(_comment(line) for line in lines.get((), ()))]
    for name, value in document.items():
        if isinstance(value, Mapping):
            parts.append(_table(f"[{name}]", value, lines.get((name,), ())))
        else:
            parts += [_table(f"[[{name}]]", table, lines.get((name, n), ())) for n, table in enumerate(value)]
    return "\n".join(part for part in parts if part)


def _comment(line: str) -> str:
    """Return a comment of one line; control characters become "?"."""
    return "# " + "".join(c if c.isprintable() else "?" for c in line) + "\n"


def _table(header: str, table: Mapping[str, Any], comments: Sequence[str]) -> str:
    return "".join([f"{header}\n", *map(_comment, comments), *_entries(table)])


def _entries(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        line = f"{_key(key)} = {text_of(value)}\n"
        if isinstance(value, list) and len(line) > _WIDTH:
            line = f"{_key(key)} = [\n{_lines(value)}]\n"
        yield line


def _lines(items: Sequence[Any]) -> str:
    """Return the items of a list, as many on a line as fit."""
    lines = [""]
    for text in map(text_of, items):
        if lines[-1] and len(lines[-1]) + len(text) > _WIDTH - 4:
            lines.append("")
        lines[-1] += f" {text},"
    return "".join(f"   {line}\n" for line in lines)


def _key(key: str) -> str:
    return key if key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key) else text_of(key)


def text_of(value: Any) -> str:
    """Return one value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's basic strings, but for this
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {text_of(part)}" for key, part in value.items()) + " }"
    return str(value)
