"""Parsers for RDMA NICs: output of infiniband-diags, libibverbs, iproute2 and mlnx-tools, and files of the kernel."""

from preflight.facts.parsers.rdma.gids import Gid, Gids, show_gids
from preflight.facts.parsers.rdma.ibstat import ibstat, ibstatus
from preflight.facts.parsers.rdma.port import RdmaPort, RdmaPorts
from preflight.facts.parsers.rdma.sysfs import PortCounters, SysfsPorts, infiniband
from preflight.facts.parsers.rdma.verbs import ibv_devinfo, rdma_link

__all__ = (
    "Gid",
    "Gids",
    "PortCounters",
    "RdmaPort",
    "RdmaPorts",
    "SysfsPorts",
    "ibstat",
    "ibstatus",
    "ibv_devinfo",
    "infiniband",
    "rdma_link",
    "show_gids",
)
