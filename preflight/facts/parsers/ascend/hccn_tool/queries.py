"""Readers of hccn_tool's queries, by their option."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from preflight.facts.parsers.ascend.hccn_tool.address import gateway, ip, netdetect, vnic
from preflight.facts.parsers.ascend.hccn_tool.counters import bandwidth, hw_stats, stat
from preflight.facts.parsers.ascend.hccn_tool.history import link_stat
from preflight.facts.parsers.ascend.hccn_tool.neighbours import arp, leaf, lldp, route
from preflight.facts.parsers.ascend.hccn_tool.netdev import status
from preflight.facts.parsers.ascend.hccn_tool.optical import optical
from preflight.facts.parsers.ascend.hccn_tool.pings import hccs_ping, ping
from preflight.facts.parsers.ascend.hccn_tool.port import (
    cfg_status,
    duplex,
    fec,
    link,
    mac,
    mtu,
    net_health,
    process,
    speed,
    tls,
)
from preflight.facts.parsers.ascend.hccn_tool.recovery import recovery
from preflight.facts.parsers.ascend.hccn_tool.roce_test import roce_test
from preflight.facts.parsers.ascend.hccn_tool.traffic import dscp_to_tc, pfc, udp
from preflight.facts.reading import Found
from preflight.facts.types import Reading

# The readings of HccnDevice, in the order of the queries: `cfg` (are settings still being restored?) comes before the
# settings, and the address of netdetect before its result, net_health.
READERS: dict[str, Callable[[str], tuple[Reading, ...]]] = {
    "cfg": cfg_status,
    "link": link,
    "gateway": gateway,
    "netdetect": netdetect,
    "net_health": net_health,
    "mtu": mtu,
    "tls": tls,
    "lldp": leaf,
}


@dataclass(frozen=True)
class DeepReader:
    """The reader of a query. Its only answer for a device is the field `field` of NicDevice."""

    field: str
    read: Callable[[str], tuple[Found[Any], ...]]


# The readings of NicDevice.
DEEP_READERS: dict[str, DeepReader] = {
    "link_stat": DeepReader("history", link_stat),
    "optical": DeepReader("optics", optical),
    "speed": DeepReader("speed", speed),
    "duplex": DeepReader("duplex", duplex),
    "fec": DeepReader("fec", fec),
    "mac": DeepReader("mac", mac),
    "lldp": DeepReader("neighbour", lldp),
    "stat": DeepReader("packets", stat),
    "hw_stats": DeepReader("resources", hw_stats),
    "arp": DeepReader("arp", arp),
    "route": DeepReader("routes", route),
    "process": DeepReader("hccp", process),
    "pfc": DeepReader("pfc", pfc),
    "dscp_to_tc": DeepReader("dscp_to_tc", dscp_to_tc),
    "vnic": DeepReader("vnic", vnic),
    "udp": DeepReader("udp", udp),
    "bandwidth": DeepReader("bandwidth", bandwidth),
}

QUERIES: dict[str, Callable[[str], tuple[object, ...]]] = {
    **READERS,
    **{name: reader.read for name, reader in DEEP_READERS.items()},
    "ip": ip,
    "ping": ping,
    "hccs_ping": hccs_ping,
    "roce_test": roce_test,
    "status": status,
    "recovery": recovery,
}
