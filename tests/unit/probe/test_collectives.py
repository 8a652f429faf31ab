"""What a group runs: all operations, forms, types and roots of a product; bandwidths of nccl-tests."""

import tomllib
from pathlib import Path

import pytest

from preflight.model.cluster import Product
from preflight.probe.operations.bandwidth import busbw
from preflight.probe.operations.collectives import REDUCTIONS, collectives
from preflight.probe.operations.operation import Operation
from preflight.probe.request import Request

CASES = Path(__file__).parents[2] / "cases"
TYPES = tomllib.loads((CASES / "reduce_types.toml").read_text(encoding="utf-8"))
NPUS = [product for product in Product if product.is_npu]
REDUCING = {"all_reduce", "reduce", "reduce_scatter"}
MOVING = {"broadcast", "all_gather", "gather", "scatter", "all_to_all", "send_recv"}


def listed(
    product: Product = Product.ATLAS_A2, ranks: int = 16, *sizes: int, backend: str = "hccl", quick: bool = False
) -> tuple[Operation, ...]:
    return collectives(product, Request(backend, sizes, quick=quick), ranks)


def types(tests: tuple[Operation, ...], op: str) -> set[str]:
    return {test.dtype for test in tests if test.op == op and test.dtype}


@pytest.mark.parametrize("product", NPUS)
def test_every_operation_is_run_with_every_type_that_the_product_takes(product: Product) -> None:
    tests = listed(product)
    assert {test.op for test in tests} == REDUCING | MOVING | {"barrier"}
    assert all(types(tests, op) == set(TYPES[product]) for op in REDUCING)
    assert all(types(tests, op) == {*TYPES[product], "uint8", "float64"} for op in MOVING)


@pytest.mark.parametrize("product", NPUS)
def test_every_type_is_reduced_in_every_way_but_those_that_hccl_does_not_multiply(product: Product) -> None:
    done = {(test.dtype, test.reduction) for test in listed(product) if test.op in REDUCING}
    products = {dtype for dtype in TYPES[product] if dtype not in ("int16", "bfloat16")}
    assert done == {(d, r) for d in TYPES[product] for r in REDUCTIONS if r != "prod" or d in products}
    for op in REDUCING:
        assert {test.reduction for test in listed(product) if test.op == op} == set(REDUCTIONS)


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_other_backends_are_not_asked_for_types_that_only_hccl_has(backend: str) -> None:
    assert "int16" not in {test.dtype for test in listed(backend=backend)}


def test_every_operation_is_run_in_every_form_that_it_has() -> None:
    forms = {op: {test.form for test in listed() if test.op == op} for op in REDUCING | MOVING}
    for op, wanted in {
        "all_reduce": "tensor async", "reduce": "tensor async", "send_recv": "tensor async",
        "reduce_scatter": "tensor list async", "all_to_all": "tensor list async",
        "broadcast": "tensor async object", "all_gather": "tensor list async object",
        "gather": "list async object", "scatter": "list async object",
    }.items():  # fmt: skip
        assert forms[op] == set(wanted.split()), op


@pytest.mark.parametrize("ranks", [2, 3, 16, 100])
def test_every_rank_is_a_root_and_the_list_grows_no_faster_than_the_ranks(ranks: int) -> None:
    tests = listed(ranks=ranks)
    assert {test.root for test in tests} == {None, *range(ranks)}
    assert len(tests) <= 120 + ranks
    assert len(listed(ranks=ranks, quick=True)) < 30


@pytest.mark.parametrize("quick", [False, True])
def test_what_is_timed_in_a_size_that_tells_whose_part_is_wrong_is_not_run_small_too(quick: bool) -> None:
    def sums(*sizes: int) -> list[tuple[int, int]]:
        tests = listed(Product.ATLAS_A2, 16, *sizes, quick=quick)
        wanted = ("all_reduce", "float32", "sum", "tensor")
        return [(t.bytes, t.iterations) for t in tests if (t.op, t.dtype, t.reduction, t.form) == wanted]

    two_elements_a_rank = 16 * 2 * 4
    assert sums(two_elements_a_rank) == [(two_elements_a_rank, 5)]
    assert sums(8) == [(two_elements_a_rank, 1), (8, 5)]


def test_over_gloo_many_ranks_do_without_what_takes_longer_than_all_the_rest() -> None:
    forms = {ranks: {test.form for test in listed(Product.CPU, ranks, backend="gloo") if test.op == "reduce_scatter"}
             for ranks in (8, 9)}  # fmt: skip
    assert forms == {8: {"tensor", "list", "async"}, 9: {"tensor", "async"}}


def test_times_are_taken_in_all_sizes_rounded_up_to_what_divides_among_the_ranks() -> None:
    timed = [test for test in listed(Product.ATLAS_A2, 3, 1 << 20, 8) if test.iterations > 1]
    sizes = {op: [test.bytes for test in timed if test.op == op] for op in {test.op for test in timed}}
    whole, split = [8, 1 << 20], [12, (1 << 20) + 8]
    assert sizes == {"all_reduce": whole, "broadcast": whole, "all_gather": split, "reduce_scatter": split,
                     "all_to_all": split}  # fmt: skip


@pytest.mark.parametrize(
    ("factor", "ops"),
    [
        (1.5, ["all_reduce"]),
        (0.75, ["all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"]),
        (1.0, ["broadcast", "reduce", "send_recv"]),
    ],
)
def test_bus_bandwidths_are_those_of_nccl_tests(factor: float, ops: list[str]) -> None:
    assert {busbw(op, 10**9, 0.5, 4) for op in ops} == {2 * factor}
