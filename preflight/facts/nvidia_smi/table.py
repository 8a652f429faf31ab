"""The table of plain `nvidia-smi` (drivers 525 and 550 seen): for where -q was not saved.

Three lines a GPU. Columns differ in width by driver and are told apart by the | between them. Names may be cut short by
the tool ("NVIDIA GeForce ...").
"""

import re
from dataclasses import dataclass

from preflight.facts.found import Missing
from preflight.facts.nvidia_smi.tree import bus_address
from preflight.facts.nvidia_smi.trouble import known, trouble
from preflight.facts.quote import quote

LONGEST = 1 << 20  # characters


@dataclass(frozen=True)
class GpuRow:
    """None: the table says N/A or ERR!. `ecc_uncorrected`: volatile memory errors. Memory in MiB, power in watts,
    temperature in °C; `fan` and `busy` in percent."""

    index: int
    name: str
    bus: str
    persistence: bool | None
    fan: int | None
    temperature: int | None
    performance_state: str | None
    power_draw: int | None
    power_limit: int | None
    memory_used: int | None
    memory_total: int | None
    busy: int | None
    ecc_uncorrected: int | None
    compute_mode: str | None
    mig: bool | None


@dataclass(frozen=True)
class ProcessRow:
    gpu: int  # index
    pid: int
    kind: str
    name: str  # cut short by the tool
    memory: int | None  # MiB


@dataclass(frozen=True)
class Table:
    """`processes`: None: no table of them, though the tool always prints one. `unread`: cells without a value."""

    driver: str
    cuda: str | None
    gpus: tuple[GpuRow, ...]
    processes: tuple[ProcessRow, ...] | None
    unread: tuple[Missing, ...] = ()


class _NotUnderstoodError(Exception):
    def __init__(self, line: str) -> None:
        super().__init__(f"nvidia-smi: {quote(line)} is not understood")


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


_HEADING = _pattern(r"NVIDIA-SMI \S{1,40} {1,40}Driver Version: (\S{1,40}) {1,40}CUDA Version: (\S{1,40})")
_RULE = _pattern(r"\+[-=+]*\+|\|[-=+]*\|")
_FIRST = _pattern(r"([0-9]{1,3})  (\S.{0,60}?) +(On|Off|N/A|ERR!)")
_BUS = _pattern(r"([0-9A-F]{8}):([0-9A-F]{2}):([0-9A-F]{2})\.([0-7]) +(?:On|Off|N/A|ERR!)")
_SECOND = _pattern(r"(\S{1,8}) +(\S{1,8}) +(P[0-9]{1,2}|N/A|ERR!) +(\S{1,12}(?: Error\]?)?) ?/ +(\S{1,12})")
_MEMORY = _pattern(r"(\S{1,12}) ?/ +(\S{1,12})")
_BUSY = _pattern(r"(\S{1,8}) +(\S[\w. ]{0,20})")
_PROCESS = _pattern(
    r"([0-9]{1,3}) +(?:N/A|[0-9]{1,3}) +(?:N/A|[0-9]{1,3}) +([0-9]{1,10}) +([A-Z+]{1,5}) +(\S.{0,120}?)? +(\S{1,12})"
)
_PERCENT, _CELSIUS, _WATT, _MIB = (_pattern(rf"([0-9]{{1,9}}){unit}") for unit in ("%", "C", "W", "MiB"))
_COUNT = _pattern(r"([0-9]{1,15})")
_SWITCH = {"On": True, "Off": False, "Enabled": True, "Disabled": False}


def table(text: str) -> Table | Missing:
    """Plain `nvidia-smi`. A table without its closing line was cut and is not trusted."""
    drawn = [line.strip() for line in text[:LONGEST].splitlines() if line.lstrip().startswith(("|", "+"))]
    heading = next((match for line in drawn if (match := _HEADING.search(line))), None)
    if heading is None:
        return Missing(trouble(text))
    if not drawn[-1].startswith("+") or not _RULE.fullmatch(drawn[-1]):
        return Missing("the table of nvidia-smi is cut")
    rows = [line for line in drawn if not line.startswith("+") and not _RULE.fullmatch(line)]
    start = next((at for at, line in enumerate(rows) if "MIG M." in line), None)
    mig = next((at for at, line in enumerate(rows) if "MIG devices:" in line), len(rows))
    end = next((at for at, line in enumerate(rows) if "Processes:" in line), len(rows))
    unread: list[Missing] = [Missing(message)] if (message := known(text[:LONGEST])) else []
    try:
        if start is None:
            raise _NotUnderstoodError(rows[min(1, len(rows) - 1)])
        body = rows[start + 1 : min(mig, end)]
        if len(body) % 3:
            raise _NotUnderstoodError(body[-1])
        gpus = tuple(_gpu(body[at : at + 3], unread) for at in range(0, len(body), 3))
        if repeated := [gpu.index for at, gpu in enumerate(gpus) if gpu.index in {row.index for row in gpus[:at]}]:
            return Missing(f"nvidia-smi lists GPU {repeated[0]} twice: several tables are mixed")
        processes = _processes(rows[end + 1 :]) if end < len(rows) else None
    except _NotUnderstoodError as error:
        return Missing(str(error))
    if not gpus:
        return Missing("the table of nvidia-smi lists no GPU")
    if processes is None:
        unread.append(Missing("nvidia-smi printed no table of processes: GPUs may be cut off, too"))
    cuda = heading.group(2)
    return Table(heading.group(1), None if cuda == "N/A" else cuda, gpus, processes, tuple(unread))


def _cells(line: str) -> list[str]:
    if len(line) < 2 or line[-1] != "|":
        raise _NotUnderstoodError(line)
    return [cell.strip() for cell in line[1:-1].split("|")]


def _gpu(lines: list[str], unread: list[Missing]) -> GpuRow:
    rows = [_cells(line) for line in lines]
    for line, row in zip(lines, rows, strict=True):
        if len(row) != 3:
            raise _NotUnderstoodError(line)
    first, bus = _FIRST.fullmatch(rows[0][0]), _BUS.fullmatch(rows[0][1])
    second, memory, busy = _SECOND.fullmatch(rows[1][0]), _MEMORY.fullmatch(rows[1][1]), _BUSY.fullmatch(rows[1][2])
    if first is None or bus is None:
        raise _NotUnderstoodError(lines[0])
    if second is None or memory is None or busy is None or rows[2][:2] != ["", ""]:
        raise _NotUnderstoodError(lines[1] if rows[2][:2] == ["", ""] else lines[2])
    index = int(first.group(1))

    def number(pattern: re.Pattern[str], name: str, cell: str) -> int | None:
        if match := pattern.fullmatch(cell):
            return int(match.group(1))
        if cell != "N/A":
            unread.append(Missing(f"nvidia-smi, GPU {index}: {name} is {quote(cell)}, which is no value"))
        return None

    state, mode, mig = second.group(3), busy.group(2), rows[2][2]
    if state == "ERR!":
        unread.append(Missing(f"nvidia-smi, GPU {index}: the performance state is 'ERR!', which is no value"))
    if mig not in ("N/A", "Enabled", "Disabled"):  # "Disabled*": pending; seen in documents only
        unread.append(Missing(f"nvidia-smi, GPU {index}: the MIG mode is {quote(mig)}, which is no value"))
    return GpuRow(
        index=index,
        name=first.group(2),
        bus=bus_address(*bus.groups()),
        persistence=_SWITCH.get(first.group(3)),
        fan=number(_PERCENT, "the fan", second.group(1)),
        temperature=number(_CELSIUS, "the temperature", second.group(2)),
        performance_state=state if state.startswith("P") else None,
        power_draw=number(_WATT, "the power", second.group(4)),
        power_limit=number(_WATT, "the power's limit", second.group(5)),
        memory_used=number(_MIB, "the memory in use", memory.group(1)),
        memory_total=number(_MIB, "the memory", memory.group(2)),
        busy=number(_PERCENT, "the use", busy.group(1)),
        ecc_uncorrected=number(_COUNT, "the count of memory errors", rows[0][2]),
        compute_mode=None if mode == "N/A" else mode,
        mig=_SWITCH.get(mig),
    )


def _processes(rows: list[str]) -> tuple[ProcessRow, ...]:
    """`rows`: the two of the heading, then a process each, or a line that says there is none."""
    found = []
    for line in rows[2:]:
        cell = line[1:-1].strip() if line.endswith("|") else ""
        if cell == "No running processes found":
            continue
        match = _PROCESS.fullmatch(cell)
        if match is None:
            raise _NotUnderstoodError(line)
        gpu, pid, kind, name, said = match.groups()
        memory = _MIB.fullmatch(said)
        found.append(ProcessRow(int(gpu), int(pid), kind, name or "", int(memory.group(1)) if memory else None))
    return tuple(found)
