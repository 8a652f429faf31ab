"""Parsers of `hccn_tool` (Ascend): one per query, `text -> tuple`, with one entry per device.

They cover the query commands of 910A, 910B and 910_93 drivers. Formats are from the driver's source and from real
output. `tool_output` holds their common part.
"""

from preflight.facts.parsers.ascend.hccn_tool.address import DeviceAddress, ip
from preflight.facts.parsers.ascend.hccn_tool.pings import HccsPingResult, PingResult, hccs_ping, ping
from preflight.facts.parsers.ascend.hccn_tool.queries import DEEP_READERS, QUERIES, READERS, DeepReader
from preflight.facts.parsers.ascend.hccn_tool.session import session

__all__ = [
    "DEEP_READERS",
    "QUERIES",
    "READERS",
    "DeepReader",
    "DeviceAddress",
    "HccsPingResult",
    "PingResult",
    "hccs_ping",
    "ip",
    "ping",
    "session",
]
