"""Valid part of a document, which is checked further, so that one mistake does not hide the others."""

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from preflight.inventory import pydantic_errors
from preflight.inventory.errors import Location, Mistake
from preflight.inventory.schema import ARRAYS_OF_TABLES, Document, HostTable, WaiverTable
from preflight.model.cluster import Product

# Replaces a missing or invalid [cluster], so that the hosts can be checked. It counts as damaged.
_ANY_CLUSTER = {"name": "?", "product": Product.CPU}


@dataclass(frozen=True)
class ValidPart:
    """Document without its invalid keys, and without tables that require one of them.

    `damaged` are the tables that lost a key or were removed: ("cluster",), ("hosts", 1).
    `kept` are the numbers in the file of the remaining [[hosts]] and [[waivers]].
    """

    document: Document
    damaged: frozenset[Location]
    kept: dict[str, list[int]]

    def intact(self, *tables: str) -> bool:
        """Return true if these top-level tables have no invalid key."""
        return not any(location[0] in tables for location in self.damaged)

    def hosts(self) -> Iterator[tuple[int, HostTable]]:
        return zip(self.kept["hosts"], self.document.hosts, strict=True)

    def waivers(self) -> Iterator[tuple[int, WaiverTable]]:
        return zip(self.kept["waivers"], self.document.waivers, strict=True)


def examine(data: dict[str, Any]) -> tuple[ValidPart | None, list[Mistake]]:
    """Return the valid part of a TOML document, None if there is too little; and all mistakes in its keys."""
    try:
        return ValidPart(Document.model_validate(data), frozenset(), _table_numbers(data)), []
    except ValidationError as error:
        mistakes = pydantic_errors.mistakes(error)
        wrong = {_to_remove(detail["loc"]) for detail in error.errors(include_url=False)}
    numbers = _table_numbers(data)
    kept = {key: [number for number in numbers[key] if (key, number) not in wrong] for key in numbers}
    try:
        document = Document.model_validate({"cluster": _ANY_CLUSTER} | _without(wrong, data, ()))
    except ValidationError:
        return None, mistakes
    return ValidPart(document, frozenset(_table(location) for location in wrong), kept), mistakes


def _table_numbers(data: dict[str, Any]) -> dict[str, list[int]]:
    arrays = {key: data.get(key) for key in ARRAYS_OF_TABLES}
    return {key: list(range(len(tables))) if isinstance(tables, list) else [] for key, tables in arrays.items()}


def _table(location: Location) -> Location:
    """Return the table of a key: ("hosts", 1) for ("hosts", 1, "ssh", "port")."""
    return location[: 2 if location[0] in ARRAYS_OF_TABLES else 1]


def _to_remove(loc: tuple[str | int, ...]) -> Location:
    """Return the invalid key, or its table if that requires the key."""
    at = pydantic_errors.location(loc)
    table = _table(at)
    key = at[len(table) : len(table) + 1]
    fields = pydantic_errors.model_of(loc[: loc.index(key[0], len(table))]).model_fields if key else {}
    return table if not key or (key[0] in fields and fields[str(key[0])].is_required()) else table + key


def _without(wrong: Set[Location], value: Any, at: Location) -> Any:
    """Return the `value` at location `at` without its invalid keys and tables."""
    if isinstance(value, dict):
        return {key: _without(wrong, part, (*at, key)) for key, part in value.items() if (*at, key) not in wrong}
    if isinstance(value, list) and len(at) == 1 and at[0] in ARRAYS_OF_TABLES:
        return [_without(wrong, part, (*at, n)) for n, part in enumerate(value) if (*at, n) not in wrong]
    return value
