"""Plain data as an indented outline: one `name: value` a line, with escape characters replaced."""

from collections.abc import Iterator
from typing import Any

from preflight.model.text import printable

_LONGEST = 120  # characters of a line with several values


def _scalar(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value)) or "(empty)"


def _flat(value: Any) -> str | None:
    """Return a value that fits behind its name: a scalar, or a list of scalars. None for any other."""
    if not isinstance(value, dict | list):
        return _scalar(value)
    if not value:
        return "none"
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        joined = ", ".join(map(_scalar, value))
        return joined if len(joined) <= 100 else None
    return None


def outline(value: Any, indent: str = "") -> Iterator[str]:
    """Yield the lines of plain data (JSON types).

    Texts of several lines are below their name. Empty errors are left out.
    """
    if not isinstance(value, dict | list):
        yield indent + _scalar(value)
        return
    items = value.items() if isinstance(value, dict) else ((f"{number}", item) for number, item in enumerate(value))
    for name, item in items:
        if (name, item) != ("error", ""):
            yield from _item(printable(str(name)), item, indent)


def _item(name: str, item: Any, indent: str) -> Iterator[str]:
    """Yield one item: behind its name if it fits there, or below it."""
    if isinstance(item, str) and "\n" in item.strip():
        yield f"{indent}{name}:"
        yield from (f"{indent}  | {printable(line)}" for line in item.strip().splitlines())
    elif (line := _one_line(name, item, indent)) is not None:
        yield line
    else:
        yield f"{indent}{name}:"
        yield from outline(item, indent + "  ")


def _one_line(name: str, item: Any, indent: str) -> str | None:
    """Return an item in one line, or None if it has to be below its name."""
    if isinstance(item, dict) and item and all(_flat(part) is not None for part in item.values()):
        parts = [f"{printable(str(key))} {_flat(part)}" for key, part in item.items() if (key, part) != ("error", "")]
        line = f"{indent}{name}: {', '.join(parts)}"
        return line if len(line) <= _LONGEST else None
    flat = _flat(item)
    return None if flat is None else f"{indent}{name}: {flat}"
