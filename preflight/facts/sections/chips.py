"""The chips in depth: what `npu-smi info -t …` tells beyond the table of `NpuSmi`. By physical id."""

from dataclasses import dataclass, field

from preflight.facts.reading import Found


@dataclass(frozen=True)
class Health:
    """`-t health -i N -c C`. `codes`: alarm codes as printed, `words`: what the tool says of them."""

    status: str  # OK, Warning, Alarm, Critical, UNKNOWN, NA
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
    """`-t hccs -i N -c C` (source only). A value a link; empty where the tool does not tell."""

    health: str  # OK, NOK
    lanes: tuple[str, ...] = ()  # "1111": a digit a lane, 0 for one that is down
    speeds: tuple[int, ...] = ()  # Gb/s
    retries: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    first_error_lane: int | None = None


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
    """`-t topo`: how each device reaches each other one: X, HCCS, PIX, PXB, PHB, SYS, SIO, HCCS_SW, NA.

    `numbers`: what the tool calls them by, `Phy-ID` on Atlas A3 and `NPU` (npu-smi's own number) elsewhere."""

    devices: tuple[int, ...]
    links: tuple[tuple[str, ...], ...]  # row by row, in the order of `devices`
    cpus: tuple[str, ...] = ()  # "144-167", a row each; empty: not told, as by Atlas A3 on ARM
    numbers: str = "Phy-ID"


@dataclass(frozen=True)
class Chips:
    chips: tuple[Chip, ...]
    topology: Found[Topology] = field(default_factory=Found)
