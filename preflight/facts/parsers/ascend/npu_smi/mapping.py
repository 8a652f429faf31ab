"""Numbers of devices: `npu-smi info -m` and `npu-smi info -l`.

`-i` of hccn_tool and the N of /dev/davinciN are *physical* ids. The NPU ID is a number of npu-smi alone.
"""

import re
from dataclasses import dataclass

from preflight.facts.parsers.ascend.npu_smi.error_messages import trouble
from preflight.facts.parsers.ascend.npu_smi.key_values import pairs
from preflight.facts.types import Missing
from preflight.model.text import quote

_NUMBER = re.compile(r"[0-9]{1,9}")
_COLUMN_ENDS = re.compile(r"\s{2,}|\t")


@dataclass(frozen=True)
class ChipId:
    """A line of `npu-smi info -m`. `device`: physical id, or the logic id if the tool prints no physical id."""

    npu: int
    chip: int
    device: int
    name: str


@dataclass(frozen=True)
class Card:
    """A block of `npu-smi info -l`. Fields that this version of the tool does not print are empty, or None."""

    npu: int
    chips: int | None = None
    name: str = ""
    serial: str = ""


def mapping(text: str) -> tuple[ChipId, ...] | Missing:
    """Parse `npu-smi info -m`: the physical id of each NPU's chip. Rows of the `Mcu` are no chips."""
    rows = [_COLUMN_ENDS.split(line.strip()) for line in text.splitlines() if line.strip()]
    header: list[str] = next((row for row in rows if {"NPU ID", "Chip ID"} <= set(row)), [])
    device = _device_column(header)
    if not device:
        return Missing(trouble(text, "info -m"))
    chips: list[ChipId] = []
    for row in rows[rows.index(header) + 1 :]:
        fields = dict(zip(header, row, strict=True)) if len(row) == len(header) else {}
        if fields.get("Chip Name") == "Mcu":
            continue
        chip = _chip(fields, device, row)
        if isinstance(chip, Missing):
            return chip
        chips.append(chip)
    return _without_repeats(chips)


def _device_column(header: list[str]) -> str:
    """Return the heading of the device's number; empty if the header lacks a column, or has one twice."""
    device = "Chip Phy-ID" if "Chip Phy-ID" in header else "Chip Logic ID"
    return device if {device, "Chip Name"} <= set(header) and len(set(header)) == len(header) else ""


def _chip(fields: dict[str, str], device: str, row: list[str]) -> ChipId | Missing:
    if fields.get("NPU ID") == "-1":
        return Missing(f"npu-smi info -m: {quote('  '.join(row))} reports an NPU that is not available")
    numbers = [fields.get(name, "") for name in ("NPU ID", "Chip ID", device)]
    if not all(map(_NUMBER.fullmatch, numbers)):
        return Missing(f"npu-smi info -m: {quote('  '.join(row))} is not recognized")
    npu, chip, physical = map(int, numbers)
    return ChipId(npu, chip, physical, fields["Chip Name"])


def _without_repeats(chips: list[ChipId]) -> tuple[ChipId, ...] | Missing:
    places, devices = {(chip.npu, chip.chip) for chip in chips}, {chip.device for chip in chips}
    if len(places) < len(chips) or len(devices) < len(chips):
        return Missing("npu-smi info -m lists a chip twice")
    return tuple(chips)


def listing(text: str) -> tuple[Card, ...] | Missing:
    """Parse `npu-smi info -l`: `Total Count : 8`, then a block a card that begins with its `NPU ID`."""
    (first, count), *lines = pairs(text) or [("", "")]
    if first != "Total Count" or not _NUMBER.fullmatch(count):
        return Missing(trouble(text, "info -l"))
    blocks: list[dict[str, str]] = []
    for key, value in lines:
        if key == "NPU ID":
            blocks.append({})
        if not blocks or key in blocks[-1]:
            return Missing(f"npu-smi info -l: {quote(f'{key} : {value}')} is not recognized")
        blocks[-1][key] = value
    if len(blocks) != int(count):
        return Missing(f"npu-smi info -l counts {count} cards and lists {len(blocks)}: the list is cut off")
    return _cards(blocks)


def _cards(blocks: list[dict[str, str]]) -> tuple[Card, ...] | Missing:
    cards = []
    for block in blocks:
        npu, chips = block["NPU ID"], block.get("Chip Count")
        if not _NUMBER.fullmatch(npu) or not _NUMBER.fullmatch(chips or "0"):
            return Missing(f"npu-smi info -l: {quote(f'NPU ID : {npu}, Chip Count : {chips}')} is not recognized")
        name, serial = block.get("Product Name", ""), block.get("Serial Number", "")
        cards.append(Card(int(npu), int(chips) if chips else None, name, serial))
    if len({card.npu for card in cards}) < len(cards):
        return Missing("npu-smi info -l lists a card twice")
    return tuple(cards)
