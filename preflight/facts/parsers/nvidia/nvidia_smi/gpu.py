"""Readings of one GPU by `nvidia-smi -q`. None: not printed, or N/A; never a guess."""

from dataclasses import dataclass

from preflight.facts.reading import Missing

# Phrases of the readers' errors on incomplete answers.
TEXT_ENDS = "the output ends in the middle of the line"
XML_ENDS, XML_BREAKS = "the XML is cut off or broken", "the XML is broken"
CUT = (TEXT_ENDS, XML_ENDS, XML_BREAKS)
# Their error for an answer with only the values that every driver has.
NAMES_ALONE = "nvidia-smi reports only the names and the memory of the GPUs, so the health of the GPUs is unknown"


@dataclass(frozen=True)
class Mode:
    """A switch of the GPU. `pending`: its state after the next reset or reboot."""

    current: bool | None
    pending: bool | None


@dataclass(frozen=True)
class Pcie:
    """The GPU's PCIe link. `generation` falls while the GPU idles, `width` does not. `replays` since the last reset."""

    generation: int | None
    generation_max: int | None
    width: int | None
    width_max: int | None
    replays: int | None


@dataclass(frozen=True)
class EccCounts:
    """Memory errors: by kind of memory from Turing on, as totals (`single_bit`, `double_bit`) on older GPUs."""

    sram_corrected: int | None
    sram_uncorrected: int | None  # newer drivers print it as two numbers: their sum
    dram_corrected: int | None
    dram_uncorrected: int | None
    single_bit: int | None
    double_bit: int | None


@dataclass(frozen=True)
class Ecc:
    """The state of ECC. `volatile`: errors since the driver was loaded. `aggregate`: errors in the GPU's lifetime."""

    mode: Mode
    volatile: EccCounts
    aggregate: EccCounts
    sram_threshold_exceeded: bool | None
    channel_repair_pending: bool | None  # a reset repairs it, as for TPC; from driver 570 on
    tpc_repair_pending: bool | None


@dataclass(frozen=True)
class RetiredPages:
    """The retired pages of GPUs before Ampere. `pending`: a page will be retired at the next reset."""

    single_bit: int | None
    double_bit: int | None
    pending: bool | None


@dataclass(frozen=True)
class RemappedRows:
    """The remapped rows of GPUs from Ampere on.

    `pending`: a row will be replaced at the next reset. `failed`: no spare row was left.
    """

    correctable: int | None
    uncorrectable: int | None
    pending: bool | None
    failed: bool | None


@dataclass(frozen=True)
class Power:
    """The GPU's power, in watts."""

    draw: float | None
    limit: float | None
    limit_default: float | None
    limit_max: float | None


@dataclass(frozen=True)
class Clocks:
    """The GPU's clocks, in MHz."""

    sm: int | None
    sm_max: int | None
    memory: int | None
    memory_max: int | None


@dataclass(frozen=True)
class GpuFabric:
    """The GPU's state in the NVSwitch fabric (Hopper on): `state` Completed and `status` Success if it is ready."""

    state: str | None
    status: str | None


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU. `kind`: C computes, G draws, C+G both, M+C computes through MPS. `memory` in MiB."""

    pid: int
    kind: str
    name: str
    memory: int | None


@dataclass(frozen=True)
class Gpu:
    """One GPU. Temperatures in °C, memory in MiB. None: not printed.

    `slowed_by`: active reasons for lower clocks in the tool's words (Idle and SW Power Cap are no faults).
    """

    bus: str  # "0000:9b:00.0", as lspci -D prints it
    product: str | None
    architecture: str | None
    uuid: str | None
    serial: str | None
    minor: int | None  # the N of /dev/nvidiaN
    vbios: str | None
    persistence: bool | None
    compute_mode: str | None
    mig: Mode
    reset_required: bool | None
    drain_and_reset_recommended: bool | None
    recovery_action: str | None  # from driver 570 on, in place of the two: "None", "GPU Reset", "Node Reboot" …
    pcie: Pcie
    performance_state: str | None  # P0 (fastest) to P15
    slowed_by: tuple[str, ...] | None
    memory_total: int | None
    memory_used: int | None
    ecc: Ecc
    retired_pages: RetiredPages
    remapped_rows: RemappedRows
    temperature: int | None
    memory_temperature: int | None
    power: Power
    clocks: Clocks
    fabric: GpuFabric
    processes: tuple[GpuProcess, ...] | None


@dataclass(frozen=True)
class Gpus:
    """A host's GPUs. `cuda`: the newest CUDA that the driver supports. `attached`: how many GPUs the driver counts.

    `unread`: values that are not understood, or missing. Their fields are None.
    """

    driver: str | None
    cuda: str | None
    attached: int | None
    gpus: tuple[Gpu, ...]
    unread: tuple[Missing, ...] = ()

    @property
    def cut(self) -> bool:
        """True if the answer is incomplete, so that a missing GPU need not be lost."""
        return any(words in missing.error for missing in self.unread for words in CUT)

    @property
    def names_alone(self) -> bool:
        """True if only the names of the GPUs are known, so that no check of their health passes."""
        return Missing(NAMES_ALONE) in self.unread
