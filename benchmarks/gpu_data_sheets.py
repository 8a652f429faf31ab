"""Figures from data sheets of NVIDIA GPUs, and the share of them that a healthy GPU reaches in the device tests.

Sources: NVIDIA's data sheets of A100, H100, H200, L40S and A10. Tensor figures are those without sparsity. The rate of
PCIe follows from generation and width (PCI-SIG: GB/s of a lane, each way, before the overhead of packets).
"""

from dataclasses import dataclass

# The least share of a data sheet's figure that counts as right. The copies and products of the probe are single calls
# that are timed one by one, so they do not reach the figures of long runs.
LEAST = {"memory": 0.5, "copy_in": 0.6, "copy_out": 0.6, "float32": 0.6, "float16": 0.5, "bfloat16": 0.5}
_LANE = {3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}


@dataclass(frozen=True)
class DataSheet:
    """`memory`: GB/s of the GPU's memory, reads and writes together. `float32`: TFLOP/s without tensor cores.
    `half`: TFLOP/s in float16 and bfloat16."""

    memory: float
    float32: float
    half: float

    def tflops(self, dtype: str) -> float:
        return self.float32 if dtype == "float32" else self.half


# By the name that the driver prints.
DATA_SHEETS = {
    "NVIDIA A10": DataSheet(600, 31.2, 125),
    "NVIDIA A100-SXM4-40GB": DataSheet(1555, 19.5, 312),
    "NVIDIA A100-SXM4-80GB": DataSheet(2039, 19.5, 312),
    "NVIDIA A100 80GB PCIe": DataSheet(1935, 19.5, 312),
    "NVIDIA L40S": DataSheet(864, 91.6, 362),
    "NVIDIA H100 PCIe": DataSheet(2000, 51, 756),
    "NVIDIA H100 80GB HBM3": DataSheet(3350, 67, 989),
    "NVIDIA H200": DataSheet(4800, 67, 989),
}


def pcie(generation: int | None, width: int | None) -> float | None:
    """Return the GB/s of a PCIe link, each way; None if its generation or width is not known."""
    return _LANE[generation] * width if generation in _LANE and width else None
