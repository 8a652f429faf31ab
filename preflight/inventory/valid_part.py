"""The sound part of a document: what is judged further, so that one mistake does not hide all others."""

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from preflight.inventory import pydantic_errors
from preflight.inventory.errors import Location, Mistake
from preflight.inventory.schema import ARRAYS_OF_TABLES, Document, HostTable, WaiverTable
from preflight.model.cluster import Product

# Stands in for a [cluster] that is missing or unusable, so that the hosts can be looked at; it counts as damaged.
_ANY_CLUSTER = {"name": "?", "product": Product.CPU}


@dataclass(frozen=True)
class ValidPart:
    """`document` is what is left without the wrong keys, and without the tables that cannot be without them.

    `damaged`: the tables that lost a key or are gone: ("cluster",), ("hosts", 1). `kept`: the numbers that the
    remaining [[hosts]] and [[waivers]] have in the file.
    """

    document: Document
    damaged: frozenset[Location]
    kept: dict[str, list[int]]

    def intact(self, *tables: str) -> bool:
        """Whether nothing was wrong in these top-level tables."""
        return not any(location[0] in tables for location in self.damaged)

    def hosts(self) -> Iterator[tuple[int, HostTable]]:
        return zip(self.kept["hosts"], self.document.hosts, strict=True)

    def waivers(self) -> Iterator[tuple[int, WaiverTable]]:
        return zip(self.kept["waivers"], self.document.waivers, strict=True)


def examine(data: dict[str, Any]) -> tuple[ValidPart | None, list[Mistake]]:
    """The sound part of what a TOML file says, None if too little is left of it; and everything wrong with its keys."""
    arrays = {key: data.get(key) for key in ARRAYS_OF_TABLES}
    kept = {key: list(range(len(tables))) if isinstance(tables, list) else [] for key, tables in arrays.items()}
    try:
        return ValidPart(Document.model_validate(data), frozenset(), kept), []
    except ValidationError as error:
        problems = pydantic_errors.problems(error)
        wrong = {_to_leave_out(detail["loc"]) for detail in error.errors(include_url=False)}
    kept = {key: [number for number in numbers if (key, number) not in wrong] for key, numbers in kept.items()}
    try:
        document = Document.model_validate({"cluster": _ANY_CLUSTER} | _without(wrong, data, ()))
    except ValidationError:
        return None, problems
    return ValidPart(document, frozenset(_table(location) for location in wrong), kept), problems


def _table(location: Location) -> Location:
    """The table that a key is in: ("hosts", 1) of ("hosts", 1, "ssh", "port")."""
    return location[: 2 if location[0] in ARRAYS_OF_TABLES else 1]


def _to_leave_out(loc: tuple[str | int, ...]) -> Location:
    """The wrong key, or its table if that cannot be without it."""
    at = pydantic_errors.location(loc)
    table = _table(at)
    key = at[len(table) : len(table) + 1]
    known = pydantic_errors.model_of(loc[: loc.index(key[0], len(table))]).model_fields if key else {}
    return table if not key or (key[0] in known and known[str(key[0])].is_required()) else table + key


def _without(wrong: Set[Location], value: Any, at: Location) -> Any:
    """`value`, which stands at `at`, without what is wrong in it."""
    if isinstance(value, dict):
        return {key: _without(wrong, part, (*at, key)) for key, part in value.items() if (*at, key) not in wrong}
    if isinstance(value, list) and len(at) == 1 and at[0] in ARRAYS_OF_TABLES:
        return [_without(wrong, part, (*at, n)) for n, part in enumerate(value) if (*at, n) not in wrong]
    return value
