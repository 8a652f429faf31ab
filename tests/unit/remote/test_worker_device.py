"""What a device does alone, on the CPU: right values pass, and what is planted is found, counted and placed."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from worker import device_test as module
from worker.access import ACCESS
from worker.device_test import MatrixProduct, device_test

from preflight.model.cluster import Product
from preflight.probe.operations.local_tests import device_tests, tflops
from preflight.probe.operations.operation import Operation


def measured(test: Operation, access: Any = ACCESS["gloo"]) -> dict[str, Any]:
    """The result that a rank 0 says of one test."""
    said: list[dict[str, Any]] = []
    device_test(vars(test), {"rank": 0, "device": 0, "workers": [{}]}, access, said.append)
    assert [event["at"] for event in said] == (["enter", "result"] if test.warmup else ["result"])
    return said[-1]


def test_every_test_of_a_device_is_right_on_a_cpu() -> None:
    for test in device_tests(Product.ATLAS_A2, "gloo", quick=True):
        result = measured(test)
        assert (result["wrong"], result["first"], result["suspect"], result["on_host"]) == (0, "", None, True)
        assert len(result["seconds"]) == test.iterations
        assert result["bytes"] == (1 << 17 if test.dtype == "bfloat16" else 1 << 18)


def test_each_is_done_twice_so_that_its_figures_can_be_trusted() -> None:
    for product in Product:
        tests = device_tests(product, "hccl", quick=False)
        assert tests[: len(tests) // 2] == tests[len(tests) // 2 :]
        assert [test.op for test in tests[:5]] == ["memory", "copy_in", "copy_out", "matmul", "matmul"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_part_of_a_sum_is_exact_in_the_type_wherever_it_begins(dtype: str) -> None:
    """The largest a part can be, added up in int64, against what the type holds exactly."""
    work = MatrixProduct(64, dtype, torch.device("cpu"))
    products = work.left.long().unsqueeze(2) * work.right.long().unsqueeze(0)  # row, along, column
    sums = torch.cat([torch.zeros_like(products[:, :1]), products.cumsum(1)], dim=1)
    parts = (sums.amax(1) - sums.amin(1)).amax()
    assert 0 < parts <= {"float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}[dtype]
    assert torch.equal(work.expected.long(), products.sum(1))
    assert len(work.expected.unique()) > 7


def spoil(iteration: int, change: Callable[[torch.Tensor], object], real: Callable[..., Any]) -> Callable[..., Any]:
    """`real`, whose result is changed in one of its calls."""
    calls = iter(range(1000))

    def run(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        if next(calls) == iteration:
            change(result)
        return result

    return run


def test_a_product_that_is_wrong_once_is_found_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    test = Operation("matmul", "float32", 256, iterations=5)
    right = MatrixProduct(8, "float32", torch.device("cpu")).expected[1, 2].item()
    monkeypatch.setattr(torch, "mm", spoil(3, lambda result: result[1, 2].add_(1), torch.mm))
    result = measured(test)
    assert (result["wrong"], result["suspect"]) == (1, 0)
    assert result["first"] == f"index 10 of 64: found {right + 1}, expected {right}"


def test_a_device_that_does_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the iteration before left would look right."""
    monkeypatch.setattr(module.MemoryCopy, "run", lambda _: None)
    for op in ("memory", "copy_in", "copy_out"):
        assert measured(Operation(op, "int32", 256, iterations=2))["wrong"] == 63  # one of the numbers is 0


def test_copied_values_that_change_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(self: module.MemoryCopy) -> None:
        self.target.copy_(self.source.roll(1))

    monkeypatch.setattr(module.MemoryCopy, "run", turned)
    assert measured(Operation("memory", "int32", 256))["wrong"] == 64


def test_not_a_number_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "mm", spoil(0, lambda result: result.fill_(float("nan")), torch.mm))
    assert measured(Operation("matmul", "bfloat16", 128))["wrong"] == 64


def test_a_device_with_little_memory_takes_a_tenth_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three matrices, of a power of two of rows. Where no memory can be pinned, as here, it copies all the same."""
    monkeypatch.setattr(module, "is_host", lambda _: False)
    monkeypatch.setattr(module, "SPIN", 0.0)
    small = SimpleNamespace(place=lambda _: "cpu", synchronise=lambda: None, memory=lambda _: (1 << 20, 1 << 30),
                            multiplies=lambda _: True)  # fmt: skip
    for op, dtype, bytes_ in (("matmul", "float32", 1 << 14), ("copy_in", "int32", 1 << 14)):
        result = measured(Operation(op, dtype, 1 << 28), small)
        assert (result["bytes"], result["wrong"], result["on_host"]) == (bytes_, 0, False)


def test_tflops_are_two_n_cubed() -> None:
    assert tflops("float32", 4 * 8192**2, 0.5) == tflops("bfloat16", 2 * 8192**2, 0.5) == 2 * 8192**3 / 0.5 / 1e12
