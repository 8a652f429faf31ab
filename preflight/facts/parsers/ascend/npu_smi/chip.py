"""Output of `npu-smi info -t …` for one chip.

Queries take `-i NPU -c CHIP`, as without `-c` a card answers for all its chips. `-t board` is called without `-c`, too,
because only then it prints the driver's version.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

from preflight.facts.parsers.ascend.npu_smi.error_messages import trouble
from preflight.facts.parsers.ascend.npu_smi.key_values import pairs
from preflight.facts.reading import Found
from preflight.facts.sections.chips import Board, Hccs, Health, SuperPod, Usages
from preflight.model.text import quote

_NUMBER = re.compile(r"[0-9]{1,10}")
_HEALTH = ("OK", "Warning", "Alarm", "Critical", "UNKNOWN", "NA")
_ALARM = re.compile(r"(0[xX])?[0-9A-Fa-f]{1,16}")
_LANES = re.compile(r"\[([0-9 \t]{0,390})\]")
_PROCESS = re.compile(
    r"Process id:([0-9]{1,9})[ \t]+Process name:(.{0,60}?)[ \t]*Process memory\(MB\):([0-9]{1,15})"
    r"(?:[ \t]+Process id in container:(?:[0-9]{1,9}|NA|-))?"
)


@dataclass(frozen=True)
class ChipProcess:
    """A process on a chip. `chip`: None if the answer does not name it, as after `-c`. `memory` in MB."""

    pid: int
    name: str
    memory: int
    chip: int | None = None


T = TypeVar("T")


class _UnknownAnswerError(Exception):
    pass


def _reading(parse: Callable[[str], T]) -> Callable[[str], Found[T]]:
    """Return a parser of readings. An _UnknownAnswerError of `parse` is the reading's error."""

    @wraps(parse)
    def read(text: str) -> Found[T]:
        try:
            return Found(parse(text))
        except _UnknownAnswerError as error:
            return Found(error=str(error))

    return read


def _fields(text: str, query: str, *needed: str) -> dict[str, str]:
    """Return the answer to one query by its keys, with "" for NA, and without the card's controller at its end."""
    values: dict[str, str] = {}
    for key, value in pairs(text):
        if key == "Chip Name" and value.lower() == "mcu":
            break
        if key in values:
            raise _UnknownAnswerError(f"npu-smi info -t {query} answers for several chips at once: ask with -c")
        values[key] = "" if value == "NA" else value
    if not any(key in values for key in needed):
        raise _UnknownAnswerError(trouble(text, f"info -t {query}"))
    return values


def _number(values: dict[str, str], key: str, query: str, most: int = 1 << 32) -> int | None:
    value = values.get(key, "")
    if not value:
        return None
    if not _NUMBER.fullmatch(value) or int(value) > most:
        raise _UnknownAnswerError(f"npu-smi info -t {query}: {quote(f'{key} : {value}')} is not recognized")
    return int(value)


@_reading
def health(text: str) -> Health:
    """Parse `-t health`. Newer tools write `Health` for `Health Status`. Alarm codes are eight hexadecimal digits."""
    values = _fields(text, "health", "Health Status", "Health")
    status = values.get("Health Status", values.get("Health")) or "NA"
    codes = tuple(code for code in re.split(r"[\s,;]+", values.get("Error Code", "")) if code)
    if status not in _HEALTH or not all(_ALARM.fullmatch(code) for code in codes):
        raise _UnknownAnswerError(f"npu-smi info -t health: {quote(' '.join((status, *codes)))} is not recognized")
    return Health(status, codes, values.get("Error Information", "")[:200])


@_reading
def board(text: str) -> Board:
    """Parse `-t board`. With `-c` it tells the chip's data, and neither the driver's version nor whether it fits."""
    values = _fields(text, "board", "Software Version", "Firmware Version", "Board ID")
    return Board(
        driver=values.get("Software Version", "")[:60],
        firmware=values.get("Firmware Version", "")[:60],
        compatible=values.get("Compatibility", "")[:60],
        board_id=values.get("Board ID", "")[:60],
        bus=values.get("PCIe Bus Info", "")[:60],
        serial=values.get("Serial Number", "")[:60],
        chips=_number(values, "Chip Count", "board", 64),
    )


def _usages(text: str, query: str) -> Usages:
    values = _fields(text, query, "HBM Usage Rate(%)", "Aicore Usage Rate(%)")
    return Usages(
        hbm_capacity=_number(values, "HBM Capacity(MB)", query) or None,
        hbm=_number(values, "HBM Usage Rate(%)", query, 100),
        aicore=_number(values, "Aicore Usage Rate(%)", query, 100),
    )


@_reading
def usages(text: str) -> Usages:
    """Parse `-t usages -i N -c C`: what is in use of a chip, in percent, and the size of its HBM."""
    return _usages(text, "usages")


@_reading
def common(text: str) -> Usages:
    """Parse `-t common`: as `-t usages`, without the capacity."""
    return _usages(text, "common")


@_reading
def superpod(text: str) -> SuperPod:
    """Parse `-t spod-info` of 910_93 (format known from the driver's source only)."""
    keys = ("SDID", "Super Pod ID", "Server Index", "Super Pod Size")
    values = _fields(text, "spod-info", *keys)
    sdid, pod, server, size = (_number(values, key, "spod-info") for key in keys)
    if sdid is None or pod is None or server is None or size is None:
        printed = ", ".join(key for key in keys if values.get(key))
        raise _UnknownAnswerError(f"npu-smi info -t spod-info printed only {printed}")
    return SuperPod(sdid, pod, server, size)


@_reading
def hccs(text: str) -> Hccs:
    """Parse `-t hccs`: a value a link in square brackets. Known from the driver's source and others' tests only."""
    values = _fields(text, "hccs", "hccs health status")
    status = values["hccs health status"]
    if status not in ("OK", "NOK"):
        raise _UnknownAnswerError(f"npu-smi info -t hccs: {quote(f'hccs health status : {status}')} is not recognized")
    lanes, speeds, retries, errors = (
        _links(values, "hccs " + name) for name in ("link lane list", "link speed", "retry count", "error count")
    )
    return Hccs(
        status,
        lanes,
        tuple(map(int, speeds)),
        tuple(map(int, retries)),
        tuple(map(int, errors)),
        _number(values, "hccs first error lane", "hccs", 255),
    )


def _links(values: dict[str, str], key: str) -> tuple[str, ...]:
    value = values.get(key, "[]")
    match = _LANES.fullmatch(value)
    if match is None or not all(len(word) <= 20 for word in match.group(1).split()):
        raise _UnknownAnswerError(f"npu-smi info -t hccs: {quote(f'{key} : {value}')} is not recognized")
    return tuple(match.group(1).split())


@_reading
def processes(text: str) -> tuple[ChipProcess, ...]:
    """Parse `-t proc-mem`: a line a process, or a line for none; without `-c` a `Chip ID` after each chip's."""
    processes_: list[ChipProcess] = []
    chip_processes: list[tuple[int, str, int]] = []
    is_understood = False
    for line in map(str.strip, text[:100_000].split("\n")):
        if match := _PROCESS.fullmatch(line):
            chip_processes.append((int(match.group(1)), match.group(2).strip(), int(match.group(3))))
        elif match := re.fullmatch(r"Chip ID[ \t]{1,40}:[ \t]{0,40}([0-9]{1,3})", line):
            processes_ += [ChipProcess(*process, chip=int(match.group(1))) for process in chip_processes]
            chip_processes = []
        elif line.startswith("Process id"):
            raise _UnknownAnswerError(f"npu-smi info -t proc-mem: {quote(line)} is not recognized")
        elif line != "No process in device.":
            continue
        is_understood = True
    if not is_understood:
        raise _UnknownAnswerError(trouble(text, "info -t proc-mem"))
    return (*processes_, *(ChipProcess(*process) for process in chip_processes))
