"""Priorities and UDP ports of RoCE traffic of a device NIC: `-pfc`, `-dscp_to_tc`, `-udp`.

All formats are known from the driver's source only.
"""

import re

from preflight.facts.parsers.ascend.hccn_tool.tool_output import LONGEST_OUTPUT, NotUnderstoodError, blocks, fields
from preflight.facts.reading import Found
from preflight.facts.sections.nic import UdpPorts
from preflight.model.text import quote

_PFC = re.compile(r"(priority|enabled)((?: +[0-9])+)")
_PRIORITIES = [str(priority) for priority in range(8)]


def _pfc(block: list[str]) -> tuple[bool, ...]:
    rows = {name: values.split() for name, values in fields(block, _PFC).items()}
    enabled = rows.get("enabled", [])
    if rows.get("priority") != _PRIORITIES or len(enabled) != 8 or not set(enabled) <= {"0", "1"}:
        raise NotUnderstoodError(f"hccn_tool's PFC table ends with {quote(block[-1])}, which is not recognized")
    return tuple(value == "1" for value in enabled)


def pfc(text: str) -> tuple[Found[tuple[bool, ...]], ...]:
    """Parse `-pfc -g`: whether flow control is on, by priority 0 … 7. Known from the driver's source only."""
    return blocks(text, re.compile(r"PFC configuration ?:").fullmatch, _pfc)


_DSCP = re.compile(r"([0-9]{1,2})\s+([0-9])")


def _dscp_to_tc(block: list[str]) -> dict[int, int]:
    classes = {int(dscp): int(tc) for dscp, tc in fields(block, _DSCP).items()}
    if not classes or max(classes) > 63:
        raise NotUnderstoodError(f"hccn_tool's table of DSCPs ends with {quote(block[-1])}, which is not recognized")
    return classes


def dscp_to_tc(text: str) -> tuple[Found[dict[int, int]], ...]:
    """Parse `-dscp_to_tc -g`: the traffic class of each DSCP. Known from the driver's source only."""
    return blocks(text, re.compile(r"dscp\s+tc").fullmatch, _dscp_to_tc)


_UDP = re.compile(r"(udp_port|status|qp_count) ?: ?(\S.{0,63})")
_MODES = {"auto": "auto", "custom": "custom", "multi_qp": "multi_qp", "code(nslb_dp)": "nslb_dp"}


def _udp(block: list[str]) -> UdpPorts:
    values = fields(block, _UDP)
    port, status, count = values.get("udp_port"), values.get("status"), values.get("qp_count")
    if status is None and port != "Unknown":
        raise NotUnderstoodError(f"hccn_tool printed {quote(block[-1])} and no status, which is not recognized")
    if status is not None and status not in _MODES:
        raise NotUnderstoodError(
            f"hccn_tool reports the status of the UDP port as {quote(status)}, which is not recognized"
        )
    return UdpPorts(
        mode=_MODES[status] if status else "unknown",
        port=int(port) if port and re.fullmatch(r"[0-9]{1,5}", port) else None,
        queue_pairs=int(count) if count and re.fullmatch(r"[0-9]{1,5}", count) else None,
    )


def udp(text: str) -> tuple[Found[UdpPorts], ...]:
    """Parse `-udp -g`: how the source port of RoCE packets is chosen. Known from the driver's source only."""
    first = "udp_port" if "udp_port" in text[:LONGEST_OUTPUT] else "status"
    return blocks(text, re.compile(rf"{first} ?: ?\S.{{0,63}}").fullmatch, _udp)
