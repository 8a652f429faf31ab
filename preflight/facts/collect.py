"""The first round over the hosts: facts in one round trip a host."""

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from preflight.facts import connections
from preflight.facts.answers.host import Sections
from preflight.facts.answers.host import sections as answer_sections
from preflight.facts.answers.npu import CHIP_QUERIES
from preflight.facts.parsers.ascend.hccn_tool import DEEP_READERS, READERS
from preflight.facts.round_trip import Answered, Seen, read, targets, with_arrivals
from preflight.facts.sections import job, naming, neighbours, shells
from preflight.facts.types import ClusterFacts, HostFacts, Missing, Os, Unreachable
from preflight.model.cluster import Cluster, Fabric, Host, Product
from preflight.model.ports import PortSet
from preflight.transport.bootstrap import host_argv
from preflight.transport.fanout import fan_out
from preflight.transport.programs import source
from preflight.transport.types import Program, Progress, Transport, TransportError, Trouble

POOL = 32  # hosts in flight
# What a section may take on its host. `job` may have to start a container; hccn_tool is called 9 times a device.
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
# What the deep look adds, or gives more time: 16 more calls of hccn_tool a device, 5 of npu-smi a chip, data's digests.
DEEP_HOST_SECTIONS = {"job": 45.0, "load": 10.0}
DEEP_NPU_SECTIONS = {"hccn": 60.0, "chips": 40.0, "device_nodes": 10.0}
SSH_SECTIONS = {"shells": 15.0, "neighbours": 15.0}  # where the inventory's launcher works over ssh
EXTRAS = {"extras": 100.0}  # what is only kept for `preflight capture`; it waits for `hccn`
WAY_SECONDS = 40.0  # what connecting, logging in and a busy host may take on top


@dataclass(frozen=True)
class Request:
    """What the collector is asked in one round trip (see there). `deadlines`: section → seconds."""

    source: str
    deadlines: dict[str, float]
    words: dict[str, object]

    @property
    def timeout(self) -> float:
        """Seconds for the whole round trip."""
        return max(self.deadlines.values()) + WAY_SECONDS

    def ask(self, transport: Transport, host: Host) -> Sections | Missing:
        """One round trip. Raises TransportError."""
        marker = "preflight-" + secrets.token_hex(8)
        payload = json.dumps({"marker": marker, "deadlines": self.deadlines, **self.words}).encode()
        program = Program(self.source, payload)
        return answer_sections(transport.run(host, program, timeout=self.timeout), marker)


def _facts_request(
    cluster: Cluster, ports: PortSet, sections: Sequence[str], readings: Sequence[str], *, deep: bool
) -> Request:
    """What every host is asked; its own device ids, names and partners come on top."""
    probe, product = cluster.probe, cluster.product
    view = Program(source("job_view"), b"", probe.python, probe.setup, probe.wrapper, probe.user, isolated=False)
    useful = (name for name in (*READERS, "ip") if name != "lldp" or cluster.fabric is Fabric.SWITCHED)
    queries = [name for name in useful if not readings or name in readings]
    deeper = [name for name in DEEP_READERS if name not in READERS and (not readings or name in readings)]
    words: dict[str, object] = {
        "ports": ports.ranges,
        "names": [host.name for host in cluster.hosts],
        "hosts_file": cluster.setup.hosts_file,
        "limits": bool(cluster.setup.memlock or cluster.setup.nofile),
        "readings": [[name, "status" if name == "cfg" else "-g"] for name in queries],
        "deep_readings": deeper if deep else [],
        "chip_queries": [name for name in CHIP_QUERIES if name != "spod-info" or product is Product.ATLAS_A3],
        "shells": {"user": probe.user, "prefixes": shells.PREFIXES, "programs": shells.PROGRAMS},
        "job": {
            "source": view.source,
            "python": view.python,
            "argv": host_argv(view, sudo=False),  # the collector is root already where the host asks for sudo
            "elsewhere": bool(view.setup or view.wrapper or view.user),
            "wanted": {"npu": product.is_npu, "deep": _wanted_of_jobs(cluster) if deep else None},
        },
    }
    deadlines = _deadlines(cluster, deep=deep)
    if sections:
        deadlines = {name: (deadlines | EXTRAS)[name] for name in sections}
    return Request(source("collect"), deadlines, words)


def _deadlines(cluster: Cluster, *, deep: bool) -> dict[str, float]:
    npu = cluster.product.is_npu
    basic = HOST_SECTIONS | (NPU_SECTIONS if npu else {}) | (GPU_SECTIONS if cluster.product is Product.NVIDIA else {})
    # A wrapper leads into a container, and what ssh starts on its host is not where jobs are.
    over_ssh = SSH_SECTIONS if cluster.job.over_ssh and not cluster.probe.wrapper else {}
    return basic | DEEP_HOST_SECTIONS | (DEEP_NPU_SECTIONS if npu else {}) | over_ssh if deep else basic


def all_sections(cluster: Cluster) -> tuple[str, ...]:
    """Everything that the collector can look at, also what is not read."""
    return (*_deadlines(cluster, deep=True), *(EXTRAS if cluster.product.is_npu else {}))


def _wanted_of_jobs(cluster: Cluster) -> dict[str, object]:
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
    return Unreachable(error.trouble.value, error.summary, error.remedy)


def _without_sudo(host: Host) -> Host:
    return replace(host, ssh=replace(host.ssh, sudo=False))


def look(
    cluster: Cluster,
    hosts: Sequence[Host],
    transport: Transport,
    *,
    progress: Callable[[Progress], None] | None,
    ports: PortSet,
    pool: int = POOL,
    sections: Sequence[str] = (),
    readings: Sequence[str] = (),
    deep: bool = False,
    heard: Callable[[str, HostFacts], None] | None = None,
) -> dict[str, Seen | Unreachable]:
    """Look at every host in one round trip: its facts together with what they were read from.

    `ports`: the job ports whose sockets are wanted; `pool`: hosts in flight; `sections`: of the collector, if not all
    are wanted (what comes of the others is `Missing`); `readings`: of hccn_tool's, the same; `deep`: also what is not
    of the basic set; `heard` is told a host's facts when they come, before what others saw of it. Where sudo refuses,
    the host is looked at without root, and its `os` says why. Raises nothing that a host could cause.
    """
    request = _facts_request(cluster, ports, sections, readings, deep=deep)
    connects = {"ports": connections.ports(ports), "ephemeral": cluster.listens_anywhere}
    others = targets(cluster, hosts)
    tries_ssh = "neighbours" in request.deadlines

    def one(host: Host) -> Seen:
        devices = tuple(device.index for device in host.devices)
        called = [host.name, host.address]
        ring = neighbours.targets(hosts, host.name) if tries_ssh else []
        own = {
            "devices": devices, "called": called, "connects": {**connects, "targets": others[host.name]},
            "neighbours": {"user": cluster.probe.user, "targets": ring},
            "naming": naming.wanted(cluster.hosts, host.name),
        }  # fmt: skip
        asked = replace(request, words={**request.words, **own})

        def seen(host: Host, refused: Unreachable | None) -> Seen:
            sent = time.time()
            raw = asked.ask(transport, host)
            found = read(Answered(raw, devices, sent, time.time(), refused), cluster.product, deep=deep)
            if heard:
                heard(host.name, found.facts)
            return found

        try:
            return seen(host, None)
        except TransportError as error:
            if error.trouble is not Trouble.SUDO:
                raise
            return seen(_without_sudo(host), _unreachable(error))

    seen = fan_out(hosts, one, pool=pool, deadline=request.timeout, progress=progress, phase="facts")
    known = with_arrivals(seen, others) if "connects" in request.deadlines else seen
    return {name: _unreachable(it) if isinstance(it, TransportError) else it for name, it in known.items()}


def collect(
    cluster: Cluster,
    hosts: Sequence[Host],
    transport: Transport,
    *,
    progress: Callable[[Progress], None] | None,
    ports: PortSet,
    pool: int = POOL,
    sections: Sequence[str] = (),
    readings: Sequence[str] = (),
    deep: bool = False,
    heard: Callable[[str, HostFacts], None] | None = None,
) -> ClusterFacts:
    """The facts of `hosts`, in their order; see `look`."""
    seen = look(
        cluster, hosts, transport, progress=progress, ports=ports, pool=pool, sections=sections, readings=readings,
        deep=deep, heard=heard,
    )  # fmt: skip
    return ClusterFacts({name: it.facts if isinstance(it, Seen) else it for name, it in seen.items()})


def as_seen(host: Host, facts: ClusterFacts) -> Host:
    """How a later round asks the host: without sudo where it has refused already."""
    found = facts.hosts[host.name]
    refused = isinstance(found, HostFacts) and isinstance(found.os, Os) and found.os.refused
    return _without_sudo(host) if refused else host
