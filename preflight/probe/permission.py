"""May the probe use these hosts? Looking never disturbs: only what is idle, and whose operator said so."""

from collections.abc import Sequence

from preflight.facts.types import ClusterFacts, Missing, NpuSmi, Unreachable
from preflight.model.cluster import Cluster, Host


def may_probe(
    cluster: Cluster, facts: ClusterFacts, hosts: Sequence[Host], *, asked_idle: bool
) -> list[tuple[str, str]]:
    """The hosts that must not be probed, each with the reason; empty: go ahead.

    `asked_idle`: `--idle` was given. Without it or `probe.idle` nobody has said that the hosts may be used, and devices
    that look idle may belong to somebody. A host that was not reached is no obstacle: nothing runs there through us. Of
    GPUs no fact says who uses them, so there the operator's word is all there is.
    """
    if not (asked_idle or cluster.probe.idle):
        why = "nobody said that it may be used: set idle = true under [probe], or give --idle"
        return [(host.name, why) for host in hosts]
    busy = ((host.name, _why_busy(cluster, facts, host)) for host in hosts)
    return [(name, why) for name, why in busy if why]


def _why_busy(cluster: Cluster, facts: ClusterFacts, host: Host) -> str:
    """ "Cannot tell" counts as busy: a container may hide the processes that hold a device."""
    contact = facts.hosts.get(host.name)
    if contact is None or isinstance(contact, Unreachable) or not cluster.product.is_npu:
        return ""
    match contact.npu_smi:
        case NpuSmi(processes_listed=False):
            return "cannot tell whether its devices are idle: npu-smi lists no processes"
        case NpuSmi(processes=()):
            return ""
        case NpuSmi(processes=processes):
            first = processes[0]
            return f"device {first.device} is in use by {first.name} (pid {first.pid})"
        case Missing(error=error):
            return f"cannot tell whether its devices are idle: {error}"
        case _:
            return "cannot tell whether its devices are idle: npu-smi was not asked"
