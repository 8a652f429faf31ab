"""Detailed facts of chips: output of `npu-smi info -t …` beyond the table of `NpuSmi`. By physical id."""

from dataclasses import dataclass

from preflight.facts.reading import NOT_SET, Found


@dataclass(frozen=True)
class Health:
    """Output of `-t health -i N -c C`. `codes`: alarm codes as printed. `words`: the tool's text on them."""

    status: str  # OK, Warning, Alarm, Critical, UNKNOWN, NA
    codes: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True)
class Board:
    """Output of `-t board -i N`. Empty if the tool prints NA, or nothing."""

    driver: str = ""  # Software Version
    firmware: str = ""
    compatible: str = ""  # OK, or another text of the tool
    board_id: str = ""
    bus: str = ""
    serial: str = ""
    chips: int | None = None


@dataclass(frozen=True)
class Usages:
    """Output of `-t usages -i N -c C`, in percent, except for the capacity (MB)."""

    hbm_capacity: int | None = None
    hbm: int | None = None
    aicore: int | None = None


@dataclass(frozen=True)
class SuperPod:
    """Output of `-t spod-info -i N -c C` on Atlas A3 (source only)."""

    sdid: int
    pod: int
    server: int
    size: int


@dataclass(frozen=True)
class Hccs:
    """Output of `-t hccs -i N -c C` (source only). A value per link; empty if the tool does not print it."""

    health: str  # OK, NOK
    lanes: tuple[str, ...] = ()  # "1111": a digit per lane, 0 for a lane that is down
    speeds: tuple[int, ...] = ()  # Gb/s
    retries: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    first_error_lane: int | None = None


@dataclass(frozen=True)
class Chip:
    device: int
    npu: int
    chip: int
    health: Found[Health] = NOT_SET
    board: Found[Board] = NOT_SET
    usages: Found[Usages] = NOT_SET
    superpod: Found[SuperPod] = NOT_SET
    hccs: Found[Hccs] = NOT_SET


@dataclass(frozen=True)
class Topology:
    """Output of `-t topo`: the link from each device to each other one: X, HCCS, PIX, PXB, PHB, SYS, SIO, HCCS_SW, NA.

    `numbers`: the kind of the devices' numbers, `Phy-ID` on Atlas A3, `NPU` (npu-smi's own number) elsewhere.
    """

    devices: tuple[int, ...]
    links: tuple[tuple[str, ...], ...]  # row by row, in the order of `devices`
    cpus: tuple[str, ...] = ()  # "144-167", one per row; empty: not printed, as on Atlas A3 on ARM
    numbers: str = "Phy-ID"


@dataclass(frozen=True)
class Chips:
    chips: tuple[Chip, ...]
    topology: Found[Topology] = NOT_SET
