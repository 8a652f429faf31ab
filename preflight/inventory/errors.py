"""Mistakes in an inventory, and the error that reports all of them."""

import json
import re
from dataclasses import dataclass
from datetime import date

from preflight.model.errors import UsageError

Location = tuple[str | int, ...]

_LONGEST_VALUE = 60  # characters of a wrong value that a sentence repeats


@dataclass(frozen=True)
class Mistake:
    """One mistake. `at` is the key's path, ("hosts", 1, "name"); `first` is the path of a key that it contradicts."""

    at: Location
    text: str
    first: Location | None = None


class InventoryError(UsageError):
    """Error: the inventory cannot be used. Its text has one line for each mistake, sorted by line."""


def dotted(location: Location) -> str:
    """Return ("hosts", 1, "name") as hosts[1].name. Keys that are not bare TOML keys are escaped for the terminal."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part[:_LONGEST_VALUE])
            text += f".{key}" if text else key
    return text


def shown(value: object) -> str:
    """Return a wrong value for a message: as in TOML, escaped and shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    text = value.isoformat() if isinstance(value, date) else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
