"""Tables of `hccn_tool` on Ascend 950: a row per port, or per event of a port, read by the headings of its columns.

+-----+------+------+---------+
| NPU | UDie | Port | rs_mode |
+-----+------+------+---------+
| 0   | 0    | 4    | 128 T4  |
+-----+------+------+---------+
"""

import re
from collections.abc import Callable
from typing import TypeVar

from preflight.facts.parsers.ascend.hccn_tool.tool_output import NotUnderstoodError, blocks
from preflight.facts.reading import Found
from preflight.model.text import quote

T = TypeVar("T")

TableRow = dict[str, str]

_RULE = re.compile(r"\+(?:-{1,60}\+){1,20}")
_RULES = 3  # above the headings, below them, below the last row
_PLACE = ("NPU", "UDie", "Port")


def rule(line: str) -> bool:
    """Return whether the line is one of those that frame a table."""
    return bool(_RULE.fullmatch(line))


def has_table(text: str) -> bool:
    """Return whether the text has a table."""
    return any(rule(line.strip()) for line in text[:100_000].split("\n"))


def rows_of(lines: list[str]) -> list[TableRow]:
    """Return the rows of the table that `lines` begin with, by heading. Lines below the table are ignored.

    Raises NotUnderstoodError for a table that was cut, or for other lines.
    """
    rules = [index for index, line in enumerate(lines) if line == lines[0]]
    if len(rules) < _RULES or rules[:2] != [0, 2]:
        raise NotUnderstoodError(
            f"the table of hccn_tool ends with {quote(lines[-1])}: the table is cut off or not recognized"
        )
    headings = _cells(lines[1])
    if len(set(headings)) < len(headings) or not set(_PLACE) <= set(headings):
        raise NotUnderstoodError(f"hccn_tool printed {quote(lines[1])}, which is not recognized")
    rows = []
    for line in lines[3 : rules[2]]:
        row = dict(zip(headings, _cells(line, len(headings)), strict=True))
        if not all(re.fullmatch(r"[0-9]{1,3}", row[name]) for name in _PLACE):
            raise NotUnderstoodError(f"hccn_tool printed {quote(line)}, which is not recognized")
        rows.append(row)
    return rows


def places(rows: list[TableRow]) -> set[tuple[str, ...]]:
    """Return the ports of the rows: NPU, UDie, port."""
    return {tuple(row[name] for name in _PLACE) for row in rows}


def _cells(line: str, number: int | None = None) -> list[str]:
    cells = [cell.strip() for cell in line[1:-1].split("|")] if line[:1] == line[-1:] == "|" else []
    if not cells or number not in (None, len(cells)):
        raise NotUnderstoodError(f"hccn_tool printed {quote(line)}, which is not recognized")
    return cells


def each_row(text: str, heading: str, make: Callable[[str], T | None]) -> tuple[Found[T], ...]:
    """Return an entry for every failure, and for every row of every table: the value below `heading`, through `make`.

    `make` raises NotUnderstoodError.
    """
    rules = 0

    def starts(line: str) -> bool:
        nonlocal rules
        rules += rule(line)
        return rule(line) and rules % _RULES == 1

    def read(table: list[str]) -> list[T | None]:
        rows = rows_of(table)
        if not rows or heading not in rows[0]:
            raise NotUnderstoodError(f"the table of hccn_tool with the columns {quote(table[1])} has no {heading}")
        if len(places(rows)) < len(rows):
            raise NotUnderstoodError(f"hccn_tool reports the {heading} of a port twice in one answer")
        return [make(row[heading]) for row in rows]

    entries: list[Found[T]] = []
    for table in blocks(text, starts, read, rule):
        entries += [Found(error=table.error)] if table.value is None else [Found(value) for value in table.value]
    return tuple(entries)
