"""Checks of the network that NCCL really uses between hosts, by the ranks' logs."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from preflight.checks.engine.registry import All, cluster_check
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.measure import Observation, RankView, Sending
from preflight.rules.nics.nccl_networks import ways_between

_NO_DEVICE = re.compile(r"NET/IB ?: ?No device found")
_SOCKET = "Socket"
_CAUSES = {"ib": "an NCCL variable, RDMA devices missing from the container, or a missing libibverbs"}
_REMEDIES = {  # by the network that jobs are to use
    "ib": "fix the findings of ENV115 and ENV116",
    "socket": 'set NCCL_NET=Socket in the jobs\' environment, or set transport = "ib" under [probe] in the inventory',
}


@cluster_check(
    "PRB119",
    "NCCL transport between hosts",
    products=frozenset({Product.NVIDIA}),
)
def nccl_transport(scribe: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: If NCCL cannot use RDMA, it uses sockets and reports that only in its log. The job runs ten times slower. A
    container without /dev/infiniband or libibverbs is enough, or a leftover NCCL_IB_DISABLE=1.

    Result: FAIL if the network is not the one that probe.transport (ib, socket) in the inventory sets. Without
    probe.transport, sockets are accepted. With ib, the probe sets NCCL_NET=IB, and NCCL fails with an error if there is
    no RDMA. The check reads the network from the NCCL log of the probe's ranks, not from the installed software.

    Check manually: Replace train.py with your own program.
      NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET python train.py 2>&1 | grep NET/

    Fix: Apply the fixes for ENV115 and ENV116. For a container, use docker's --device /dev/infiniband, and install
    libibverbs1 in the container.
    """
    wanted = scribe.cluster.probe.transport
    views = ways_between(observations)
    if not views:
        yield scribe.skip("no ranks on different hosts connected through NCCL")
    elif wanted:
        by_host: dict[str, list[RankView]] = defaultdict(list)
        for view in views:
            by_host[view.member.host].append(view)
        for host, own_views in by_host.items():
            yield from _of_host(scribe, host, own_views, wanted)
    elif any(way.between_hosts == _SOCKET for way in _ways(views)):
        yield scribe.skip(
            "NCCL uses sockets, and the inventory does not set the expected network (transport under [probe])"
        )


def _ways(views: Iterable[RankView]) -> list[Sending]:
    return [view.way for view in views if view.way and view.way.between_hosts]


def _of_host(scribe: All, host: str, views: Sequence[RankView], wanted: str) -> Iterator[Finding]:
    """Yield the finding of one host, in which the first wrong rank represents all."""
    ways = _ways(views)
    wrong = [way for way in ways if (way.between_hosts == _SOCKET) == (wanted == "ib")]
    no_device = [line for view in views for line in view.logs if _NO_DEVICE.search(line)]
    if wrong:
        network = wrong[0].between_hosts
        yield scribe.bad(
            f"{host}: NCCL uses {network} instead of {wanted} ({len(wrong)} of {len(views)} ranks)",
            host=host,
            expected=wanted,
            found=network,
            evidence=wrong[0].lines,
            cause=_CAUSES.get(wanted, ""),
            remedy=_REMEDIES[wanted],
        )
    elif wanted == "ib" and no_device:
        yield scribe.bad(
            f"{host}: NCCL finds no RDMA device",
            host=host,
            expected="ib",
            found="none",
            evidence=tuple(no_device[:3]),
            remedy="list the RDMA devices in the jobs' environment",
            commands=(scribe.on(host, "ls /sys/class/infiniband /dev/infiniband"),),
        )
    elif not ways:
        yield scribe.unknown(
            f"{host}: NCCL's log does not report its network",
            host=host,
            remedy="unset NCCL_DEBUG and NCCL_DEBUG_FILE in the jobs' environment. PRB101 reports ranks that never "
            "connected",
        )
