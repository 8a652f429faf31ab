"""[[hosts]] as TOML has them: taken apart into one a host, and put together into ranges again. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from preflight.inventory.hostset import expand
from preflight.inventory.name_ranges import NameRange, runs

Table = dict[str, Any]

_WIDTH = 100  # characters of the names or addresses of one table


def apart(tables: Iterable[Mapping[str, Any]], without: Iterable[str] = ()) -> dict[str, Table]:
    """Host → a table of its own; keys of `without` are left out."""
    left_out = {"name", "address", *without}
    found: dict[str, Table] = {}
    for table in tables:
        rest = {key: value for key, value in table.items() if key not in left_out}
        addresses = expand(table.get("address", table["name"]))
        for nth, (name, address) in enumerate(zip(expand(table["name"]), addresses, strict=True)):
            own = {"slot": rest["slot"] + nth} if "slot" in rest else {}
            found[name] = {"name": name, **({"address": address} if address != name else {}), **rest, **own}
    return found


def together(tables: Iterable[Table]) -> list[Table]:
    """Tables that follow one another and are alike but for name and address, in one: by ranges where both count up, and
    only as many as stay readable."""
    groups = groupby(tables, key=lambda table: ("address" in table, _without_names(table)))
    return [table for (addressed, rest), group in groups for table in _folded(list(group), rest, addressed=addressed)]


def _without_names(table: Table) -> Table:
    return {key: value for key, value in table.items() if key not in ("name", "address")}


def _folded(tables: Sequence[Table], rest: Table, *, addressed: bool) -> Iterator[Table]:
    columns = ("name", "address") if addressed else ("name",)
    for parts in _lines(runs([table[column] for column in columns] for table in tables)):
        texts = (",".join(run.text for run in column) for column in zip(*parts, strict=True))
        yield {**dict(zip(columns, texts, strict=True)), **rest}


def _lines(parts: Iterable[tuple[NameRange, ...]]) -> Iterator[list[tuple[NameRange, ...]]]:
    """As many runs together as there is room for."""
    line: list[tuple[NameRange, ...]] = []
    width = 0
    for part in parts:
        needed = max(len(run.text) for run in part) + 1
        if line and width + needed > _WIDTH:
            yield line
            line, width = [], 0
        line.append(part)
        width += needed
    if line:
        yield line
