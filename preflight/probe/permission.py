"""Permission to probe: hosts have to be idle, and released by the operator. Collecting facts never disturbs them."""

from collections.abc import Sequence

from preflight.facts.parsers.nvidia.nvidia_smi.gpu import GpuProcess
from preflight.facts.sections.nvidia import Nvidia
from preflight.facts.types import ClusterFacts, Missing, NpuProcess, NpuSmi, Os, Unreachable
from preflight.model.cluster import Cluster, Host, Product
from preflight.rules.gpus import numbered
from preflight.rules.own_processes import Owner, owner


def may_probe(
    cluster: Cluster, facts: ClusterFacts, hosts: Sequence[Host], *, asked_idle: bool
) -> list[tuple[str, str]]:
    """Return the hosts that must not be probed, each with the reason. If there are none, the probe may start.

    `asked_idle`: `--idle` was given. Without it or `probe.idle` the hosts are not released, and devices that look idle
    may be in use. A host that was not reached is no obstacle, since the probe runs nothing there.
    """
    if not (asked_idle or cluster.probe.idle):
        why = "not released for tests: set idle = true under [probe] in the inventory, or use --idle"
        return [(host.name, why) for host in hosts]
    busy = ((host.name, _why_busy(cluster, facts, host)) for host in hosts)
    return [(name, why) for name, why in busy if why]


def _why_busy(cluster: Cluster, facts: ClusterFacts, host: Host) -> str:
    """Return why a host counts as busy, else nothing.

    "Cannot tell" counts as busy, since a container may hide the processes that hold a device.
    """
    contact = facts.hosts.get(host.name)
    if contact is None or isinstance(contact, Unreachable):
        return ""
    os = contact.os if isinstance(contact.os, Os) else None
    if cluster.product is Product.NVIDIA:
        return _why_gpus_are_busy(contact.nvidia, os)
    return _why_npus_are_busy(contact.npu_smi, os) if cluster.product.is_npu else ""


def _why_npus_are_busy(npu_smi: NpuSmi | Missing | None, os: Os | None) -> str:
    match npu_smi:
        case NpuSmi(processes_listed=False):
            return "cannot tell whether its devices are idle: npu-smi lists no processes"
        case NpuSmi(processes=()):
            return ""
        case NpuSmi(processes=processes):
            first = processes[0]
            return f"device {first.device} is in use by {_process(first, os)}"
        case Missing(error=error):
            return f"cannot tell whether its devices are idle: {error}"
        case _:
            return "cannot tell whether its devices are idle: npu-smi was not run"


def _why_gpus_are_busy(nvidia: Nvidia | Missing | None, os: Os | None) -> str:
    if not isinstance(nvidia, Nvidia):
        return f"cannot tell whether its GPUs are idle: {nvidia.error if nvidia else 'nvidia-smi was not run'}"
    if nvidia.gpus.value is None:
        has_no_gpu = not nvidia.pci and nvidia.module is None
        return "" if has_no_gpu else f"cannot tell whether its GPUs are idle: {nvidia.gpus.error}"
    for index, gpu in numbered(nvidia):
        if gpu.processes is None:
            return f"cannot tell whether its GPUs are idle: nvidia-smi lists no processes on GPU {index}"
        for process in gpu.processes:
            if "C" in process.kind:
                return f"GPU {index} is in use by {_process(process, os)}"
    return ""


def _process(process: NpuProcess | GpuProcess, os: Os | None) -> str:
    is_other_run = owner(os, process.pid, process.name) is Owner.OTHER_RUN
    return f"{process.name} (pid {process.pid}{', of another preflight run' if is_other_run else ''})"
