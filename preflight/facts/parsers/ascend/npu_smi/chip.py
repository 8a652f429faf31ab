"""What `npu-smi info -t …` says of one chip.

Ask with `-i NPU -c CHIP`: without `-c` a card answers for all its chips. `-t board` is asked without, too: only so it
tells the driver's version.
"""

import re
from dataclasses import dataclass

from preflight.facts.parsers.ascend.npu_smi.pairs import pairs
from preflight.facts.parsers.ascend.npu_smi.trouble import trouble
from preflight.facts.quote import quote
from preflight.facts.reading import Found
from preflight.facts.sections.chips import Board, Hccs, Health, SuperPod, Usages

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
    """`chip`: None where the answer does not say which, as after `-c`. `memory` in MB."""

    pid: int
    name: str
    memory: int
    chip: int | None = None


class _NotUnderstoodError(Exception):
    pass


def _fields(text: str, query: str, *needed: str) -> dict[str, str]:
    """The answer to one query by its keys, NA as nothing; of a card that ends with its controller, without that."""
    found: dict[str, str] = {}
    for key, value in pairs(text):
        if key == "Chip Name" and value.lower() == "mcu":
            break
        if key in found:
            raise _NotUnderstoodError(f"npu-smi info -t {query} answers for several chips at once: ask with -c")
        found[key] = "" if value == "NA" else value
    if not any(key in found for key in needed):
        raise _NotUnderstoodError(trouble(text, f"info -t {query}"))
    return found


def _number(found: dict[str, str], key: str, query: str, most: int = 1 << 32) -> int | None:
    value = found.get(key, "")
    if not value:
        return None
    if not _NUMBER.fullmatch(value) or int(value) > most:
        raise _NotUnderstoodError(f"npu-smi info -t {query}: {quote(f'{key} : {value}')} is not understood")
    return int(value)


def health(text: str) -> Found[Health]:
    """`-t health`. Newer tools write `Health` for `Health Status`. Alarm codes are eight hexadecimal digits."""
    try:
        found = _fields(text, "health", "Health Status", "Health")
    except _NotUnderstoodError as error:
        return Found(error=str(error))
    status = found.get("Health Status", found.get("Health")) or "NA"
    codes = tuple(code for code in re.split(r"[\s,;]+", found.get("Error Code", "")) if code)
    if status not in _HEALTH or not all(_ALARM.fullmatch(code) for code in codes):
        return Found(error=f"npu-smi info -t health: {quote(' '.join((status, *codes)))} is not understood")
    return Found(Health(status, codes, found.get("Error Information", "")[:200]))


def board(text: str) -> Found[Board]:
    """`-t board`. With `-c` it tells the chip's data, and neither the driver's version nor whether it fits."""
    try:
        found = _fields(text, "board", "Software Version", "Firmware Version", "Board ID")
        chips = _number(found, "Chip Count", "board", 64)
    except _NotUnderstoodError as error:
        return Found(error=str(error))
    return Found(
        Board(
            driver=found.get("Software Version", "")[:60], firmware=found.get("Firmware Version", "")[:60],
            compatible=found.get("Compatibility", "")[:60], board_id=found.get("Board ID", "")[:60],
            bus=found.get("PCIe Bus Info", "")[:60], serial=found.get("Serial Number", "")[:60], chips=chips,
        )
    )  # fmt: skip


def _used(text: str, query: str) -> Found[Usages]:
    try:
        found = _fields(text, query, "HBM Usage Rate(%)", "Aicore Usage Rate(%)")
        return Found(
            Usages(
                hbm_capacity=_number(found, "HBM Capacity(MB)", query) or None,
                hbm=_number(found, "HBM Usage Rate(%)", query, 100),
                aicore=_number(found, "Aicore Usage Rate(%)", query, 100),
            )
        )
    except _NotUnderstoodError as error:
        return Found(error=str(error))


def usages(text: str) -> Found[Usages]:
    """`-t usages -i N -c C`: what is in use of a chip, in percent, and the size of its HBM."""
    return _used(text, "usages")


def common(text: str) -> Found[Usages]:
    """`-t common`: as `-t usages`, without the capacity."""
    return _used(text, "common")


def superpod(text: str) -> Found[SuperPod]:
    """`-t spod-info` of 910_93 (format known from the driver's source only)."""
    keys = ("SDID", "Super Pod ID", "Server Index", "Super Pod Size")
    try:
        found = _fields(text, "spod-info", *keys)
        sdid, pod, server, size = (_number(found, key, "spod-info") for key in keys)
    except _NotUnderstoodError as error:
        return Found(error=str(error))
    if sdid is None or pod is None or server is None or size is None:
        return Found(error=f"npu-smi info -t spod-info said only {', '.join(key for key in keys if found.get(key))}")
    return Found(SuperPod(sdid, pod, server, size))


def hccs(text: str) -> Found[Hccs]:
    """`-t hccs` (format known from the driver's source and others' tests only): a value a link in square brackets."""
    try:
        found = _fields(text, "hccs", "hccs health status")
        status = found["hccs health status"]
        if status not in ("OK", "NOK"):
            raise _NotUnderstoodError(
                f"npu-smi info -t hccs: {quote(f'hccs health status : {status}')} is not understood"
            )
        lanes, speeds, retries, errors = (
            _links(found, "hccs " + name) for name in ("link lane list", "link speed", "retry count", "error count")
        )
        return Found(
            Hccs(
                status, lanes, tuple(map(int, speeds)), tuple(map(int, retries)),
                tuple(map(int, errors)), _number(found, "hccs first error lane", "hccs", 255),
            )
        )  # fmt: skip
    except _NotUnderstoodError as error:
        return Found(error=str(error))


def _links(found: dict[str, str], key: str) -> tuple[str, ...]:
    value = found.get(key, "[]")
    match = _LANES.fullmatch(value)
    if match is None or not all(len(word) <= 20 for word in match.group(1).split()):
        raise _NotUnderstoodError(f"npu-smi info -t hccs: {quote(f'{key} : {value}')} is not understood")
    return tuple(match.group(1).split())


def processes(text: str) -> Found[tuple[ChipProcess, ...]]:
    """`-t proc-mem`: a line a process, or that there is none; without `-c` a `Chip ID` after those of each chip."""
    found: list[ChipProcess] = []
    of_chip: list[tuple[int, str, int]] = []
    looked = False
    for line in map(str.strip, text[:100_000].split("\n")):
        if match := _PROCESS.fullmatch(line):
            of_chip.append((int(match.group(1)), match.group(2).strip(), int(match.group(3))))
        elif match := re.fullmatch(r"Chip ID[ \t]{1,40}:[ \t]{0,40}([0-9]{1,3})", line):
            found += [ChipProcess(*process, chip=int(match.group(1))) for process in of_chip]
            of_chip = []
        elif line.startswith("Process id"):
            return Found(error=f"npu-smi info -t proc-mem: {quote(line)} is not understood")
        elif line != "No process in device.":
            continue
        looked = True
    if not looked:
        return Found(error=trouble(text, "info -t proc-mem"))
    return Found((*found, *(ChipProcess(*process) for process in of_chip)))
