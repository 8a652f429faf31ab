"""HCCL Test of the vendor instead of the probe, where jobs have no torch (MindSpore): one mpirun on the first host."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
from msgspec import Meta

from preflight.facts import answer_frame as framed
from preflight.facts.collect import FactsRequest, collect
from preflight.facts.decode import decode
from preflight.facts.documents.refused_document import json_error
from preflight.facts.hccl_test_run import HcclTestRun
from preflight.facts.parsers.ascend.hccl_test import HcclTest, Row, hccl_test
from preflight.facts.sections.job import Job
from preflight.facts.types import ClusterFacts, HostFacts, Missing
from preflight.model.cluster import Cluster, Host, JobInputs
from preflight.model.measure import End, Member, Observation, RankView, TestOutcome, TestResult
from preflight.probe.lines import job_program
from preflight.probe.operations.bandwidth import algbw, busbw
from preflight.probe.timeouts.deadlines import step_deadline
from preflight.transport.programs import source
from preflight.transport.types import Progress, Transport, TransportError

SPARE = 120.0  # seconds on top of HCCL's own timeouts: for starting processes, and for the sizes themselves
WAY = 60.0  # seconds for connecting, logging in and for ssh from host to host
SMALLEST = 8 << 10  # bytes; HCCL Test's own default, and the smallest that its manual shows
_ELEMENT = 4  # bytes of an fp32; the test takes whole ones

_LONGEST = 4000  # characters of a host's output that go into a finding

_Text = Annotated[str, Meta(max_length=1 << 20)]


class HcclTestAnswer(msgspec.Struct, frozen=True):
    """Answer of preflight/remote/hccl_test.py. `exit` is None if the test took too long."""

    command: _Text = ""
    error: _Text = ""
    output: _Text = ""
    exit: int | None = 0


def nobody_has_torch(observations: Sequence[Observation]) -> bool:
    """Return whether the probe produced nothing because no host's jobs have torch."""
    views = [view for observation in observations for view in observation.ranks]
    return bool(views) and all(view.end is End.LOST and "No module named 'torch'" in view.error for view in views)


def only_mindspore(facts: ClusterFacts) -> bool:
    """Return whether the jobs of all hosts that were checked have MindSpore and no torch.

    If a host has neither, that is a fault.
    """
    jobs = [contact.job for contact in facts.hosts.values() if isinstance(contact, HostFacts)]
    packages = [job.packages for job in jobs if isinstance(job, Job)]
    return bool(packages) and all("mindspore" in names and "torch" not in names for names in packages)


def look(
    cluster: Cluster, hosts: Sequence[Host], transport: Transport, progress: Callable[[Progress], None] | None
) -> ClusterFacts:
    """Collect the job section of the hosts' facts, without the jobs' data."""
    lean = replace(cluster, job=JobInputs())
    return collect(FactsRequest(lean, hosts, sections=("job",), deep=True), transport, progress=progress)


def jobs(facts: ClusterFacts, hosts: Sequence[Host]) -> dict[str, Job | Missing]:
    """Return the job section of each host, or why it was not collected."""
    sections: dict[str, Job | Missing] = {}
    for host in hosts:
        contact = facts.hosts.get(host.name)
        if isinstance(contact, HostFacts):
            sections[host.name] = contact.job or Missing("not collected")
        else:
            sections[host.name] = Missing(contact.summary if contact else "not collected")
    return sections


@dataclass(frozen=True)
class HcclTestPlan:
    """Hosts for HCCL Test. `jobs`: of `jobs`, by host. `sizes` (bytes) default to the inventory's."""

    cluster: Cluster
    hosts: Sequence[Host]
    jobs: Mapping[str, Job | Missing]
    sizes: Sequence[int] = ()

    @property
    def seconds(self) -> float:
        """Seconds that the test may take."""
        variables = [job.variables for job in self.jobs.values() if isinstance(job, Job)]
        return step_deadline(self.cluster.probe, "hccl", self.cluster.product, variables) + SPARE


def run(plan: HcclTestPlan, transport: Transport, progress: Callable[[Progress], None] | None = None) -> HcclTestRun:
    """Run all_reduce_test over all devices of the hosts.

    Never raises for a host: an obstacle to the test is in the answer's `said`.
    """
    members = _members(plan.hosts)
    test = _test(plan)
    if isinstance(test, Missing):
        return HcclTestRun(members, test)
    first, seconds = plan.hosts[0], plan.seconds
    rows = _sizes(tuple(plan.sizes) or plan.cluster.probe.sizes)
    request = _request(plan.hosts, test, rows, seconds)
    if progress:
        waiting = f"HCCL Test over {len(members)} devices"
        progress(Progress(0, 1, 0, slowest=first.name, waiting_for=waiting, phase="HCCL Test", unit="runs"))
    try:
        answer = _ask(plan.cluster, first, request, transport, seconds + WAY)
        if progress:
            progress(Progress(1, 1, 0, phase="HCCL Test", unit="runs"))
    except TransportError as error:
        return HcclTestRun(members, Missing(error.summary))
    except (framed.NoAnswer, msgspec.MsgspecError, UnicodeDecodeError) as error:
        return HcclTestRun(members, Missing(f"{first.name}: {json_error(error)}"))
    result = Missing(f"{first.name}: {answer.error[:_LONGEST]}") if answer.error else hccl_test(answer.output)
    return HcclTestRun(members, result, answer.command[:_LONGEST], exit=answer.exit, seconds=seconds, sizes=rows)


def _sizes(requested: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes that a doubling run from the smallest to the largest of `requested` measures."""
    largest = max(_ELEMENT, max(requested) // _ELEMENT * _ELEMENT)
    sizes = [min(max(SMALLEST, min(requested) // _ELEMENT * _ELEMENT), largest)]
    while sizes[-1] * 2 <= largest:
        sizes.append(sizes[-1] * 2)
    return tuple(sizes)


def _members(hosts: Sequence[Host]) -> tuple[Member, ...]:
    places = [(host.name, device.index) for host in hosts for device in host.devices]
    return tuple(Member(name, index, rank) for rank, (name, index) in enumerate(places))


def _test(plan: HcclTestPlan) -> str | Missing:
    """Return the path of all_reduce_test, or why it cannot be run over these hosts, as far as is known yet."""
    places = set()
    for host in plan.hosts:
        place = _place(host, plan.jobs[host.name])
        if isinstance(place, Missing):
            return place
        places.add(place)
    if not places:
        return Missing("no host is allowed to run HCCL Test")
    if len(places) > 1:
        return Missing(f"all_reduce_test has different paths on the hosts: {', '.join(sorted(places))}")
    if len({tuple(device.index for device in host.devices) for host in plan.hosts}) > 1:
        return Missing(
            "HCCL Test needs the same devices on all hosts, and these hosts have different devices. Select hosts with "
            "--limit"
        )
    if plan.cluster.probe.wrapper and len(plan.hosts) > 1:
        return Missing(
            "jobs run in containers (probe.exec), and mpirun would start ranks on other hosts outside the containers"
        )
    return places.pop()


def _place(host: Host, job: Job | Missing) -> str | Missing:
    """Return the path of all_reduce_test on a host, or why it is not known."""
    if isinstance(job, Missing):
        return Missing(f"{host.name}: could not inspect the jobs' environment: {job.error}")
    how = "Build it in CANN's tools/hccl_test folder: make MPI_HOME=… ASCEND_DIR=…"
    return job.hccl_test.value or Missing(f"{host.name}: all_reduce_test is missing. {how}")


def _request(hosts: Sequence[Host], test: str, sizes: Sequence[int], seconds: float) -> dict[str, object]:
    devices = [device.index for device in hosts[0].devices]
    nics = {host.nic for host in hosts}
    nic = nics.pop() if len(nics) == 1 else None
    variables = {"HCCL_WHITELIST_DISABLE": "1"}
    if nic and "/" not in nic:
        variables["HCCL_SOCKET_IFNAME"] = "=" + nic
    if devices != list(range(len(devices))):
        variables["HCCL_TEST_USE_DEVS"] = ",".join(map(str, devices))
    options = f"-p {len(devices)} -b {sizes[0]} -e {sizes[-1]} -f 2 -d fp32 -o sum -c 1"
    return {
        "marker": "preflight-" + secrets.token_hex(8),
        "test": test,
        "options": options.split(),
        "hosts": [host.address for host in hosts],
        "slots": len(devices),
        "nic": nic,
        "variables": variables,
        "seconds": seconds,
    }


def _ask(
    cluster: Cluster, first: Host, request: Mapping[str, object], transport: Transport, timeout: float
) -> HcclTestAnswer:
    """Run the test on the first host, and return its answer. Raises TransportError, NoAnswer, or msgspec's errors."""
    program = job_program(cluster.probe, source("hccl_test"), json.dumps(request).encode())
    document = framed.document(transport.run(first, program, timeout=timeout), str(request["marker"]))
    return decode(document, HcclTestAnswer)


def observations(run: HcclTestRun) -> tuple[Observation, ...]:
    """Return the rows of HCCL Test as tests like the probe's, for the table.

    Values count as compared only if the row reports it.
    """
    rows = run.said.rows if isinstance(run.said, HcclTest) and not run.strange_rows else ()
    return tuple(_observation(run.members, number, row) for number, row in enumerate(rows))


def _observation(members: tuple[Member, ...], number: int, row: Row) -> Observation:
    outcome = {"failed": TestOutcome.WRONG_DATA, "NULL": TestOutcome.UNCHECKED}.get(row.check, TestOutcome.PASS)
    seconds = row.microseconds / 1e6 or None
    test = TestResult(
        id=f"r1-{number}",
        op="all_reduce",
        dtype="float32",
        bytes=row.size,
        root=None,
        members=members,
        outcome=outcome,
        stage="values" if row.check != "NULL" else "iteration",
        seconds=seconds,
        algbw_GBps=algbw(row.size, seconds) if seconds else None,
        busbw_GBps=busbw("all_reduce", row.size, seconds, len(members)) if seconds else None,
    )
    return Observation(test, tuple(RankView(member, test.stage) for member in members))
