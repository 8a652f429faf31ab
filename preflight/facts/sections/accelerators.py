"""Accelerators of either vendor on a host, whatever the inventory's product. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Accelerators:
    """`npu_nodes`, `gpu_nodes`: device nodes /dev/davinciN and /dev/nvidiaN. `npus`: PCI device ids of Huawei's
    accelerators; `gpus`: NVIDIA's GPUs on the PCI bus. `chips`: their names in `npu-smi info`, where the inventory's
    product is none with NPUs."""

    npu_nodes: int = 0
    gpu_nodes: int = 0
    npus: tuple[str, ...] = ()
    gpus: int = 0
    chips: tuple[str, ...] = ()

    @property
    def has_npus(self) -> bool:
        return bool(self.npu_nodes or self.npus)

    @property
    def has_gpus(self) -> bool:
        return bool(self.gpu_nodes or self.gpus)
