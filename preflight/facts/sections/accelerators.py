"""Accelerators of either vendor on a host, whatever the inventory's product. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Accelerators:
    """The accelerators of a host. `npu_nodes`, `gpu_nodes`: how many nodes /dev/davinciN and /dev/nvidiaN it has.

    `npus`: PCI device ids of Huawei's accelerators. `gpus`: how many GPUs of NVIDIA the PCI bus has. `chips`: names of
    the chips in `npu-smi info`, if the inventory's product has no NPUs.
    """

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
