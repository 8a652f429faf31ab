"""The probe over nccl, real agents and workers: CUDA and NCCL are stand-ins (tests/unit/probe/cuda_stand_in)."""

import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preflight.checks.engine.registry import All, all_checks
from preflight.model.cluster import Cluster, Device, Host, ProbeSettings, Product
from preflight.model.finding import Finding
from preflight.model.measure import Member, Observation, Scope, TestOutcome
from preflight.model.outcome import Outcome
from preflight.probe.agents import Agents, ProbeWorkload
from preflight.probe.conductor import Conductor
from preflight.probe.operations.local_tests import device_tests
from preflight.probe.operations.operation import Operation
from preflight.probe.rounds import RankGroup, Round
from preflight.rules.nics.nccl_networks import sentence
from preflight.transport.local import LocalTransport
from preflight.transport.types import Options

TEST = Operation("all_reduce", "float32", 4096, reduction="sum", iterations=2, warmup=1)
IB = ["NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB lo:127.0.0.1<0>", "Using network IB",
      "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA",
      "Channel 01/0 : 1[1] -> 0[0] via P2P/CUMEM"]  # fmt: skip
SOCKET = ["NET/IB : No device found.", "NET/Socket : Using [0]lo:127.0.0.1<0>", "Using network Socket",
          "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"]  # fmt: skip
# torch 2.11 on an H100, with a stand-in of an old driver (docs/gpu-run.md).
OLD_DRIVER = (
    "CUDA initialization: The NVIDIA driver on your system is too old (found version 11020). Please update your GPU "
    "driver by downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
)
GPUS = {"count": 4, "buses": [1, 2, 3, 3, 5], "log": {"0": IB, "1": SOCKET}}


def cluster(gpus: dict[str, Any], transport: str = "ib", temporary: Path = Path("/none")) -> Cluster:
    """Two hosts, both this machine. So the GPUs of both have the same buses, and only one of each may be used.
    `temporary`: of the agents, where they see no other test's."""
    devices = tuple(Device(index) for index in range(5))
    hosts = (Host("node01", "127.0.0.1", devices=devices), Host("node02", "127.0.0.1", devices=devices))
    stand_in = str(Path(__file__).parent / "cuda_stand_in")
    words = {"PYTHONPATH": stand_in, "GPUS": json.dumps(gpus), "TMPDIR": str(temporary)}
    setup = "; ".join(f"export {name}={shlex.quote(value)}" for name, value in words.items())
    settings = ProbeSettings(sys.executable, setup, backend="nccl", transport=transport, step_deadline=20.0)
    return Cluster("test", Product.NVIDIA, hosts, probe=settings)


def pair(name: str, one: int, other: int) -> RankGroup:
    return RankGroup(name, (Member("node01", one, 0), Member("node02", other, 1)), (TEST,), Scope.PAIR)


def alone(name: str, device: int, tests: tuple[Operation, ...]) -> RankGroup:
    return RankGroup(name, (Member("node01", device, 0),), tests, Scope.DEVICE)


def played(two: Cluster, *groups: RankGroup) -> tuple[Observation, ...]:
    with Agents(two, two.hosts, LocalTransport(Options()), ProbeWorkload("nccl")) as agents:
        conductor = Conductor(agents, "nccl", lambda _: None)
        conductor.roll_call(two.hosts, float("inf"))
        conductor.deadline = two.probe.step_deadline
        return tuple(conductor.play(Round("r1", groups, lanes=len(groups)), float("inf")))


def findings(id_: str, two: Cluster, seen: tuple[Observation, ...]) -> list[Finding]:
    check = all_checks()[id_]
    return list(check.function(All(check, two, two.hosts), seen, *([None] * (len(check.needs) - 1))))


@pytest.fixture(scope="module")
def observations(tmp_path_factory: pytest.TempPathFactory) -> tuple[Observation, ...]:
    """A pair over RDMA and sockets, one on a single GPU, one with a GPU that is not there, and a GPU alone."""
    tests = device_tests(Product.NVIDIA, "nccl", quick=True)
    small = tuple(Operation(it.op, it.dtype, 1 << 14, iterations=1) for it in tests[: len(tests) // 2])
    two = cluster(GPUS, temporary=tmp_path_factory.mktemp("agents"))
    return played(two, pair("g0", 0, 1), pair("g1", 2, 3), pair("g2", 2, 4), alone("g3", 3, small))


def of(observations: tuple[Observation, ...], *devices: int) -> list[Observation]:
    return [seen for seen in observations if tuple(member.device for member in seen.test.members) == devices]


def test_collectives_over_the_stand_in_for_nccl_are_right(observations: tuple[Observation, ...]) -> None:
    assert [(seen.test.op, seen.test.outcome) for seen in of(observations, 0, 1)] == [
        ("init", TestOutcome.PASS), ("all_reduce", TestOutcome.PASS)
    ]  # fmt: skip


def test_what_the_log_of_the_stand_in_for_nccl_says_of_the_network_is_told_and_judged(
    observations: tuple[Observation, ...],
) -> None:
    ways = [view.way for view in of(observations, 0, 1)[0].ranks]
    assert [(way.between_hosts, way.ways) for way in ways if way] == [
        ("IB", ("NET/IB", "P2P")), ("Socket", ("NET/Socket",))
    ]  # fmt: skip
    assert sentence(observations) == "NCCL traffic between hosts used IB on node01, Socket on node02"
    seen = tuple(of(observations, 0, 1))
    (finding,) = findings("PRB119", cluster(GPUS), seen)
    assert (finding.host, finding.outcome) == ("node02", Outcome.FAIL)
    assert finding.evidence == ("NET/IB : No device found.", "NET/Socket : Using [0]lo:127.0.0.1<0>",
                                "Using network Socket")  # fmt: skip
    assert [it.outcome for it in findings("PRB119", cluster(GPUS, ""), seen)] == [Outcome.SKIP]


def test_one_network_on_all_hosts_is_told_with_the_log_s_own_line(observations: tuple[Observation, ...]) -> None:
    (init, *_) = of(observations, 0, 1)
    same = replace(init, ranks=(init.ranks[0], replace(init.ranks[1], way=init.ranks[0].way)))
    line = "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB lo:127.0.0.1<0>"
    assert sentence((same,)) == f"NCCL traffic between hosts used IB ({line})"
    assert sentence(of(observations, 3)) == ""


def test_two_ranks_on_one_gpu_are_refused_by_name_before_a_group_is_made(observations: tuple[Observation, ...]) -> None:
    (init, *_) = of(observations, 2, 3)
    assert init.test.outcome is TestOutcome.FAIL
    words = [view.error for view in init.ranks if view.error]
    assert len(words) == 1
    assert words[0].startswith("RuntimeError: Duplicate GPU: rank ")
    assert "are both on GPU PCI 0000:03:00 of the machine with boot id" in words[0]
    (finding,) = findings("PRB101", cluster(GPUS), (init,))
    assert finding.cause.startswith("two ranks use one GPU")


def test_a_gpu_that_is_not_visible_is_said_to_be(observations: tuple[Observation, ...]) -> None:
    (init, *_) = of(observations, 2, 4)
    assert init.ranks[1].error.startswith("RuntimeError: GPU 4 is not visible: torch sees 4 (CUDA_VISIBLE_DEVICES is ")


def test_a_gpu_alone_copies_and_multiplies_in_every_type_that_jobs_use(observations: tuple[Observation, ...]) -> None:
    """On the host's processor, here."""
    done = [(seen.test.op, seen.test.dtype, seen.test.outcome.value) for seen in of(observations, 3)]
    assert done == [
        ("init", "", "pass"), *((op, "int32", "pass") for op in ("memory", "copy_in", "copy_out")),
        *(("matmul", dtype, "pass") for dtype in ("float32", "float16", "bfloat16"))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("gpus", "says", "cause"),
    [
        ({"count": 0, "cpu_build": True}, "is a CPU build: install one that is built with CUDA", "torch without CUDA"),
        ({"count": 0}, "no GPU is visible: torch.cuda.is_available() is False", "hides GPUs of the inventory"),
        ({"count": 0, "warning": OLD_DRIVER}, f"torch warns: {OLD_DRIVER[:100]}", "the driver is older than the CUDA"),
    ],
)
def test_without_a_gpu_or_with_a_torch_for_none_it_is_said_plainly(
    gpus: dict[str, Any], says: str, cause: str, tmp_path: Path
) -> None:
    two = cluster({**GPUS, **gpus}, temporary=tmp_path)
    seen = played(two, pair("g0", 0, 1))
    assert says in seen[0].ranks[0].error
    assert cause in findings("PRB101", two, seen)[0].cause


def test_the_page_of_what_has_never_run_names_every_function_that_only_a_gpu_runs() -> None:
    root = Path(__file__).parents[3]
    source = (root / "preflight/remote/worker/access.py").read_text(encoding="utf-8")
    page = (root / "docs/never-run.md").read_text(encoding="utf-8")
    functions = re.findall(r"^def (_\w+_cuda)\(", source, re.MULTILINE)
    assert len(functions) == 7
    assert [name for name in functions if f"`{name}`" not in page] == []


def test_a_type_that_an_older_gpu_does_not_multiply_is_refused_and_nobody_s_fault(tmp_path: Path) -> None:
    test = Operation("matmul", "bfloat16", 1 << 14, iterations=1)
    seen = played(cluster({**GPUS, "bf16": False}, temporary=tmp_path), alone("g0", 0, (test,)))
    assert seen[-1].test.outcome is TestOutcome.REFUSED
    assert seen[-1].ranks[0].error == "the device does not multiply bfloat16"
