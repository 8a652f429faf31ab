"""The tables of `npu-smi info`: 310, 310P, 910A from driver 20.x on, 910B, 910_93 and 950.

A chip has two lines: one of the card (NPU, name, health, power …), then one of the chip (chip, bus id, use). 910_93
prints the card's line for each die, or once for both. 950 has no chips, only NPUs. Newer releases print a table of
processes below, with a fifth column from 26.0 on. Columns are read by their headings.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import filterfalse

from preflight.facts.parsers.ascend.npu_smi.columns import Columns, cells, columns
from preflight.facts.parsers.ascend.npu_smi.error_messages import trouble
from preflight.facts.types import Missing
from preflight.model.text import quote


@dataclass(frozen=True)
class ChipRow:
    """One chip of the table. `device`: physical id, if the table has one. Figures are None for NA."""

    npu: int
    chip: int  # 0 if the product has no chips, only NPUs
    device: int | None
    name: str
    health: str
    busy_percent: int | None
    bus: str = ""
    hbm_used: int | None = None  # MB
    hbm_total: int | None = None
    ddr_used: int | None = None  # MB, of the column Memory-Usage: 310 and 310P have no HBM, 910B and later no DDR
    ddr_total: int | None = None


@dataclass(frozen=True)
class NpuProcessRow:
    npu: int
    chip: int
    pid: int  # in the host's PID namespace; the id in the process's container is not read
    name: str  # empty if the tool cannot see it, as in another PID namespace
    memory: int | None = None  # MB


@dataclass(frozen=True)
class NpuSmiTable:
    """The whole table. `processes` is None if the tool printed no process table: then no NPU is known to be idle.

    `untold`: NPUs that are missing in the process table. It should have a row per process, or a line for no process.
    """

    version: str
    chips: tuple[ChipRow, ...]
    processes: tuple[NpuProcessRow, ...] | None
    untold: tuple[int, ...] = ()


class _UnknownRowError(Exception):
    """A line that no known table has at that position."""

    def __init__(self, line: str) -> None:
        super().__init__(f"npu-smi info: {quote(line)} is not recognized")


_VERSION = re.compile(r"npu-smi\s+\S{1,60}\s+Version:\s*(\S{1,60})", re.ASCII)
_RULE = re.compile(r"\+[-=+]*\+")
_BETWEEN_DIES = re.compile(r"\+-+\+")  # on 910_93, where a table ends with a line of =
_FREE = re.compile(r"No running processes found(?: in NPU (\d{1,9}))?", re.ASCII)


def info(text: str) -> NpuSmiTable | Missing:
    """Parse `npu-smi info`. A table without its closing line was cut and is not trusted."""
    frame_lines = [line for line in map(str.strip, text.splitlines()) if "|" in line or line.startswith("+")]
    title = next((index for index, line in enumerate(frame_lines) if _VERSION.search(line)), None)
    if title is None:
        return Missing(trouble(text))
    if _is_cut(frame_lines):
        return Missing("the table of npu-smi info is cut off")
    version, *rows = filterfalse(_RULE.fullmatch, frame_lines[title:])
    try:
        return _table(_VERSION.findall(version)[0], rows)
    except _UnknownRowError as error:
        return Missing(str(error))


def _is_cut(drawn: list[str]) -> bool:
    if not _RULE.fullmatch(drawn[-1]):
        return True
    return bool(_BETWEEN_DIES.fullmatch(drawn[-1])) and any("Phy-ID" in row for row in drawn)


def _table(release: str, rows: list[str]) -> NpuSmiTable | Missing:
    heading = next((index for index, line in enumerate(rows) if "Process id" in line), None)
    chips = _chips(rows[:heading])
    if not chips:
        return Missing("npu-smi info lists no chip")
    if heading is None:
        return NpuSmiTable(release, chips, None)
    processes, unlisted = _processes(rows[heading:], {row.npu for row in chips})
    return NpuSmiTable(release, chips, processes, tuple(sorted(unlisted)))


def _cells(line: str) -> list[str]:
    row = cells(line)
    if row is None:
        raise _UnknownRowError(line)
    return row


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _usage(text: str) -> tuple[int | None, int | None]:
    """Return the used and the total amount of a kind of memory; both None if the chip has no such memory."""
    used, _, total = map(str.strip, text.partition("/"))
    return (_number(used), _number(total)) if _number(total) else (None, None)


def _headings(rows: list[str]) -> tuple[Columns, Columns]:
    """Return the columns of a card's line and of a chip's line."""
    card, chip = columns(_cells(rows[0])), columns(_cells(rows[1]) if len(rows) > 1 else [])
    if card is None or not {"npu", "name", "health"} <= set(card.fields):
        raise _UnknownRowError(rows[0])
    if chip is None or not {"busy", "utilisation"} & set(chip.fields) or set(card.fields) & set(chip.fields):
        raise _UnknownRowError(rows[1] if len(rows) > 1 else rows[0])
    return card, chip


def _chips(rows: list[str]) -> tuple[ChipRow, ...]:
    """Return the chips. `rows`: the two of the heading, then those of cards and chips."""
    if not rows:
        return ()
    chips: dict[tuple[int, int], ChipRow] = {}
    for line, fields in _chip_lines(rows):
        row = _chip(fields)
        if (row.npu, row.chip) in chips or (row.busy_percent or 0) > 100:
            raise _UnknownRowError(line)
        chips[row.npu, row.chip] = row
    devices = [row.device for row in chips.values() if row.device is not None]
    if len(set(devices)) != len(devices):
        raise _UnknownRowError(rows[-1])
    return tuple(chips.values())


def _chip_lines(rows: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each chip's line, and its fields together with those of the card's line above."""
    card_columns, chip_columns = _headings(rows)
    card: dict[str, str] | None = None
    card_without_chip = ""
    for line in rows[2:]:
        values = _cells(line)
        chip = chip_columns.read(values)
        if chip is None:
            card = card_columns.read(values)
            if card_without_chip or card is None:
                raise _UnknownRowError(card_without_chip or line)
            card_without_chip = line
        elif card is None:
            raise _UnknownRowError(line)
        else:
            card_without_chip = ""
            yield line, card | chip
    if card_without_chip:
        raise _UnknownRowError(card_without_chip)


def _chip(fields: dict[str, str]) -> ChipRow:
    bus = fields.get("bus", "")
    hbm_used, hbm_total = _usage(fields.get("hbm", ""))
    ddr_used, ddr_total = _usage(fields.get("ddr", ""))
    return ChipRow(
        npu=int(fields["npu"]),
        chip=int(fields.get("chip", "0")),
        device=_number(fields.get("device", "")),
        name=fields["name"],
        health=fields["health"],
        busy_percent=_number(fields.get("busy") or fields["utilisation"]),
        bus="" if bus in ("NA", "-") else bus,
        hbm_used=hbm_used,
        hbm_total=hbm_total,
        ddr_used=ddr_used,
        ddr_total=ddr_total,
    )


def _processes(rows: list[str], npus: set[int]) -> tuple[tuple[NpuProcessRow, ...], set[int]]:
    """Return the processes, and those `npus` that have no row. `rows`: the heading, then the lines below it."""
    process_columns = columns(_cells(rows[0]))
    if process_columns is None or not {"npu", "pid"} <= set(process_columns.fields):
        raise _UnknownRowError(rows[0])
    if len({"megabytes", "bytes"} & set(process_columns.fields)) != 1:
        raise _UnknownRowError(rows[0])
    processes, unlisted = [], set(npus)
    for line in rows[1:]:
        values = _cells(line)
        if idle_match := _FREE.fullmatch(values[0]):
            unlisted -= npus if idle_match.group(1) is None else {int(idle_match.group(1))}
            continue
        fields = process_columns.read(values)
        if fields is None:
            raise _UnknownRowError(line)
        processes.append(_process(fields))
        unlisted.discard(int(fields["npu"]))
    return tuple(processes), unlisted


def _process(fields: dict[str, str]) -> NpuProcessRow:
    size = _number(fields.get("bytes", ""))
    return NpuProcessRow(
        npu=int(fields["npu"]),
        chip=int(fields.get("chip", "0")),
        pid=int(fields["pid"]),
        name=fields.get("process", "")[:60],
        memory=_number(fields.get("megabytes", "")) if size is None else size >> 20,
    )
