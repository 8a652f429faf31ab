"""A healthy host of eight H100 with NVSwitches in facts; a case changes it at `facts.<host>.nvidia`."""

from preflight.facts.parsers.nvidia.nvidia_logs.kernel import KernelLog
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import (
    Clocks,
    Ecc,
    EccCounts,
    Gpu,
    GpuFabric,
    Gpus,
    Mode,
    Pcie,
    Power,
    RemappedRows,
    RetiredPages,
)
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink import GpuNvLinks, NvLink, NvLinks
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink_errors import GpuLinkErrors, LinkErrors, NvLinkErrors
from preflight.facts.parsers.nvidia.nvidia_smi.topology import GpuTopology, TopologyRow
from preflight.facts.reading import Found
from preflight.facts.sections.nvidia import DriverLog, FabricManager, KernelModule, Nvidia, PciGpu

DRIVER, NAME = "535.183.01", "NVIDIA H100 80GB HBM3"
NO_ERRORS = EccCounts(0, 0, 0, 0, None, None)


def bus(index: int) -> str:
    return f"0000:{16 * (index + 1):02x}:00.0"


def uuid(host: int, index: int) -> str:
    return f"GPU-566e6f65-c38e-b12f-{host:04x}-{index:012x}"


def _gpu(host: int, index: int) -> Gpu:
    return Gpu(
        bus=bus(index), product=NAME, architecture="Hopper", uuid=uuid(host, index), serial=None, minor=index,
        vbios="96.00.74.00.01", persistence=True, compute_mode="Default", mig=Mode(False, False), reset_required=False,
        drain_and_reset_recommended=False, recovery_action=None, pcie=Pcie(5, 5, 16, 16, 0), performance_state="P0",
        slowed_by=("Idle",), memory_total=81559, memory_used=0,
        ecc=Ecc(Mode(True, True), NO_ERRORS, NO_ERRORS, False, None, None),
        retired_pages=RetiredPages(None, None, None),
        remapped_rows=RemappedRows(0, 0, False, False), temperature=36, memory_temperature=44,
        power=Power(72.0, 700.0, 700.0, 700.0), clocks=Clocks(345, 1980, 2619, 2619),
        fabric=GpuFabric("Completed", "Success"), processes=(),
    )  # fmt: skip


def _topology() -> GpuTopology:
    """Eight GPUs over NVSwitches, each with a NIC behind its own PCIe switch."""
    gpus, nics = [f"GPU{index}" for index in range(8)], [f"NIC{index}" for index in range(8)]

    def link(row: str, column: str) -> str:
        if row == column:
            return "X"
        if row[:3] == column[:3] == "GPU":
            return "NV18"
        return "PIX" if row[3:] == column[3:] else "SYS"

    devices = (*gpus, *nics)
    rows = tuple(TopologyRow(row, tuple(link(row, column) for column in devices), None, None) for row in devices)
    return GpuTopology(devices, rows, {nic: f"mlx5_{nic[3:]}" for nic in nics})


def healthy_nvidia(host: int) -> Nvidia:
    no_errors = tuple(LinkErrors(number, 0, 0, 0) for number in range(18))
    links = tuple(NvLink(number, 26.562) for number in range(18))
    return Nvidia(
        gpus=Found(Gpus(DRIVER, "12.2", 8, tuple(_gpu(host, index) for index in range(8)))),
        nvlinks=Found(NvLinks(tuple(GpuNvLinks(index, NAME, uuid(host, index), links) for index in range(8)))),
        nvlink_errors=Found(NvLinkErrors(tuple(GpuLinkErrors(index, no_errors) for index in range(8)))),
        topology=Found(_topology()),
        pci=tuple(PciGpu(bus(index), 16, 16) for index in range(8)),
        switches=("0000:07:00.0", "0000:08:00.0", "0000:09:00.0", "0000:0a:00.0"),
        module=KernelModule(DRIVER, is_open=False),
        libraries=(DRIVER,),
        fabric_manager=FabricManager(running=True, at_boot=True, version=DRIVER),
        log=Found(DriverLog(KernelLog(40, (), ()), "driver")),
    )
