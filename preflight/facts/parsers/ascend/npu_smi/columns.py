"""Columns of the tables of `npu-smi info`, by their headings.

The columns, and their cells in a line, differ by generation and release. So each value is read below its heading. A
column with an unknown heading is not read.
"""

import re
from dataclasses import dataclass

_AMOUNT = r"(?:\d{1,9}|NA|-)"
_USAGE = rf"{_AMOUNT}\s*/\s*{_AMOUNT}"  # "3402 / 65536", from five digits on "52553/ 65536"
_ID = r"\d{1,9}"
# Heading → the field of its values, and their pattern. Without a field, the column is known but not read.
_HEADINGS: dict[str, tuple[str, str]] = {
    "NPU": ("npu", _ID),
    "NPU ID": ("npu", _ID),
    "Name": ("name", r"[A-Za-z0-9]{0,40}[A-Za-z][\w-]{0,40}|\d{3,4}"),  # 910B3, Ascend910; 310 has no letter
    "Health": ("health", r"[A-Za-z][A-Za-z ]{0,19}|-"),
    "Chip": ("chip", _ID),
    "Chip ID": ("chip", _ID),
    "Phy-ID": ("device", _ID),
    "Device": ("device", _ID),
    "Bus-Id": ("bus", r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]|NA|-"),
    "AICore(%)": ("busy", _AMOUNT),
    "NPU Util(%)": ("utilisation", _AMOUNT),
    "Memory-Usage(MB)": ("ddr", _USAGE),
    "HBM-Usage(MB)": ("hbm", _USAGE),
    "Hugepages-Usage(page)": ("", _USAGE),
    "Power(W)": ("", r"\S{1,20}"),
    "Temp(C)": ("", r"\S{1,20}"),
    "Process id": ("pid", _ID),
    "Process name": ("process", r".{0,400}"),
    "Process memory(MB)": ("megabytes", r"\d{1,15}|NA|-|"),
    "Process memory(B)": ("bytes", r"\d{1,15}|NA|-|"),
    "Process id in container": ("pid_inside", rf"{_ID}|NA|-|"),  # from 26.0 on
}
_KNOWN = "|".join(map(re.escape, sorted(_HEADINGS, key=len, reverse=True)))
_SEVERAL = re.compile(rf"(?:{_KNOWN})(?: (?:{_KNOWN}))*", re.ASCII)
_ONE = re.compile(rf"(?:{_KNOWN})(?!\S)", re.ASCII)
_NOT_READ = ("", r"\S{1,60}")
_WIDEST = 1000  # characters of a line of headings; real ones have 120


def cells(line: str) -> list[str] | None:
    """Return the cells of a line without the blanks around them; None for a line without frame."""
    if len(line) < 2 or line[0] != "|" or line[-1] != "|":
        return None
    return [cell.strip() for cell in line[1:-1].split("|")]


def _headings(cell: str) -> list[str]:
    """Split a cell of the heading. Two blanks or more end a heading, a single blank only between two known headings."""
    headings: list[str] = []
    for part in re.split(r"\s{2,}", cell):
        headings += _ONE.findall(part) if _SEVERAL.fullmatch(part) else filter(None, [part])
    return headings


@dataclass(frozen=True)
class Columns:
    """The columns of one line of a table. `patterns`: one for each cell, None for a cell that is not read.

    `free`: the cell that may hold any character, the name of a process.
    """

    fields: tuple[str, ...]
    patterns: tuple[re.Pattern[str] | None, ...]
    free: int | None = None

    def read(self, values: list[str]) -> dict[str, str] | None:
        """Return the values of a row by field; None if the row does not fit these columns."""
        if len(values) > len(self.patterns) and self.free is not None:  # a | that is part of a process's name
            surplus = len(values) - len(self.patterns) + 1
            values = [*values[: self.free], "|".join(values[self.free :][:surplus]), *values[self.free + surplus :]]
        if len(values) != len(self.patterns):
            return None
        row: dict[str, str] = {}
        for pattern, value in zip(self.patterns, values, strict=True):
            match = pattern.fullmatch(value) if pattern else None
            if pattern and match is None:
                return None
            row |= match.groupdict() if match else {}
        return row


def _cell_pattern(columns_of_cell: list[tuple[str, str]]) -> re.Pattern[str]:
    parts = (f"(?P<{field}>{pattern})" if field else f"(?:{pattern})" for field, pattern in columns_of_cell)
    return re.compile(r"\s+".join(parts), re.ASCII)


def columns(heading: list[str]) -> Columns | None:
    """Return the columns below a line of headings; None if two are the same field, or if the line is too long."""
    if sum(map(len, heading)) > _WIDEST:
        return None
    fields: list[str] = []
    patterns: list[re.Pattern[str] | None] = []
    for cell in heading:
        columns_of_cell = [_HEADINGS.get(name, _NOT_READ) for name in _headings(cell)]
        cell_fields = [field for field, _ in columns_of_cell if field]
        if len({*fields, *cell_fields}) < len(fields) + len(cell_fields):
            return None
        fields += cell_fields
        patterns.append(_cell_pattern(columns_of_cell) if cell_fields or not columns_of_cell else None)
    free_cell = heading.index("Process name") if "Process name" in heading else None
    return Columns(tuple(fields), tuple(patterns), free_cell)
