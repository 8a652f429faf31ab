"""Ranks that stop on purpose, one pair for each stage and all in one round: each ends in the sentence that names it.

Real agents and workers, over gloo on the loopback interface. What is measured of time is in benchmarks.
"""

import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.checks.engine.registry import All, all_checks
from preflight.model.cluster import Cluster, Device, Host, ProbeSettings, Product
from preflight.model.finding import Finding
from preflight.model.measure import Member, Observation, Scope, TestOutcome
from preflight.probe.agents import Agents, ProbeWorkload
from preflight.probe.conductor import Conductor
from preflight.probe.operations.operation import Operation
from preflight.probe.request import Request
from preflight.probe.rounds import RankGroup, Round
from preflight.probe.run import probe
from preflight.transport.local import LocalTransport
from preflight.transport.types import Options

DEADLINE = 6.0
TEST = Operation("all_reduce", "float32", 4096, reduction="sum", iterations=2, warmup=1)

# The word after which rank 1 stops → how, and what is said of it. A rank that sleeps is told from one that waits only
# by what it has not done; one that is stopped by its state, too.
STOPS = {
    "torch": (
        "sleep",
        "hung while loading the backend (last stage: torch). 1 other rank waited at stage peers (1 of 2 ranks present)",
    ),
    "backend": (
        "sleep",
        "hung while opening the device (last stage: backend). 1 other rank waited at stage peers (1 of 2 ranks "
        "present)",
    ),
    "device": (
        "sleep",
        "hung while connecting to the rendezvous store (last stage: device). "
        "1 other rank waited at stage peers (1 of 2 ranks present)",
    ),
    "store": (
        "sleep",
        "hung while joining the other ranks (last stage: store). 1 other rank waited at stage peers (1 of 2 "
        "ranks present)",
    ),
    "peers": (
        "stop",
        "hung while creating the communicator (last stage: peers, process state T: stopped). "
        "1 other rank waited at stage communicator",
    ),
    "communicator": (
        "sleep",
        "hung before its next test (last stage: communicator). 1 other rank waited in stage warm-up",
    ),
    "warm-up": (
        "stop",
        "hung during the warm-up of a test (last stage: warm-up, process state T: stopped). 1 other rank waited "
        "in stage warm-up",
    ),
    "iteration": ("stop", "hung during a test (last stage: iteration, process state T: stopped)"),
    "result": ("sleep", "hung while closing the communicator (last stage: values)"),
    "closed": ("stop", "hung while exiting (last stage: closed, process state T: stopped)"),
}
# Asleep inside a collective, or at its end: told from those that wait by what these say when they give up, so there has
# to be a third rank, and at the end by the others having left.
SLEEPS = {
    "warm-up": "hung during the warm-up of a test (last stage: warm-up). 2 other ranks waited in stage warm-up",
    "iteration": "hung during a test (last stage: iteration). 2 other ranks waited in stage iteration",
    "closed": "hung while exiting (last stage: closed)",
}


def cluster(logs: Path) -> Cluster:
    """Two hosts, both this machine, with a device for each stop and one that is well; for each sleep there are two."""
    devices = tuple(Device(index) for index in range(len(STOPS) + 1 + 2 * len(SLEEPS)))
    hosts = (Host("node01", "127.0.0.1", devices=devices), Host("node02", "127.0.0.1", devices=devices))
    stops = {str(device): [how, word] for device, (word, (how, _)) in enumerate(STOPS.items())}
    stops |= {str(asleep(word)): ["sleep", word] for word in SLEEPS}
    words = {
        "PYTHONPATH": str(Path(__file__).parent / "probe_stops"),
        "PATH": f"{Path(__file__).parent / 'probe_faults'}:{os.environ['PATH']}",  # the hccn_tool there
        "STOPS": json.dumps(stops),
        "ASCEND_PROCESS_LOG_PATH": str(logs),
    }
    setup = "; ".join(f"export {name}={shlex.quote(value)}" for name, value in words.items())
    settings = ProbeSettings(sys.executable, setup, backend="hccl", step_deadline=DEADLINE)
    return Cluster("test", Product.ATLAS_A1, hosts, probe=settings)


def asleep(word: str) -> int:
    """The device of the rank that sleeps after it has said `word`."""
    return len(STOPS) + 1 + 2 * list(SLEEPS).index(word)


@pytest.fixture(scope="module")
def observations(tmp_path_factory: pytest.TempPathFactory) -> tuple[Observation, ...]:
    two = cluster(tmp_path_factory.mktemp("logs"))
    groups = tuple(
        RankGroup(f"r1g{device.index}", (Member("node01", device.index, 0), Member("node02", device.index, 1)), (TEST,),
              Scope.PAIR)
        for device in two.hosts[0].devices[: len(STOPS) + 1]
    )  # fmt: skip
    groups += tuple(
        RankGroup(
            f"r1s{one}", (Member("node01", one, 0), Member("node02", one, 1), Member("node01", one + 1, 2)), (TEST,)
        )
        for one in map(asleep, SLEEPS)
    )
    transport = LocalTransport(Options())
    with Agents(two, two.hosts, transport, ProbeWorkload("hccl")) as agents:
        conductor = Conductor(agents, "hccl", lambda _: None)
        conductor.roll_call(two.hosts, float("inf"))
        conductor.deadline = DEADLINE
        return tuple(conductor.play(Round("r1", groups, lanes=len(groups)), float("inf")))


def findings(seen: tuple[Observation, ...]) -> list[Finding]:
    check = all_checks()["PRB101"]
    return list(check.function(All(check, cluster(Path("/")), cluster(Path("/")).hosts), seen, None, None))


def of_device(observations: tuple[Observation, ...], device: int) -> tuple[Observation, ...]:
    return tuple(seen for seen in observations if seen.test.members[0].device == device)


@pytest.mark.parametrize("word", STOPS)
def test_a_rank_that_stops_ends_in_the_sentence_that_names_it(observations: tuple[Observation, ...], word: str) -> None:
    device = list(STOPS).index(word)
    (finding,) = findings(of_device(observations, device))
    how, says = STOPS[word]
    assert finding.summary.startswith(f"node02: device {device} {says}")
    assert (finding.host, finding.device) == ("node02", device)
    assert finding.remedy
    assert how != "stop" or finding.cause.startswith("a debugger, job control or a signal stopped")


@pytest.mark.parametrize("word", SLEEPS)
def test_a_rank_that_sleeps_in_a_collective_is_named_by_its_silence(
    observations: tuple[Observation, ...], word: str
) -> None:
    (finding,) = findings(of_device(observations, asleep(word)))
    assert finding.summary.startswith(f"node02: device {asleep(word)} (rank 1) {SLEEPS[word]}")
    assert (finding.host, finding.device) == ("node02", asleep(word))


def test_the_other_pair_of_the_round_is_unharmed(observations: tuple[Observation, ...]) -> None:
    well = of_device(observations, len(STOPS))
    assert [seen.test.outcome for seen in well] == [TestOutcome.PASS, TestOutcome.PASS]


def test_who_is_missing_where_they_meet_is_told_by_those_who_wait(observations: tuple[Observation, ...]) -> None:
    (finding,) = findings(of_device(observations, list(STOPS).index("store")))
    assert finding.evidence[:2] == (
        "ranks at stage peers (1 of 2 ranks present): node01/3",
        "ranks at stage peers: node02/3",
    )


def test_the_plog_of_the_rank_that_hangs_is_evidence_without_what_looks_secret(
    observations: tuple[Observation, ...],
) -> None:
    (finding,) = findings(of_device(observations, list(STOPS).index("peers")))
    (line,) = (line for line in finding.evidence if " log: " in line)
    assert line.startswith("node02/4 log: [ERROR] HCCL(")
    assert "hunter2" not in line


def test_a_setup_line_that_fails_is_evidence_against_its_host(tmp_path: Path) -> None:
    two = cluster(tmp_path)
    setup = f"source /nowhere/set_env.sh; {two.probe.setup}; export PYTHONPATH={tmp_path}"
    two = replace(two, probe=replace(two.probe, setup=setup))
    one = replace(two, hosts=(replace(two.hosts[0], devices=two.hosts[0].devices[:1]),))
    seen = probe(one, one.hosts, LocalTransport(Options()), Request("hccl", (8,), (Scope.DEVICE,))).observations
    (finding,) = findings(seen)
    assert "No module named 'torch_npu'" in finding.summary
    assert any("/nowhere/set_env.sh: No such file" in line for line in finding.evidence)


@pytest.mark.parametrize(
    ("doing", "hangs", "says"),
    [
        ("while starting", "sleep 12", "no agent started within 4 s"),
        ("(last stage: python)", "", "still importing torch"),
    ],
)
def test_a_host_that_does_not_get_ready_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, doing: str, hangs: str, says: str
) -> None:
    """Python that never starts, because its setup line hangs; a torch whose import does."""
    monkeypatch.setattr("preflight.probe.roll_call.START", 4.0)
    (tmp_path / "torch.py").write_text("import time; time.sleep(600)")
    two = cluster(tmp_path)
    two = replace(two, probe=replace(two.probe, setup=hangs or f"export PYTHONPATH={tmp_path}"))
    found = findings(
        probe(two, two.hosts, LocalTransport(Options()), Request("hccl", (8,), (Scope.DEVICE,))).observations
    )
    assert {finding.host for finding in found} == {"node01", "node02"}
    assert all(doing in finding.summary and says in finding.summary for finding in found)
