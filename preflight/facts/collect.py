"""The first round over the hosts: facts in one round trip per host."""

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from preflight.facts import connections
from preflight.facts.answers.host import HostAnswer, Sections
from preflight.facts.answers.host import sections as answer_sections
from preflight.facts.answers.npu import CHIP_QUERIES
from preflight.facts.parsers.ascend.hccn_tool import DEEP_READERS, READERS
from preflight.facts.round_trip import Seen, read, targets, with_arrivals
from preflight.facts.sections import job, naming, neighbours, shells
from preflight.facts.types import ClusterFacts, HostFacts, Missing, Unreachable
from preflight.model.cluster import Cluster, Fabric, Host, Product
from preflight.transport.bootstrap import host_argv
from preflight.transport.fanout import NO_LIMITS, RunLimits, fan_out
from preflight.transport.programs import source
from preflight.transport.types import ErrorKind, Program, Progress, Transport, TransportError

POOL = 4096  # hosts in flight
# Seconds for a section on its host. `job` may have to start a container; hccn_tool is called 9 times a device.
HOST_SECTIONS = {
    "os": 5.0,
    "sysctl": 5.0,
    "sockets": 10.0,
    "network": 10.0,
    "firewall": 10.0,
    "connects": 10.0,
    "names": 10.0,
    "naming": 10.0,
    "environment": 5.0,
    "accelerators": 15.0,
    "job": 30.0,
}
NPU_SECTIONS = {"driver": 5.0, "hccn": 30.0, "hccn_conf": 5.0, "npu_smi": 20.0}
GPU_SECTIONS = {"nvidia": 30.0, "rdma": 10.0}  # a nvidia-smi that hangs is ended after 25 s
# Sections that a deep run adds, or that need more time in it: 16 more calls of hccn_tool a device, 5 of npu-smi a chip,
# and digests of data.
DEEP_HOST_SECTIONS = {"job": 45.0, "load": 10.0}
DEEP_NPU_SECTIONS = {"hccn": 60.0, "chips": 40.0, "device_nodes": 10.0}
SSH_SECTIONS = {"shells": 15.0, "neighbours": 15.0}  # where the inventory's launcher works over ssh
EXTRAS = {"extras": 100.0}  # output that only `preflight capture` keeps; it waits for `hccn`
WAY_SECONDS = 40.0  # additional time for connecting, logging in and a busy host


@dataclass(frozen=True)
class FactsRequest:
    """The facts to collect. `deep`: more than the basic set.

    `sections`, `readings`: of the collector and of hccn_tool, empty for all. Others are `Missing`.
    """

    cluster: Cluster
    hosts: Sequence[Host]
    sections: Sequence[str] = ()
    readings: Sequence[str] = ()
    deep: bool = False


@dataclass(frozen=True)
class CollectorRequest:
    """A request to the collector in one round trip. `deadlines`: section → seconds. `words`: those of one host."""

    source: str
    deadlines: dict[str, float]
    words: dict[str, object]

    @property
    def timeout(self) -> float:
        """Seconds for the whole round trip."""
        return max(self.deadlines.values()) + WAY_SECONDS

    def ask(self, transport: Transport, host: Host) -> Sections | Missing:
        """Return the answer of one round trip. Raises TransportError."""
        marker = "preflight-" + secrets.token_hex(8)
        payload = json.dumps({"marker": marker, "deadlines": self.deadlines, **self.words}).encode()
        program = Program(self.source, payload)
        return answer_sections(transport.run(host, program, timeout=self.timeout), marker)


def _collector_request(request: FactsRequest) -> CollectorRequest:
    """Return the request common to all hosts. Each host's device ids, names and partners are added later."""
    cluster, readings, deep = request.cluster, request.readings, request.deep
    shared: dict[str, object] = {
        "ports": cluster.ports.ranges,
        "names": {host.name: host.address for host in cluster.hosts},
        "hosts_file": cluster.setup.hosts_file,
        "limits": bool(cluster.setup.memlock or cluster.setup.nofile),
        "readings": [[name, "status" if name == "cfg" else "-g"] for name in _queries(cluster, readings)],
        "deep_readings": _deep_queries(readings) if deep else [],
        "chip_queries": _chip_queries(cluster.product),
        "shells": {"user": cluster.probe.user, "prefixes": shells.PREFIXES, "programs": shells.PROGRAMS},
        "job": _job_request(cluster, deep=deep),
    }
    deadlines = _deadlines(cluster, deep=deep)
    if request.sections:
        deadlines = {name: (deadlines | EXTRAS)[name] for name in request.sections}
    return CollectorRequest(source("collect", shared=shared), deadlines, {})


def _queries(cluster: Cluster, readings: Sequence[str]) -> list[str]:
    """Return the queries of hccn_tool. Only devices behind a switch answer lldp."""
    queries = [name for name in (*READERS, "ip") if name != "lldp" or cluster.fabric is Fabric.SWITCHED]
    return [name for name in queries if name in readings] if readings else queries


def _deep_queries(readings: Sequence[str]) -> list[str]:
    return [name for name in DEEP_READERS if name not in READERS and (not readings or name in readings)]


def _chip_queries(product: Product) -> list[str]:
    """Return the queries of npu-smi. Only chips of a super-pod answer spod-info."""
    return [name for name in CHIP_QUERIES if name != "spod-info" or product is Product.ATLAS_A3]


def _job_request(cluster: Cluster, *, deep: bool) -> dict[str, object]:
    probe = cluster.probe
    view = Program(source("job_view"), b"", probe.python, probe.setup, probe.wrapper, probe.user, isolated=False)
    return {
        "source": view.source,
        "python": view.python,
        "argv": host_argv(view, sudo=False),  # the collector is root already where the host asks for sudo
        "elsewhere": bool(view.setup or view.wrapper or view.user),
        "wanted": {"npu": cluster.product.is_npu, "deep": _job_contents(cluster) if deep else None},
    }


def _deadlines(cluster: Cluster, *, deep: bool) -> dict[str, float]:
    npu = cluster.product.is_npu
    basic = HOST_SECTIONS | (NPU_SECTIONS if npu else {}) | (GPU_SECTIONS if cluster.product is Product.NVIDIA else {})
    # A wrapper leads into a container, but processes that ssh starts run on its host, where no job runs.
    over_ssh = SSH_SECTIONS if cluster.job.over_ssh and not cluster.probe.wrapper else {}
    return basic | DEEP_HOST_SECTIONS | (DEEP_NPU_SECTIONS if npu else {}) | over_ssh if deep else basic


def all_sections(cluster: Cluster) -> tuple[str, ...]:
    """Return every section of the collector, including those that only a capture keeps."""
    return (*_deadlines(cluster, deep=True), *(EXTRAS if cluster.product.is_npu else {}))


def _job_contents(cluster: Cluster) -> dict[str, object]:
    return {
        "prefixes": job.PREFIXES,
        "named_by": job.NAMED_BY,
        "read_by": job.READ_BY,
        "written_by": job.WRITTEN_BY,
        "mpi_parameters": job.MPI_PARAMETERS,
        "files": job.NPU_FILES if cluster.product.is_npu else (),
        "requirements": cluster.job.requirements,
        "datasets": cluster.job.datasets,
        "project": cluster.job.project,
        "imports": cluster.job.imports,
    }


def _unreachable(error: TransportError) -> Unreachable:
    return Unreachable(error.kind.value, error.summary, error.remedy, error.commands)


def without_sudo(host: Host) -> Host:
    return replace(host, ssh=replace(host.ssh, sudo=False))


def collect_answers(
    request: FactsRequest,
    transport: Transport,
    *,
    progress: Callable[[Progress], None] | None,
    limits: RunLimits = NO_LIMITS,
    on_facts: Callable[[str, HostFacts], None] | None = None,
) -> dict[str, Seen | Unreachable]:
    """Collect from every host in one round trip: its facts, and the answer that they were read from.

    `pool`: hosts in flight. `on_facts` gets a host's facts when they come, before the connections that other hosts
    report. If sudo refuses, the host is asked without root, and its `os` has the reason. Raises nothing that a host
    could cause.
    """
    cluster, hosts = request.cluster, request.hosts
    common_request = _collector_request(request)
    connects = {"ports": connections.ports(cluster.ports), "ephemeral": cluster.listens_anywhere}
    partners = targets(cluster, hosts)
    tries_ssh = "neighbours" in common_request.deadlines

    def collect_host(host: Host) -> Seen:
        devices = tuple(device.index for device in host.devices)
        ring = neighbours.targets(hosts, host.name) if tries_ssh else []
        host_words: dict[str, object] = {
            "devices": devices,
            "called": [host.name, host.address],
            "connects": {**connects, "targets": partners[host.name]},
            "neighbours": {"user": cluster.probe.user, "targets": ring},
            "naming": naming.queries(cluster.hosts, host.name),
        }
        host_request = replace(common_request, words=host_words)

        def ask(host: Host, refused: Unreachable | None) -> Seen:
            sent = time.time()
            raw = host_request.ask(transport, host)
            result = read(HostAnswer(raw, devices, sent, time.time(), refused), cluster.product, deep=request.deep)
            if on_facts:
                on_facts(host.name, result.facts)
            return result

        try:
            return ask(host, None)
        except TransportError as error:
            if error.kind is not ErrorKind.SUDO:
                raise
            return ask(without_sudo(host), _unreachable(error))

    each_host = limits.each(common_request.timeout)
    results = fan_out(hosts, collect_host, each_host, progress=progress, phase="facts")
    results = with_arrivals(results, partners) if "connects" in common_request.deadlines else results
    return {
        name: _unreachable(result) if isinstance(result, TransportError) else result for name, result in results.items()
    }


def collect(
    request: FactsRequest,
    transport: Transport,
    *,
    progress: Callable[[Progress], None] | None,
    limits: RunLimits = NO_LIMITS,
    on_facts: Callable[[str, HostFacts], None] | None = None,
) -> ClusterFacts:
    """Return the facts of the hosts, in their order; see `collect_answers`."""
    results = collect_answers(request, transport, progress=progress, limits=limits, on_facts=on_facts)
    return ClusterFacts(
        {name: result.facts if isinstance(result, Seen) else result for name, result in results.items()}
    )
