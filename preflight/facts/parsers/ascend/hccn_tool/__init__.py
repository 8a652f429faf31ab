"""What `hccn_tool` prints (Ascend; the query commands of 910A, 910B and 910_93 drivers, formats as in the driver's
source and in field pastes): a parser a query, `text -> tuple`, an entry a device. `tool_output` holds what they share.
"""

from preflight.facts.parsers.ascend.hccn_tool.address import Address, ip
from preflight.facts.parsers.ascend.hccn_tool.pings import HccsPingResult, PingResult, hccs_ping, ping
from preflight.facts.parsers.ascend.hccn_tool.queries import DEEP_READERS, QUERIES, READERS, DeepReader
from preflight.facts.parsers.ascend.hccn_tool.session import session

__all__ = [
    "DEEP_READERS",
    "QUERIES",
    "READERS",
    "Address",
    "DeepReader",
    "HccsPingResult",
    "PingResult",
    "hccs_ping",
    "ip",
    "ping",
    "session",
]
