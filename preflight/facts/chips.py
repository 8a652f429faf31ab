"""The chips in depth: what `npu-smi info -t …` tells beyond the table of `NpuSmi`. By physical id."""

from dataclasses import dataclass, field

from preflight.facts.found import Found


@dataclass(frozen=True)
class Health:
    """`-t health -i N -c C`. `codes`: alarm codes as printed, `words`: what the tool says of them."""

    status: str  # OK, Warning, Alarm, Critical, UNKNOWN
    codes: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True)
class Board:
    """`-t board -i N`. Empty where the tool prints NA, or not at all."""

    driver: str = ""  # Software Version
    firmware: str = ""
    compatible: str = ""  # OK, or what it says else
    board_id: str = ""
    bus: str = ""
    serial: str = ""
    chips: int | None = None


@dataclass(frozen=True)
class Usages:
    """`-t usages -i N -c C`, in percent but for the capacity (MB)."""

    hbm_capacity: int | None = None
    hbm: int | None = None
    aicore: int | None = None


@dataclass(frozen=True)
class SuperPod:
    """`-t spod-info -i N -c C` of Atlas A3 (source only)."""

    sdid: int
    pod: int
    server: int
    size: int


@dataclass(frozen=True)
class Hccs:
    """`-t hccs -i N -c C` (source only). `errors`: counters by the tool's own names."""

    health: str
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Chip:
    device: int
    npu: int
    chip: int
    health: Found[Health] = field(default_factory=Found)
    board: Found[Board] = field(default_factory=Found)
    usages: Found[Usages] = field(default_factory=Found)
    superpod: Found[SuperPod] = field(default_factory=Found)
    hccs: Found[Hccs] = field(default_factory=Found)


@dataclass(frozen=True)
class Topology:
    """`-t topo`: how each device reaches each other one: X, HCCS, PIX, PXB, PHB, SYS, SIO, HCCS_SW, NA."""

    devices: tuple[int, ...]
    links: tuple[tuple[str, ...], ...]  # row by row, in the order of `devices`
    cpus: tuple[str, ...] = ()  # "144-167", a row each


@dataclass(frozen=True)
class Chips:
    chips: tuple[Chip, ...]
    topology: Found[Topology] = field(default_factory=Found)
