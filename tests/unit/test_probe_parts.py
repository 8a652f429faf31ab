"""Patterns of the worker, the table, and the question whether the probe may start."""

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from preflight.facts.types import ClusterFacts, HostFacts, Missing, NpuProcess, NpuSmi, Unreachable
from preflight.model.cluster import Cluster, Host, ProbeSettings, Product
from preflight.model.measure import Member, Observation, RankView, TestOutcome, TestResult
from preflight.probe.permission import may_probe
from preflight.probe.table import rows
from tests.unit.healthy import healthy_cluster, healthy_facts

NETWORK = runpy.run_path(str(Path(__file__).parents[2] / "preflight/remote/agent/network.py"))
WORKER = runpy.run_path(str(Path(__file__).parents[2] / "preflight/remote/worker.py"))


def pattern(rank: int, size: int, *, op: str = "all_reduce", dtype: str = "float32", count: int = 3000,
            root: int | None = None) -> Any:  # fmt: skip
    width = torch.empty(0, dtype=getattr(torch, dtype)).element_size()
    return WORKER["Pattern"]({"op": op, "dtype": dtype, "bytes": count * width, "root": root}, rank, size)


def filled(one: Any) -> torch.Tensor:
    tensor = torch.empty(one.count, dtype=one.dtype)
    one.fill(tensor, one.given)
    return tensor


def reduced(parts: list[Any]) -> torch.Tensor:
    """Added one after the other in the type itself, as a ring does it."""
    total = filled(parts[0])
    for part in parts[1:]:
        total += filled(part)
    return total


@pytest.mark.parametrize("dtype", WORKER["EXACT"])
@pytest.mark.parametrize("size", [1, 2, 3, 16, 130])
@pytest.mark.parametrize("count", [1, 5, 9001])
def test_sums_are_exact_in_every_type_and_for_any_number_of_ranks(dtype: str, size: int, count: int) -> None:
    parts = [pattern(rank, size, dtype=dtype, count=count) for rank in range(size)]
    assert parts[0].compare(reduced(parts)) == (0, "", None)
    assert parts[0].compare(reduced(parts[::-1])) == (0, "", None)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
@pytest.mark.parametrize("size", [2, 16])
def test_a_part_that_is_missing_or_counted_twice_names_its_rank(dtype: str, size: int) -> None:
    parts = [pattern(rank, size, dtype=dtype) for rank in range(size)]
    for bad in range(size):
        for change in (-1, 1):
            wrong, _, suspect = parts[0].compare(reduced(parts) + change * filled(parts[bad]))
            assert wrong > 0
            assert suspect == bad


def test_where_sums_would_not_be_exact_elements_come_from_single_ranks_who_are_named() -> None:
    parts = [pattern(rank, 100, dtype="bfloat16") for rank in range(100)]
    assert parts[0].alone
    wrong, _, suspect = parts[0].compare(reduced([part for part in parts if part is not parts[42]]))
    assert (wrong, suspect) == (30, 42)


def test_a_single_changed_value_is_found_and_nobody_is_named() -> None:
    parts = [pattern(rank, 4) for rank in range(4)]
    total = reduced(parts)
    total[2999] += 1
    wrong, first, suspect = parts[0].compare(total)
    assert (wrong, suspect) == (1, None)
    assert first.startswith("index 2999 of 3000: found ")


def test_a_constant_added_everywhere_names_nobody() -> None:
    parts = [pattern(rank, 4) for rank in range(4)]
    assert parts[0].compare(reduced(parts) + 1)[2] is None


def test_values_in_the_wrong_place_or_no_number_at_all_are_wrong() -> None:
    parts = [pattern(rank, 4) for rank in range(4)]
    assert parts[0].compare(reduced(parts).roll(1))[0] > 2900
    assert parts[0].compare(torch.full((3000,), float("nan")))[0] == 3000


def test_tensors_that_the_memory_does_not_hold_are_refused_before_anybody_allocates() -> None:
    gloo, third = WORKER["ACCESS"]["gloo"], WORKER["_host_memory"]() // 3
    alone = {"device": 0, "tests": [{"bytes": third}], "workers": [{}]}
    WORKER["_fits"](alone, gloo)
    with pytest.raises(RuntimeError, match="its 8 ranks need"):
        WORKER["_fits"]({**alone, "workers": [{}] * 8}, gloo)
    with pytest.raises(RuntimeError, match="free on the device"):
        WORKER["_fits"](alone, gloo._replace(memory=lambda _: (third, third)))


def test_each_root_broadcasts_something_else() -> None:
    sent = [filled(pattern(root, 16, op="broadcast", root=root)) for root in range(16)]
    assert not any(torch.equal(sent[0], other) for other in sent[1:])
    assert pattern(3, 16, op="broadcast", root=5).compare(sent[5]) == (0, "", None)
    assert pattern(3, 16, op="broadcast", root=5).compare(sent[4])[0] == 3000


def two(outcome: TestOutcome = TestOutcome.PASS, *, name: str = "r2-0", device: int = 0, seconds: float | None = 0.01,
        partner: int | None = None) -> Observation:  # fmt: skip
    members = (Member("node01", device, 0), Member("node02", device if partner is None else partner, 1))
    test = TestResult(name, "all_reduce", "float32", 1 << 20, None, members, outcome, "closed", 0, seconds, 0.1, 0.1)
    return Observation(test, tuple(RankView(member, "closed") for member in members))


def cast(root: int, seconds: float) -> Observation:
    members = tuple(Member("node01", rank, rank) for rank in range(4))
    dtype = ("float32", "int32")[root % 2]
    test = TestResult(
        f"r1-{root}", "broadcast", dtype, 1 << 20, root, members, TestOutcome.PASS, "closed", 0, seconds, 0.5, 0.5
    )
    return Observation(test, tuple(RankView(member, "closed") for member in members))


def test_broadcasts_fold_to_the_slowest_root() -> None:
    title, head, _, row = rows([cast(0, 0.001), cast(1, 0.003), cast(2, 0.002)])
    assert title == "broadcast, 4 ranks, slowest root shown"
    assert head.split() == ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"]
    assert row.split() == ["1048576", "2", "types", "none", "1", "3000.0", "0.50", "0.50", "0"]


def test_rails_fold_and_a_pair_counts_with_the_best_of_its_measurements() -> None:
    measured = [two(device=0, seconds=0.5), two(device=0, seconds=0.02), two(device=1, seconds=0.03)]
    title, _, _, row = rows(measured)
    assert title == "all_reduce, 2 pairs along the rails, slowest shown"
    assert row.split()[5] == "30000.0"


def test_slow_and_hanging_pairs_are_named_and_no_line_is_wider_than_a_terminal() -> None:
    lines = rows([
        *(two(device=device) for device in range(4)),
        two(TestOutcome.SLOW, device=5),
        *(two(TestOutcome.HANG, device=device, seconds=None) for device in range(6, 30)),
        two(name="r3-0", device=5, partner=2),
    ])  # fmt: skip
    assert "all_reduce, slow: node01/5 - node02/5" in lines
    assert any(line.startswith("all_reduce, hang: node01/6 - node02/6, ") and line.endswith("…") for line in lines)
    assert "all_reduce, 1 pair with other partners" in lines
    assert any("hang" in line.split() for line in lines)
    assert max(map(len, lines)) <= 80


def test_tests_that_were_not_run_are_counted_in_one_line() -> None:
    lines = rows([two(), *(two(TestOutcome.NOT_RUN, device=device, seconds=None) for device in range(1, 9))])
    assert lines[-1] == "not run, because their ranks had failed before: 8 tests"
    assert len(lines) == 5


def test_values_that_nobody_counted_or_compared_are_no_zero() -> None:
    lines = rows([two(TestOutcome.UNCHECKED, name="r1-0"), two(TestOutcome.WRONG_DATA, name="r1-1"), two(name="r1-2")])
    assert [line.split()[-1] for line in lines[3:]] == ["N/A", "some", "0"]


def test_nothing_measured_is_no_table() -> None:
    assert rows([]) == []


def permission(npu_smi: NpuSmi | Missing | None, *, idle: bool = True, product: Product = Product.ATLAS_A1,
               asked: bool = False) -> list[tuple[str, str]]:  # fmt: skip
    host = Host("node01", "10.0.0.1")
    cluster = Cluster("t", product, (host,), probe=ProbeSettings(idle=idle))
    facts = healthy_facts(healthy_cluster())
    seen = facts.hosts["node01"]
    assert isinstance(seen, HostFacts)
    facts.hosts["node01"] = replace(seen, npu_smi=npu_smi)
    return may_probe(cluster, facts, (host,), asked_idle=asked)


def test_idle_devices_of_hosts_that_the_operator_declared_idle_may_be_probed() -> None:
    assert permission(NpuSmi("24.1", (), ())) == []
    assert permission(NpuSmi("24.1", (), ()), idle=False, asked=True) == []


def test_nobody_is_probed_unless_somebody_said_so() -> None:
    ((host, why),) = permission(NpuSmi("24.1", (), ()), idle=False)
    assert host == "node01"
    assert "--idle" in why


@pytest.mark.parametrize(
    ("npu_smi", "why"),
    [
        (NpuSmi("24.1", (), (NpuProcess(3, 4711, "python"),)), "device 3 is in use by python (pid 4711)"),
        (NpuSmi("24.1", (), (), processes_listed=False), "cannot tell"),
        (Missing("timeout"), "cannot tell"),
        (None, "cannot tell"),
    ],
)
def test_a_device_in_use_and_one_that_cannot_be_looked_at_both_count_as_busy(
    npu_smi: NpuSmi | Missing | None, why: str
) -> None:
    ((_, found),) = permission(npu_smi, asked=True)
    assert why in found


def test_of_gpus_and_hosts_that_were_not_reached_the_operators_word_is_enough() -> None:
    assert permission(None, product=Product.NVIDIA) == []
    host = Host("node01", "10.0.0.1")
    cluster = Cluster("t", Product.ATLAS_A1, (host,))
    gone = ClusterFacts({"node01": Unreachable("timeout", "nothing after 10 s", "look")})
    assert may_probe(cluster, gone, (host,), asked_idle=True) == []


@pytest.mark.parametrize(
    ("host_range", "base_port", "variables"),
    [
        ("", 60000, {"HCCL_IF_BASE_PORT": "60000"}),
        ("61000-61063,61070", 61000, {"HCCL_HOST_SOCKET_PORT_RANGE": "61000-61063,61070"}),
        ("auto", 0, {"HCCL_HOST_SOCKET_PORT_RANGE": "auto"}),
    ],
)
def test_workers_of_hccl_get_the_ports_of_the_inventory(
    host_range: str, base_port: int, variables: dict[str, str]
) -> None:
    hello = {"backend": "hccl", "nic": "eth0", "base_port": base_port, "host_range": host_range}
    environment = NETWORK["network_environment"](hello, "eth0", "10.1.0.1")
    assert {name: value for name, value in environment.items() if "PORT" in name} == variables
