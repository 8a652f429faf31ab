"""The table of `npu-smi info`: 910A from driver 20.x on, 910B, 910_93 and 310P.

Two lines a chip: the card's (NPU, name, health, power …), then the chip's (chip, bus id, use). 910_93 prints the
card's line once a die, and may print it once for both. Widths differ by generation, so cells are told apart by what
they hold, and columns by the heading: the physical id (`Phy-ID`, `Device`) and HBM are not there for all.
"""

import re
from dataclasses import dataclass

from preflight.facts.npu_smi.trouble import trouble
from preflight.facts.quote import quote
from preflight.facts.types import Missing


@dataclass(frozen=True)
class ChipRow:
    """One chip of the table. `device`: physical id, where the table has one. Figures are None where it says NA."""

    npu: int
    chip: int
    device: int | None
    name: str
    health: str
    busy_percent: int | None
    bus: str = ""
    hbm_used: int | None = None  # MB
    hbm_total: int | None = None


@dataclass(frozen=True)
class ProcessRow:
    npu: int
    chip: int
    pid: int
    name: str  # empty where the tool cannot see it, as in another PID namespace
    memory: int | None = None  # MB


@dataclass(frozen=True)
class Table:
    """`processes` is None where the tool printed no process table: then nobody knows who is busy. `untold`: NPUs that a
    process table leaves out; it has a row a process, or a line that says there is none, for every NPU."""

    version: str
    chips: tuple[ChipRow, ...]
    processes: tuple[ProcessRow, ...] | None
    untold: tuple[int, ...] = ()


class _NotUnderstoodError(Exception):
    """`line` is not what the tables known so far have in its place."""

    def __init__(self, line: str) -> None:
        super().__init__(f"npu-smi info: {quote(line)} is not understood")


_N = r"(\d{1,9})"
_AMOUNT = r"(\d{1,9}|NA|-)"
_USE = _AMOUNT + r"\s*/\s*" + _AMOUNT  # "3402 / 65536", from five digits on "52553/ 65536"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


_VERSION = _pattern(r"npu-smi\s+\S{1,60}\s+Version:\s*(\S{1,60})")
_RULE = _pattern(r"\+[-=+]*\+")
_CARD = _pattern(_N + r"\s+([A-Za-z0-9]*[A-Za-z][\w-]{0,40})")
_HEALTH = _pattern(r"[A-Za-z][A-Za-z ]{0,19}|-")
_CHIP_HEADING = _pattern(r"Chip(\s+(?:Phy-ID|Device))?")
_USE_HEADING = _pattern(r"AICore\(%\)\s+Memory-Usage\(MB\)(\s+HBM-Usage\(MB\))?")
_CHIP = {False: _pattern(_N + "()"), True: _pattern(_N + r"\s+" + _N)}  # by whether the physical id is printed
_BUS = _pattern(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]|NA|-")
_FIGURES = {False: _pattern(rf"{_AMOUNT}\s+{_USE}()()"), True: _pattern(rf"{_AMOUNT}\s+{_USE}\s+{_USE}")}  # with HBM
_PROCESS_HEADING = _pattern(r"Process memory\((MB|B)\)")
_PAIR = _pattern(_N + r"\s+" + _N)
_FREE = _pattern(r"No running processes found in NPU " + _N)


def info(text: str) -> Table | Missing:
    """`npu-smi info`. A table without its closing line was cut and is not trusted."""
    drawn = [line.strip() for line in text.splitlines() if "|" in line or line.lstrip().startswith("+")]
    version = next((match.group(1) for line in drawn if (match := _VERSION.search(line))), None)
    if version is None:
        return Missing(trouble(text))
    if not _RULE.fullmatch(drawn[-1]):
        return Missing("the table of npu-smi info is cut")
    rows = [line for line in drawn if not _RULE.fullmatch(line)]
    heading = next((at for at, line in enumerate(rows) if "Process id" in line), None)
    try:
        chips = _chips(rows[1:heading])
        if not chips:
            return Missing("npu-smi info lists no chip")
        if heading is None:
            return Table(version, chips, None)
        processes, told = _processes(rows[heading], rows[heading + 1 :])
    except _NotUnderstoodError as error:
        return Missing(str(error))
    return Table(version, chips, processes, tuple(sorted({row.npu for row in chips} - told)))


def _cells(line: str) -> list[str]:
    if len(line) < 2 or line[0] != "|" or line[-1] != "|":
        raise _NotUnderstoodError(line)
    return [cell.strip() for cell in line[1:-1].split("|")]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _chips(rows: list[str]) -> tuple[ChipRow, ...]:
    """`rows`: the two of the heading, then those of cards and chips."""
    if not rows:
        return ()
    with_device, with_hbm = _columns(rows[:2])
    found: dict[tuple[int, int], ChipRow] = {}
    card: tuple[int, str, str] | None = None
    without_chip = ""  # the card's line whose chip has not come yet
    for line in rows[2:]:
        cells = _cells(line)
        if len(cells) != 3:
            raise _NotUnderstoodError(line)
        if match := _CARD.fullmatch(cells[0]):
            if without_chip or not _HEALTH.fullmatch(cells[1]):
                raise _NotUnderstoodError(without_chip or line)
            card, without_chip = (int(match.group(1)), match.group(2), cells[1]), line
            continue
        chip, figures = _CHIP[with_device].fullmatch(cells[0]), _FIGURES[with_hbm].fullmatch(cells[2])
        if card is None or chip is None or figures is None or not _BUS.fullmatch(cells[1]):
            raise _NotUnderstoodError(line)
        busy, _, _, used, total = map(_number, figures.groups(default=""))
        place = (card[0], int(chip.group(1)))
        if place in found or (busy or 0) > 100:
            raise _NotUnderstoodError(line)
        found[place] = ChipRow(
            *place, _number(chip.group(2)), card[1], card[2], busy, "" if cells[1] in ("NA", "-") else cells[1],
            used if total else None, total or None,
        )  # fmt: skip
        without_chip = ""
    devices = [row.device for row in found.values() if row.device is not None]
    if without_chip or len(set(devices)) != len(devices):
        raise _NotUnderstoodError(without_chip or rows[-1])
    return tuple(found.values())


def _columns(heading: list[str]) -> tuple[bool, bool]:
    """Whether the table has physical ids, and whether it has HBM."""
    cells = [_cells(line) for line in heading]
    if [len(line) for line in cells] != [3, 3] or cells[0][1] != "Health" or cells[1][1] != "Bus-Id":
        raise _NotUnderstoodError(heading[0])
    chip, use = _CHIP_HEADING.fullmatch(cells[1][0]), _USE_HEADING.fullmatch(cells[1][2])
    if chip is None or use is None:
        raise _NotUnderstoodError(heading[1])
    return bool(chip.group(1)), bool(use.group(1))


def _processes(heading: str, rows: list[str]) -> tuple[tuple[ProcessRow, ...], set[int]]:
    """The processes, and the NPUs that the table says something of."""
    unit = _PROCESS_HEADING.search(heading)
    if unit is None:
        raise _NotUnderstoodError(heading)
    found, told = [], set()
    for line in rows:
        cells = _cells(line)
        if free := _FREE.fullmatch(cells[0]):
            told.add(int(free.group(1)))
            continue
        place = _PAIR.fullmatch(cells[0])
        # a process may have a | in its name
        if len(cells) < 4 or not place or not re.fullmatch(r"[0-9]{1,9}", cells[1]):
            raise _NotUnderstoodError(line)
        if not re.fullmatch(r"[0-9]{1,15}|NA|-|", cells[-1]):
            raise _NotUnderstoodError(line)
        memory = _number(cells[-1])
        if memory is not None and unit.group(1) == "B":
            memory >>= 20
        npu, chip = int(place.group(1)), int(place.group(2))
        found.append(ProcessRow(npu, chip, int(cells[1]), "|".join(cells[2:-1])[:60], memory))
        told.add(npu)
    return tuple(found), told
