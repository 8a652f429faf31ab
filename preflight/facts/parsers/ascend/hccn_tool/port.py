"""States and settings of a device NIC that `hccn_tool` prints in one line each."""

import re

from preflight.facts.parsers.ascend.hccn_tool.tables import each_row, has_table
from preflight.facts.parsers.ascend.hccn_tool.tool_output import NotUnderstoodError, each_line, readings
from preflight.facts.reading import Found
from preflight.facts.types import Reading
from preflight.model.text import quote

_UNKNOWN = "Unknown!"  # printed as speed and duplex of a link that is down
_HEALTHS = (
    "Success|Socket fail(?:ed)?|Receive timeout|Unreachable|Time exceeded|Fault|Init|Thread error|Detect ip set|Unknown"
)


def link(text: str) -> tuple[Reading, ...]:
    """Parse `-link -g`: UP or DOWN."""
    return readings(text, re.compile(r"link status ?: ?(UP|DOWN)"), closed=True)


def net_health(text: str) -> tuple[Reading, ...]:
    """Parse `-net_health -g`: Success, Init, Fault, Receive timeout …; "Socket failed" is an older "Socket fail"."""
    return readings(text, re.compile(rf"net health status ?: ?({_HEALTHS})"))


def tls(text: str) -> tuple[Reading, ...]:
    """Parse `-tls -g`: "0" disabled or "1" enabled; not set where no certificate has been installed.

    Lines about certificates may follow and are not read. Older drivers print no `tls preconfigured`.
    """
    pattern = re.compile(r"dev_id ?: ?\d{1,3}, ?tls switch\[([01])\].{0,200}")
    return readings(text, pattern, "No certificate found", closed=True)


def mtu(text: str) -> tuple[Reading, ...]:
    """Parse `-mtu -g`: bytes. Known from the driver's source only."""
    return readings(text, re.compile(r"mtu ?: ?(\d{2,5})"))


def cfg_status(text: str) -> tuple[Reading, ...]:
    """Parse `-cfg status`: how the recovery of /etc/hccn.conf at boot ended: SUCCESS, NONE, START, FAIL, FAULT."""
    return readings(text, re.compile(r"config status ?: ?(SUCCESS|NONE|START|FAIL|FAULT)"))


def speed(text: str) -> tuple[Found[int], ...]:
    """Parse `-speed -g`: Mb/s; None: "Unknown!", as of a link that is down. A table on Ascend 950."""
    if has_table(text):
        return each_row(text, "Speed", _speed_of_port)
    return each_line(text, re.compile(r"Speed ?: ?(\d{1,9}) ?Mb/s"), int, unset=_UNKNOWN, closed=True)


def duplex(text: str) -> tuple[Reading, ...]:
    """Parse `-duplex -g`: Full or Half; None: "Unknown!"."""
    return readings(text, re.compile(r"Duplex ?: ?(Full|Half)"), _UNKNOWN, closed=True)


def _speed_of_port(value: str) -> int | None:
    match = re.fullmatch(r"([0-9]{1,5}) ?G", value)
    if match is None and value.lower() != "unknown":
        raise NotUnderstoodError(f"hccn_tool gives the speed {quote(value)}, which is not recognized")
    return 1000 * int(match.group(1)) if match else None


def _fec_of_port(value: str) -> str:
    if value == "Bypass":
        return "no"
    if not re.fullmatch(r"[0-9]{1,4} T[0-9]{1,2}", value):
        raise NotUnderstoodError(f"hccn_tool gives the FEC mode {quote(value)}, which is not recognized")
    return value


def fec(text: str) -> tuple[Reading, ...]:
    """Parse `-fec -g`: rs, auto or no. A table on Ascend 950, an entry a port: "128 T4"; its "Bypass" is no FEC."""
    if has_table(text):
        return each_row(text, "rs_mode", _fec_of_port)
    return readings(text, re.compile(r"fec mode ?: ?(rs|auto|no) FEC mode"), closed=True)


def mac(text: str) -> tuple[Reading, ...]:
    """Parse `-mac -g`: the MAC address, as printed."""
    return readings(text, re.compile(r"mac addr ?: ?([0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5})"), closed=True)


def process(text: str) -> tuple[Reading, ...]:
    """Parse `-process -g`: "exist" or "not exist", the HCCP process that serves a job on the device."""
    return readings(text, re.compile(r"device hccp process ?: ?(exist|not exist)"), closed=True)
