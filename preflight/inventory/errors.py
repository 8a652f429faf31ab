"""What is wrong with an inventory, all of it at once."""

import json
import re
from dataclasses import dataclass
from datetime import date

from preflight.model.errors import UsageError

Location = tuple[str | int, ...]

_LONGEST_VALUE = 60  # characters of a wrong value that a sentence repeats


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong: `at` is the key's path, ("hosts", 1, "name"); `first` is the other place, where two
    contradict each other."""

    at: Location
    text: str
    first: Location | None = None


class InventoryError(UsageError):
    """The inventory cannot be used; its text has one line for each problem, sorted by line."""


def dotted(location: Location) -> str:
    """("hosts", 1, "name") → hosts[1].name; keys that are no bare TOML keys are quoted, so that none reaches a terminal
    raw."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part[:_LONGEST_VALUE])
            text += f".{key}" if text else key
    return text


def shown(value: object) -> str:
    """A wrong value as a sentence repeats it: as TOML writes it where that is short, escaped, and cut."""
    if isinstance(value, bool):
        return str(value).lower()
    text = value.isoformat() if isinstance(value, date) else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
