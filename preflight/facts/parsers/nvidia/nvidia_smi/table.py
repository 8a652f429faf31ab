"""The table of plain `nvidia-smi` (drivers 418 to 615), used if the output of -q was not saved.

A GPU has as many lines as the heading. The heading names each column. An unknown column makes the table unreadable,
since its values could be confused. The width of columns differs by driver, so they are split at the | between them. The
tool may shorten names ("NVIDIA GeForce ...").
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import known, trouble
from preflight.facts.parsers.nvidia.nvidia_smi.tree import bus_address, first_repeated
from preflight.facts.reading import Missing
from preflight.model.text import quote

LONGEST = 1 << 20  # characters


@dataclass(frozen=True)
class GpuRow:
    """A GPU of the table. None: the table says N/A or ERR!.

    `persistence`: None on Windows, as the table has the driver model in its place. `ecc_uncorrected`: volatile memory
    errors; None if ECC is off, or if the GPU is in MIG mode. Memory in MiB, power in watts, temperature in °C; `fan`
    and `busy` in percent.
    """

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
class GpuProcessRow:
    gpu: int  # index
    pid: int
    kind: str
    name: str  # shortened by the tool; "" if it is not printed
    memory: int | None  # MiB


@dataclass(frozen=True)
class NvidiaSmiTable:
    """The whole table. `driver`: of the kernel module. `cuda`: the newest CUDA that the driver supports.

    `processes` None: there is no table of processes, though the tool always prints one. `unread`: cells without a
    value.
    """

    driver: str | None
    cuda: str | None
    gpus: tuple[GpuRow, ...]
    processes: tuple[GpuProcessRow, ...] | None
    unread: tuple[Missing, ...] = ()


class _UnknownLineError(Exception):
    def __init__(self, line: str) -> None:
        super().__init__(f"nvidia-smi: {quote(line)} is not recognized")


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


# Driver 610 names the two versions after their components: the kernel module and CUDA's user-mode driver.
_DRIVER = _pattern(r"\b(?:Driver|KMD) Version: {1,40}(\S{1,40})")
_CUDA = _pattern(r"\bCUDA (?:UMD )?Version: {1,40}(\S{1,40})")
_VERSION = _pattern(r"[0-9]{1,6}(?:\.[0-9]{1,6}){1,3}")
_FRAME = ("|", "+")
_RULE = _pattern(r"[+|][-=+]*[+|]")
_END = _pattern(r"\+[-=+]*[+|]")
_MIG_TITLE, _PROCESSES_TITLE = _pattern("MIG devices:"), _pattern(r"^\| Processes:")
_HEADINGS = (
    (_pattern(r"GPU +Name +(?:Persistence-M|Driver-Model|TCC/WDDM)"), "Bus-Id Disp.A", "Volatile Uncorr. ECC"),
    (_pattern(r"Fan +Temp +Perf +Pwr:Usage/Cap"), "Memory-Usage", "GPU-Util Compute M."),
    (_pattern(""), "", "MIG M."),
)
_FIRST = _pattern(r"([0-9]{1,3})  ?(\S.{0,60}?) +(On|Off|N/A|ERR!|WDDM|TCC|MCDM)")
_BUS = _pattern(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7]) +(?:On|Off|N/A|ERR!)")
_SECOND = _pattern(r"(\S{1,8}) +(\S{1,8}) +(P[0-9]{1,2}|N/A|ERR!) +(\S{1,12}(?: Error\]?)?) {0,4}/ {0,4}(\S{1,12})")
_MEMORY = _pattern(r"(\S{1,12}) {0,4}/ +(\S{1,12})")
_NO_MEMORY = _pattern(r"[A-Za-z\[][\w !/\]]{0,30}")
_BUSY = _pattern(r"(\S{1,8}) +([\w\[][\w. /!\]]{0,20})")
_ABSENT = ("N/A", "[N/A]", "Not Supported", "[Not Supported]")
_PERCENT, _CELSIUS, _WATT, _MIB = (_pattern(rf"([0-9]{{1,9}}){unit}") for unit in ("%", "C", "W", "MiB"))
_COUNT = _pattern(r"([0-9]{1,15})")
_SWITCH = {"On": True, "Off": False, "Enabled": True, "Disabled": False}
_MIG = ("Enabled", "Enabled*")  # with a star: from the next reset on
# The heading's lines of the process table, with single blanks → the pattern of a line below it.
_LAST = r" +([A-Z+]{1,5}|N/A) +(?:(\S.{0,120}?) +)?([0-9]{1,9}MiB|N/A|\[N/A\]|ERR!)"
_INSTANCE = r"(?:N/A|[0-9]{1,3})"
_PROCESSES = {
    ("GPU GI CI PID Type Process name GPU Memory", "ID ID Usage"): _pattern(
        rf"([0-9]{{1,3}}) +{_INSTANCE} +{_INSTANCE} +([0-9]{{1,10}})" + _LAST
    ),
    ("GPU PID Type Process name Usage",): _pattern(r"([0-9]{1,3}) +([0-9]{1,10})" + _LAST),
}
_NO_NAME = ("Insufficient Permissions", "[Insufficient Permissions]")  # as Windows has it
_NO_PROCESSES = _pattern(r"([0-9]{1,3}) +Not Supported")


def table(text: str) -> NvidiaSmiTable | Missing:
    """Parse plain `nvidia-smi`. A table without its closing line was cut and is not trusted."""
    lines = [line.strip() for line in text[:LONGEST].splitlines()]
    frame_lines = [line for line in lines if line.startswith(_FRAME)]
    title = next((line for line in frame_lines if "NVIDIA-SMI" in line), None)
    if title is None:
        return Missing(trouble(text))
    if not _END.fullmatch(frame_lines[-1]):
        return Missing("the table of nvidia-smi is cut off")
    unread = [Missing(message) for message in _messages(lines)]
    try:
        return _table(title, frame_lines, unread)
    except _UnknownLineError as error:
        return Missing(str(error))


def _messages(lines: list[str]) -> Iterator[str]:
    """Yield a known message around the table. In the table, processes may have any name."""
    if message := known("\n".join(line for line in lines if not line.startswith(_FRAME))):
        yield message


def _table(title: str, frame_lines: list[str], unread: list[Missing]) -> NvidiaSmiTable | Missing:
    driver, cuda = _versions(title, unread)
    rows = [line for line in frame_lines if not line.startswith("+") and not _RULE.fullmatch(line)]
    rows = rows[rows.index(title) + 1 :]
    end = _position(rows, _PROCESSES_TITLE)
    gpus = _gpus(rows[: min(_position(rows, _MIG_TITLE), end)], unread)
    processes = _processes(rows[end + 1 :], unread) if end < len(rows) else None
    repeated = first_repeated(gpu.index for gpu in gpus)
    if repeated is not None:
        return Missing(f"nvidia-smi lists GPU {repeated} twice: several tables are mixed together")
    if not gpus:
        return Missing("the table of nvidia-smi lists no GPU")
    if end == len(rows):
        unread.append(Missing("nvidia-smi printed no table of processes: GPUs may be cut off, too"))
    return NvidiaSmiTable(driver, cuda, gpus, processes, tuple(unread))


def _position(rows: list[str], title: re.Pattern[str]) -> int:
    """Return the position of the title; the number of rows if there is none."""
    return next((index for index, line in enumerate(rows) if title.search(line)), len(rows))


def _versions(title: str, unread: list[Missing]) -> tuple[str | None, str | None]:
    """Return the versions of the driver and of CUDA. Drivers before 410 do not name the second."""
    driver, cuda = _DRIVER.search(title), _CUDA.search(title)
    if driver is None:
        raise _UnknownLineError(title)
    versions = []
    for name, match in (("the driver's version", driver), ("CUDA's version", cuda)):
        value = match.group(1) if match else "N/A"
        if value not in _ABSENT and not _VERSION.fullmatch(value):
            unread.append(Missing(f"nvidia-smi: {name} is {quote(value)}, which is not a valid value"))
        versions.append(value if _VERSION.fullmatch(value) else None)
    return versions[0], versions[1]


def _gpus(rows: list[str], unread: list[Missing]) -> tuple[GpuRow, ...]:
    """Parse the lines below the title: those of the heading, then the same number for each GPU."""
    height = 3 if any("MIG M." in line for line in rows[:3]) else 2
    for line, (first, *titles) in zip(rows, _HEADINGS[:height], strict=False):
        cells = _cells(line)
        if not first.fullmatch(cells[0]) or [" ".join(cell.split()) for cell in cells[1:]] != titles:
            raise _UnknownLineError(line)
    body = rows[height:]
    if len(body) % height:
        raise _UnknownLineError(body[-1])
    return tuple(_gpu(body[start : start + height], unread) for start in range(0, len(body), height))


def _cells(line: str) -> list[str]:
    cells = [cell.strip() for cell in line[1:-1].split("|")]
    if len(line) < 2 or line[-1] != "|" or len(cells) != 3:
        raise _UnknownLineError(line)
    return cells


class _Cells:
    """The values of one GPU's cells, with notes on cells without a valid value."""

    def __init__(self, index: int, unread: list[Missing]) -> None:
        self._index, self._unread = index, unread

    def refuse(self, name: str, cell: str) -> None:
        self._unread.append(
            Missing(f"nvidia-smi, GPU {self._index}: {name} is {quote(cell)}, which is not a valid value")
        )

    def number(self, pattern: re.Pattern[str], name: str, cell: str) -> int | None:
        if match := pattern.fullmatch(cell):
            return int(match.group(1))
        if cell not in _ABSENT:
            self.refuse(name, cell)
        return None

    def errors(self, cell: str, mig: str) -> int | None:
        """Return the count of memory errors; None for ECC's mode, which is "Off", or "On" in MIG mode."""
        if cell == "Off" or (cell == "On" and mig in _MIG):
            return None
        return self.number(_COUNT, "the count of memory errors", cell)

    def memory(self, cell: str) -> tuple[int | None, int | None]:
        """Return the used and the total memory. GPUs that share the host's memory have "Not Supported" here."""
        if match := _MEMORY.fullmatch(cell):
            used = self.number(_MIB, "the memory in use", match.group(1))
            return used, self.number(_MIB, "the memory", match.group(2))
        if cell not in _ABSENT:
            self.refuse("the memory", cell)
        return None, None

    def words(self, name: str, cell: str, *known_words: str) -> str | None:
        """Return a word; without `known_words`, any word is valid."""
        if cell in _ABSENT:
            return None
        if cell == "ERR!" or (known_words and cell not in known_words):
            self.refuse(name, cell)
            return None
        return cell


def _gpu(lines: list[str], unread: list[Missing]) -> GpuRow:
    rows = [*(_cells(line) for line in lines), ["", "", "N/A"]]  # without MIG there is no third line
    first, bus = _FIRST.fullmatch(rows[0][0]), _BUS.fullmatch(rows[0][1])
    second, busy = _SECOND.fullmatch(rows[1][0]), _BUSY.fullmatch(rows[1][2])
    if first is None or bus is None:
        raise _UnknownLineError(lines[0])
    if rows[2][:2] != ["", ""]:
        raise _UnknownLineError(lines[2])
    if second is None or busy is None or not (_MEMORY.fullmatch(rows[1][1]) or _NO_MEMORY.fullmatch(rows[1][1])):
        raise _UnknownLineError(lines[1])
    index, mig = int(first.group(1)), rows[2][2]
    cells = _Cells(index, unread)
    state = cells.words("the performance state", second.group(3))
    mode = cells.words("the MIG mode", mig, "Enabled", "Disabled")  # "Disabled*": pending, known from documents only
    fan = cells.number(_PERCENT, "the fan", second.group(1))
    temperature = cells.number(_CELSIUS, "the temperature", second.group(2))
    draw = cells.number(_WATT, "the power", second.group(4))
    limit = cells.number(_WATT, "the power's limit", second.group(5))
    used, total = cells.memory(rows[1][1])
    return GpuRow(
        index=index,
        name=first.group(2),
        bus=bus_address(*bus.groups()),
        persistence=_SWITCH.get(first.group(3)),
        fan=fan,
        temperature=temperature,
        performance_state=state,
        power_draw=draw,
        power_limit=limit,
        memory_used=used,
        memory_total=total,
        busy=cells.number(_PERCENT, "the use", busy.group(1)),
        ecc_uncorrected=cells.errors(rows[0][2], mig),
        compute_mode=cells.words("the compute mode", busy.group(2)),
        mig=_SWITCH.get(mode or ""),
    )


def _processes(rows: list[str], unread: list[Missing]) -> tuple[GpuProcessRow, ...] | None:
    """Parse the lines of the heading, then a line per process, or a line for none. None: the driver lists none."""
    heading = _processes_heading(rows)
    processes: list[GpuProcessRow] = []
    is_silent = False
    for line in rows[len(heading) :]:
        text = _single_blanks(line)
        if match := _NO_PROCESSES.fullmatch(text):
            unread.append(Missing(f"nvidia-smi, GPU {match.group(1)}: the driver does not list its processes"))
            is_silent = True
        elif text != "No running processes found":
            processes.append(_process(line, _PROCESSES[heading]))
    return tuple(processes) if processes or not is_silent else None


def _single_blanks(line: str) -> str:
    return " ".join(line.strip("|").split())


def _processes_heading(rows: list[str]) -> tuple[str, ...]:
    for heading in _PROCESSES:
        if tuple(map(_single_blanks, rows[: len(heading)])) == heading:
            return heading
    raise _UnknownLineError(rows[0] if rows else "| Processes:")


def _process(line: str, pattern: re.Pattern[str]) -> GpuProcessRow:
    match = pattern.fullmatch(line[1:-1].strip() if line.endswith("|") else "")
    if match is None:
        raise _UnknownLineError(line)
    gpu, pid, kind, name, memory_text = match.groups()
    memory = _MIB.fullmatch(memory_text)
    name_text = "" if name in (None, *_NO_NAME) else name
    return GpuProcessRow(int(gpu), int(pid), kind, name_text, int(memory.group(1)) if memory else None)
