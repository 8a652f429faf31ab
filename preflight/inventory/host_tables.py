"""[[hosts]] tables of TOML: split into one for each host, and merged into ranges. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from preflight.inventory.hostset import expand
from preflight.inventory.name_ranges import NameRange, ranges

Table = dict[str, Any]

_WIDTH = 100  # characters of the names or addresses of one table


def apart(tables: Iterable[Mapping[str, Any]], without: Iterable[str] = ()) -> dict[str, Table]:
    """Return a table for each host, by name, without the keys of `without`."""
    excluded = {"name", "address", *without}
    result: dict[str, Table] = {}
    for table in tables:
        settings = {key: value for key, value in table.items() if key not in excluded}
        addresses = expand(table.get("address", table["name"]))
        for nth, (name, address) in enumerate(zip(expand(table["name"]), addresses, strict=True)):
            own = {"slot": settings["slot"] + nth} if "slot" in settings else {}
            result[name] = {"name": name, **({"address": address} if address != name else {}), **settings, **own}
    return result


def together(tables: Iterable[Table]) -> list[Table]:
    """Merge consecutive tables that differ only in name and address. Lines of names stay readable."""
    groups = groupby(tables, key=lambda table: ("address" in table, _without_names(table)))
    return [
        table
        for (addressed, settings), group in groups
        for table in _folded(list(group), settings, addressed=addressed)
    ]


def _without_names(table: Table) -> Table:
    return {key: value for key, value in table.items() if key not in ("name", "address")}


def _folded(tables: Sequence[Table], settings: Table, *, addressed: bool) -> Iterator[Table]:
    columns = ("name", "address") if addressed else ("name",)
    for parts in _lines(ranges([table[column] for column in columns] for table in tables)):
        texts = (",".join(part.text for part in column) for column in zip(*parts, strict=True))
        yield {**dict(zip(columns, texts, strict=True)), **settings}


def _lines(parts: Iterable[tuple[NameRange, ...]]) -> Iterator[list[tuple[NameRange, ...]]]:
    """Yield the ranges in groups, each as long as fits on a line."""
    line: list[tuple[NameRange, ...]] = []
    width = 0
    for part in parts:
        needed = max(len(column.text) for column in part) + 1
        if line and width + needed > _WIDTH:
            yield line
            line, width = [], 0
        line.append(part)
        width += needed
    if line:
        yield line
