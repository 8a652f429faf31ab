"""Real workers over gloo: every operation in every form, wrong data of a rank, and a torch that has less."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worker.collective import lacking, names, refused
from worker.measure import all_refuse

from preflight.model.cluster import Product
from preflight.probe.operations.collectives import collectives
from preflight.probe.operations.operation import Operation
from preflight.probe.request import Request

REDUCING = ("all_reduce", "reduce", "reduce_scatter")
NEW = ("all_gather_single", "all_gather_into_tensor", "reduce_scatter_single", "reduce_scatter_tensor")
Result = dict[str, Any]


def listed(ranks: int) -> tuple[Operation, ...]:
    return collectives(Product.CPU, Request("gloo", (1 << 16,)), ranks)


def said(ranks: int, *plant: tuple[int | None, str]) -> list[list[Result]]:
    request = {"size": ranks, "tests": [asdict(test) for test in listed(ranks)], "plant": plant}
    program = Path(__file__).parent / "worker_group.py"
    done = subprocess.run([sys.executable, program], input=json.dumps(request).encode(), stdout=-1, check=True)
    events: list[list[Result]] = json.loads(done.stdout)
    return events


def results(events: list[list[Result]]) -> Iterator[tuple[int, Operation, Result]]:
    """Rank, test, and what the rank found; every rank has done all tests and closed."""
    tests = listed(len(events))
    for rank, words in enumerate(events):
        found = [word for word in words if word["at"] == "result"]
        assert [word["test"] for word in found] == list(range(len(tests))), words[-1]
        assert words[-1] == {"at": "stage", "stage": "closed"}
        yield from ((rank, test, word) for test, word in zip(tests, found, strict=True))


@pytest.fixture(scope="module")
def healthy() -> list[list[Result]]:
    """Three ranks: with an odd number, a ring of senders and receivers does not come out even."""
    return said(3)


def test_every_operation_in_every_form_brings_what_it_must(healthy: list[list[Result]]) -> None:
    assert [(test, word) for _, test, word in results(healthy) if word["wrong"] or not word["seconds"]] == []


def test_what_is_timed_begins_after_warming_up(healthy: list[list[Result]]) -> None:
    numbers = {number for number, test in enumerate(listed(3)) if test.warmup}
    entered = [word for word in healthy[0] if word["at"] == "enter"]
    assert {word["test"] for word in entered if word["stage"] == "warm-up"} == numbers
    assert all(len(word["seconds"]) == test.iterations for _, test, word in results(healthy))


def test_wrong_data_of_a_rank_is_found_in_every_operation_and_names_it() -> None:
    blamed: dict[Operation, set[int | None]] = {}
    for rank, test, word in results(said(4, (2, "wrong"))):
        if word["wrong"] and rank != 2:
            blamed.setdefault(test, set()).add(word["suspect"])
    # Where 2 is the only one that gives, or that gets, it is not, or alone, concerned.
    apart = [test.root == 2 if test.op in ("reduce", "gather") else test.root not in (None, 2) for test in listed(4)]
    missed = [test for test, alone in zip(listed(4), apart, strict=True) if not alone and test not in blamed]
    assert {test.op for test in missed} == {"barrier"}
    # Twice the part of a product is twice the product, whoever's it was.
    unnamed = {test for test, suspects in blamed.items() if suspects != {2}}
    assert {(test.op in REDUCING, test.reduction) for test in unnamed} == {(True, "prod")}


def test_a_barrier_that_does_not_wait_is_wrong_and_what_a_backend_refuses_is_said() -> None:
    events = list(results(said(3, (None, "early"), (None, "refuses reduce_scatter"))))
    wrong = {(test.op, word["first"]) for _, test, word in events if word["wrong"]}
    assert {op for op, _ in wrong} == {"barrier"}
    assert all(text.startswith("the barrier returned before rank ") for _, text in wrong)
    refusing = {(test.op, test.form, word["refused"]) for _, test, word in events if word.get("refused")}
    assert refusing == {("reduce_scatter", "list", "ProcessGroupGloo does not support reduce_scatter")}


def test_an_old_torch_runs_the_same_operations_under_their_old_names() -> None:
    """1.11 has _all_gather_base and _reduce_scatter_base."""
    events = said(3, (None, "lacks " + " ".join(NEW)))
    assert [test for _, test, word in results(events) if word["wrong"] or not word["seconds"]] == []


def test_what_one_rank_s_torch_lacks_no_rank_waits_for_and_the_rest_goes_on() -> None:
    events = said(3, (1, "lacks all_gather_single all_gather_into_tensor _all_gather_base scatter_object_list"))
    why: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
    for rank, test, word in results(events):
        lacks = (test.op, test.form) in {("all_gather", "tensor"), ("all_gather", "async"), ("scatter", "object")}
        assert bool(word.get("refused")) == lacks
        assert bool(word["seconds"]) != lacks
        why[rank] |= {word["refused"]} if lacks else set()
    assert why[0] == why[2] == {"another rank's torch does not have it"}
    assert "this torch has no torch.distributed.all_gather_single" in why[1]


def test_every_operation_has_a_name_in_torch_1_11() -> None:
    """Its torch.distributed, as far as the probe calls it (torch 1.11, distributed_c10d.py)."""
    old = (
        "all_reduce broadcast reduce all_gather reduce_scatter scatter gather all_to_all all_to_all_single barrier "
        "send recv isend irecv batch_isend_irecv P2POp _all_gather_base _reduce_scatter_base broadcast_object_list "
        "all_gather_object gather_object scatter_object_list"
    )
    torch = SimpleNamespace(**dict.fromkeys(old.split()))
    assert {lacking(asdict(test), torch) for test in listed(3)} == {""}
    assert names("all_gather", "tensor")[-1] == "_all_gather_base"


@pytest.mark.parametrize(
    ("text", "said_no"),
    [
        ("ProcessGroupGloo does not support reduce_scatter", True),
        ("Invalid scalar type", True),
        ("Input tensor data type is not supported for NCCL process group: Short", True),
        ("Please register PrivateUse1HooksInterface by RegisterPrivateUse1HooksInterface first.", True),
        ("Invalid_Argument(EI0003): In [x], value [y] for\nparameter [dataType] is invalid on z.", True),
        ("Connection closed by peer", False),
        ("NCCL error: unhandled system error: Call to ibv_reg_mr failed with error Operation not supported", False),
        ("Communication_Error(EI0006): Getting socket times out.", False),
    ],
)
def test_a_refusal_is_told_from_a_fault(text: str, said_no: bool) -> None:
    assert refused(RuntimeError(text)) is said_no


@pytest.mark.parametrize(("deadline", "seconds"), [(8.0, 4.0), (180.0, 20.0)])
def test_a_rank_that_alone_refuses_says_so_before_its_deadline(
    monkeypatch: pytest.MonkeyPatch, deadline: float, seconds: float
) -> None:
    """Or it would end as a rank that hangs, without its error."""
    waited = []

    class Store:
        def add(self, _key: str, _one: int) -> int:
            return 1

        def wait(self, _keys: list[str], timeout: timedelta) -> None:
            waited.append(timeout.total_seconds())
            raise RuntimeError("nobody else")

    monkeypatch.setattr("torch.distributed.distributed_c10d._get_default_store", Store)
    with pytest.raises(ValueError, match="not supported"):
        all_refuse({"size": 2, "deadline": deadline}, ValueError("not supported"))
    assert waited == [seconds]
