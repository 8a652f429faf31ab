"""The data types that the probe reduces, against HCCL's table of what each product takes."""

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from preflight.model.cluster import Cluster, Device, Host, Product
from preflight.probe.request import Request
from preflight.probe.rounds import ProbePlan

ROOT = Path(__file__).parents[3]
TYPES = tomllib.loads((ROOT / "tests/cases/reduce_types.toml").read_text(encoding="utf-8"))
NPUS = [product for product in Product if product.is_npu]


def reduced(product: Product) -> list[str]:
    """The types of the all_reduces of round 1, and of a pair."""
    hosts = tuple(Host(f"node{n}", "10.0.0.1", devices=(Device(0), Device(1))) for n in range(2))
    plan = ProbePlan(Cluster("test", product, hosts), hosts, Request("hccl", (8, 1 << 20)))
    rounds = (plan.all_devices(1), plan.pair_round(2, plan.neighbours()[0]))
    tests = [test for round_ in rounds for group in round_.groups for test in group.tests]
    return [test.dtype for test in tests if test.op == "all_reduce"]


@pytest.mark.parametrize("product", NPUS)
def test_only_types_are_reduced_that_the_product_takes(product: Product) -> None:
    assert set(reduced(product)) <= set(TYPES[product])
    assert set(TYPES["everywhere"]) <= set(reduced(product))


@pytest.mark.parametrize("product", NPUS)
def test_what_is_measured_is_of_a_type_that_every_product_takes(product: Product) -> None:
    """The sizes, and the first exchange: the others are for values."""
    assert reduced(product)[0] in TYPES["everywhere"]
    assert all(set(TYPES["everywhere"]) <= set(types) for types in TYPES.values())


def test_the_stand_in_takes_what_the_product_takes() -> None:
    """And bool, which HCCL turns into a byte. Read, not imported: it wants a lab's host."""
    source = ast.parse((ROOT / "preflight/lab/standins/python/torch_npu/_hccl.py").read_text(encoding="utf-8"))
    wanted = ("_OF_A1", "_OF_A2", "_REDUCIBLE", "_NO_PRODUCT")
    lines = [node for node in source.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in wanted]
    names: dict[str, Any] = {}
    exec(compile(ast.Module([*lines], []), "_hccl.py", "exec"), {"torch": torch}, names)
    for product in NPUS:
        taken = {str(dtype).removeprefix("torch.") for dtype in names["_REDUCIBLE"][product]}
        assert taken == {*TYPES[product], "bool"}
    assert names["_NO_PRODUCT"] == {torch.int16, torch.bfloat16}
