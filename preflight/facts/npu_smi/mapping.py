"""Which devices there are, by every number they have: `npu-smi info -m` and `npu-smi info -l`.

`-i` of hccn_tool and the N of /dev/davinciN are *physical* ids; the NPU ID is npu-smi's own.
"""

import re
from dataclasses import dataclass

from preflight.facts.npu_smi.pairs import pairs
from preflight.facts.npu_smi.trouble import trouble
from preflight.facts.quote import quote
from preflight.facts.types import Missing

_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class ChipId:
    """A line of `npu-smi info -m`. `device`: physical id; the logic id where the tool prints no physical one."""

    npu: int
    chip: int
    device: int
    name: str


@dataclass(frozen=True)
class Card:
    """A block of `npu-smi info -l`. Empty, or None, where this version of the tool does not tell."""

    npu: int
    chips: int | None = None
    name: str = ""
    serial: str = ""


def mapping(text: str) -> tuple[ChipId, ...] | Missing:
    """`npu-smi info -m`: which physical id an NPU's chip has. Rows of the `Mcu` are no chips."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]
    header = rows[0] if rows else []
    if header[:2] != ["NPU ID", "Chip ID"] or "Chip Logic ID" not in header:
        return Missing(trouble(text, "info -m"))
    column = header.index("Chip Phy-ID" if "Chip Phy-ID" in header else "Chip Logic ID")
    found: list[ChipId] = []
    for row in rows[1:]:
        if len(row) == len(header) and row[-1] == "Mcu":
            continue
        if len(row) != len(header) or not all(_NUMBER.fullmatch(row[index]) for index in (0, 1, column)):
            return Missing(f"npu-smi info -m: {quote('  '.join(row))} is not understood")
        found.append(ChipId(int(row[0]), int(row[1]), int(row[column]), row[-1]))
    places, devices = {(row.npu, row.chip) for row in found}, {row.device for row in found}
    if len(places) < len(found) or len(devices) < len(found):
        return Missing("npu-smi info -m lists a chip twice")
    return tuple(found)


def listing(text: str) -> tuple[Card, ...] | Missing:
    """`npu-smi info -l`: `Total Count : 8`, then a block a card that begins with its `NPU ID`."""
    found = pairs(text)
    if not found or found[0][0] != "Total Count" or not _NUMBER.fullmatch(found[0][1]):
        return Missing(trouble(text, "info -l"))
    blocks: list[dict[str, str]] = []
    for key, value in found[1:]:
        if key == "NPU ID":
            blocks.append({})
        if not blocks or key in blocks[-1]:
            return Missing(f"npu-smi info -l: {quote(f'{key} : {value}')} is not understood")
        blocks[-1][key] = value
    if len(blocks) != int(found[0][1]):
        return Missing(f"npu-smi info -l counts {found[0][1]} cards and lists {len(blocks)}: it is cut")
    cards = []
    for block in blocks:
        npu, chips = block["NPU ID"], block.get("Chip Count")
        if not _NUMBER.fullmatch(npu) or not _NUMBER.fullmatch(chips or "0"):
            return Missing(f"npu-smi info -l: {quote(f'NPU ID : {npu}, Chip Count : {chips}')} is not understood")
        cards.append(
            Card(
                int(npu), int(chips) if chips else None, block.get("Product Name", ""),
                block.get("Serial Number", ""),
            )
        )  # fmt: skip
    if len({card.npu for card in cards}) < len(cards):
        return Missing("npu-smi info -l lists a card twice")
    return tuple(cards)
