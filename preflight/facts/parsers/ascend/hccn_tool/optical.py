"""`-optical`: readings of the optical module of a device NIC."""

import re

from preflight.facts.parsers.ascend.hccn_tool.tool_output import NotUnderstoodError, blocks, fields
from preflight.facts.reading import Found
from preflight.facts.sections.nic import Band, Optics
from preflight.model.text import quote

_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9 ]{0,39}) *: *(\S.{0,99})")
_NUMBER = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,9})?) ?(\S{1,4})")
_FLAG = re.compile(r"0[xX]([0-9A-Fa-f]{1,8})")
_NOT_TOLD = re.compile(r"NA\b.*|not support.*", re.IGNORECASE)
_ABSENT = "Optical module is not present"


class _Module:
    """The fields of one module. Their names differ in blanks and capitals between drivers."""

    def __init__(self, block: list[str]) -> None:
        self.texts = {name.replace(" ", "").lower(): value for name, value in fields(block, _FIELD).items()}

    def text(self, name: str) -> str | None:
        """Return the text of a field; None if the module does not report it."""
        text = self.texts.get(name)
        return None if text is None or _NOT_TOLD.fullmatch(text) else text

    def number(self, name: str, unit: str) -> float | None:
        text = self.text(name)
        if text is None:
            return None
        match = _NUMBER.fullmatch(text)
        if match is None or match.group(2) != unit:
            raise NotUnderstoodError(f"hccn_tool reports {name} as {quote(text)}, which is not a number of {unit}")
        return float(match.group(1))

    def flag(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        match = _FLAG.fullmatch(text)
        if match is None:
            raise NotUnderstoodError(f"hccn_tool reports {name} as {quote(text)}, which is not a bit mask")
        return int(match.group(1), 16)

    def lanes(self, name: str) -> tuple[float | None, ...]:
        count = 0
        while f"{name}{count}" in self.texts:
            count += 1
        return tuple(self.number(f"{name}{lane}", "mW") for lane in range(count))

    def band(self, name: str, unit: str) -> Band | None:
        low, high = (self.number(f"{name}{end}thres", unit) for end in ("low", "high"))
        return None if low is None or high is None else Band(low, high)


def _optics(block: list[str]) -> Optics:
    if _ABSENT in block[0]:
        return Optics(present=False)
    module = _Module(block)
    presence = module.texts.get("present")
    if presence not in ("present", "not present"):
        raise NotUnderstoodError(f"hccn_tool reports the presence of an optical module as {quote(presence or '')}")
    optics = Optics(
        present=presence == "present",
        vendor=module.text("vendorname") or "",
        part=module.text("vendorpartnumber") or "",
        serial=module.text("vendorserialnumber") or "",
        temperature=module.number("temperature", "C"),
        tx_power=module.lanes("txpower"),
        rx_power=module.lanes("rxpower"),
        temperature_band=module.band("temp", "C"),
        tx_band=module.band("txpower", "mW"),
        rx_band=module.band("rxpower", "mW"),
        tx_los=module.flag("txlosflag"),
        rx_los=module.flag("rxlosflag"),
        tx_lol=module.flag("txlolflag"),
        rx_lol=module.flag("rxlolflag"),
    )
    if len(optics.tx_power) != len(optics.rx_power):
        raise NotUnderstoodError("hccn_tool reported the power of only some lanes")
    return optics


def optical(text: str) -> tuple[Found[Optics], ...]:
    """Parse `-optical -g`: powers a lane, the module's own limits, loss of signal and of lock.

    Copper modules have few of them. A capture of a 910A has `present : not present` above full readings: both are kept
    as they are printed.
    """
    return blocks(text, re.compile(rf"optical info ?:|{_ABSENT}\.?").fullmatch, _optics)
