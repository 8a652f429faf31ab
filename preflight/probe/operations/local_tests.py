"""Tests of a device alone, before any network, and the training step that comes last. Pure."""

import math

from preflight.model.cluster import Product
from preflight.probe.operations.operation import Operation

COPIES = ("memory", "copy_in", "copy_out")  # within the device; from the host to it; from it to the host
PROCESSOR = "processor"  # a matrix product of one thread on the host's processor: the device has no part in it
OF_DEVICE = (*COPIES, "matmul")
ALONE = (*OF_DEVICE, PROCESSOR)
TRAINING = "training_step"

# Jobs on Atlas A2 and A3 use bfloat16. Atlas A1 has only float16, which older releases of torch do not multiply on a
# host's processor. GPUs have both from Ampere on; an older one refuses bfloat16 (worker/device_test.py).
_SHORT = {
    Product.ATLAS_A1: ("float16",),
    Product.ATLAS_A2: ("bfloat16",),
    Product.ATLAS_A3: ("bfloat16",),
    Product.NVIDIA: ("float16", "bfloat16"),
    Product.CPU: ("bfloat16",),
}
_ITEMSIZE = {"float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}
_TWICE = 2  # one measurement says nothing about how far a device differs from itself


def device_tests(product: Product, backend: str, quick: bool) -> tuple[Operation, ...]:
    """Return the tests of a device, each twice.

    The difference between two times for the same work shows how much the times are worth. `bytes` is a maximum: a
    device takes fewer if its memory is short, or if it is slow (`worker/device_test.py`), and reports how many. For a
    matrix product these are the bytes of one of its three matrices.
    """
    short = _SHORT[Product.CPU if backend == "gloo" else product]
    rows, iterations, warmup = (4096, 3, 1) if quick else (8192, 10, 3)

    def test(op: str, dtype: str) -> Operation:
        return Operation(op, dtype, rows**2 * _ITEMSIZE[dtype], iterations=iterations, warmup=warmup)

    copies = [test(op, "int32") for op in COPIES]
    products = [test("matmul", dtype) for dtype in ("float32", *short)]
    return (*copies, *products) * _TWICE


def processor_tests() -> tuple[Operation, ...]:
    """Return the tests of the processor, for each device's host, each twice. A product takes some milliseconds."""
    return (Operation(PROCESSOR, "float32", 512**2 * _ITEMSIZE["float32"], iterations=5, warmup=1),) * _TWICE


def training_test() -> Operation:
    """Return the training step: a few steps of a small model under DistributedDataParallel.

    `worker/training.py` decides on the number of steps and the model.
    """
    return Operation(TRAINING, "float32", 0)


def tflops(dtype: str, bytes_: int, seconds: float) -> float:
    """Return the TFLOP/s (1e12) of the product of two square matrices of `bytes_` each: 2 n³ operations."""
    return 2 * math.isqrt(bytes_ // _ITEMSIZE[dtype]) ** 3 / seconds / 1e12
