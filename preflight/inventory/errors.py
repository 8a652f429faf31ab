"""What is wrong with an inventory, all of it at once."""

from dataclasses import dataclass

from preflight.model.errors import UsageError

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: `at` is the key's path, ("hosts", 1, "name"); `first` is the other place, where two
    contradict each other."""

    at: Location
    text: str
    first: Location | None = None


class InventoryError(UsageError):
    """The inventory cannot be used; its text has one line for each problem, sorted by line."""


def dotted(location: Location) -> str:
    """("hosts", 1, "name") → hosts[1].name"""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
