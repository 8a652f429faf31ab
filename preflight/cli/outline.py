"""Plain data as an indented outline: one `name: value` a line, with escape characters replaced."""

from collections.abc import Iterator
from typing import Any

from preflight.report.text import printable


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
        if (name, item) == ("error", ""):
            continue
        name = printable(str(name))
        if isinstance(item, str) and "\n" in item.strip():
            yield f"{indent}{name}:"
            yield from (f"{indent}  | {printable(line)}" for line in item.strip().splitlines())
        elif isinstance(item, dict) and item and all(_flat(part) is not None for part in item.values()):
            parts = [
                f"{printable(str(key))} {_flat(part)}" for key, part in item.items() if (key, part) != ("error", "")
            ]
            line = f"{indent}{name}: {', '.join(parts)}"
            if len(line) <= 120:
                yield line
            else:
                yield f"{indent}{name}:"
                yield from outline(item, indent + "  ")
        elif (flat := _flat(item)) is not None:
            yield f"{indent}{name}: {flat}"
        else:
            yield f"{indent}{name}:"
            yield from outline(item, indent + "  ")
