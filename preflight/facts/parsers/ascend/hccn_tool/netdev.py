"""`-status`: output of ethtool on the device."""

import re
from dataclasses import dataclass

from preflight.facts.parsers.ascend.hccn_tool.tool_output import NotUnderstoodError, blocks, fields
from preflight.facts.reading import Found
from preflight.model.text import quote


@dataclass(frozen=True)
class Netdev:
    """The network interface on the device. `speed` in Mb/s. None: not printed, as real answers differ."""

    interface: str
    speed: int | None = None
    duplex: str | None = None  # Full | Half
    link: bool | None = None


_HEADING = re.compile(r"Netdev status ?: ?Settings for (\S{1,15}):")
_FIELD = re.compile(r"(Speed|Duplex|Link detected) ?: ?([A-Za-z0-9!]{1,15}(?:/s)?)(?:\s+#.{0,200})?")
_SPEED = re.compile(r"([0-9]{1,9})Mb/s")


def _netdev(block: list[str]) -> Netdev:
    values = fields(block, _FIELD)
    match = _HEADING.fullmatch(block[0])
    if match is None:
        raise NotUnderstoodError(f"hccn_tool printed {quote(block[0])}, which is not recognized")
    speed = _SPEED.fullmatch(values.get("Speed", ""))
    duplex, link = values.get("Duplex"), values.get("Link detected")
    return Netdev(
        interface=match.group(1),
        speed=int(speed.group(1)) if speed else None,
        duplex=duplex if duplex in ("Full", "Half") else None,
        link={"yes": True, "no": False}.get(link or ""),
    )


def status(text: str) -> tuple[Found[Netdev], ...]:
    """Parse `-status -g`: name, speed, duplex and link of the network interface on the device."""
    return blocks(text, re.compile(r"Netdev status ?:.{0,200}").fullmatch, _netdev)
