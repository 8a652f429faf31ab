"""Detailed facts of device NICs: readings of hccn_tool beyond the settings and states of `HccnDevice`.

A field says "source only" if its command's format is known from the driver's source only, and not from real output.
Such a reading never makes a check fail.
"""

from dataclasses import dataclass

from preflight.facts.reading import NOT_SET, Found


@dataclass(frozen=True)
class LinkChange:
    """A change of the link. `at`: the device's clock; None if it is not recognized.

    The tool prints it as "Sun Oct  5 10:13:51 2025". It is read as seconds since 1970 of a clock without a time zone.
    """

    up: bool
    at: float | None


@dataclass(frozen=True)
class LinkHistory:
    """Output of `-link_stat -g`. `downs` None: older 910A drivers do not count them. `changes`: newest first.

    `now` None: not printed, as on Ascend 950, which lists at most the last ten changes.
    """

    now: float | None
    ups: int
    downs: int | None
    changes: tuple[LinkChange, ...]


@dataclass(frozen=True)
class Band:
    """The module's own limits of a value."""

    low: float
    high: float


@dataclass(frozen=True)
class Optics:
    """Output of `-optical -g`. Powers in mW, a value per lane; None if the module has none ("NA", "not supported").

    `*_los`, `*_lol`: loss of signal and of lock, a bit per lane; None if not printed.
    """

    present: bool
    vendor: str = ""
    part: str = ""
    serial: str = ""
    temperature: float | None = None  # °C
    tx_power: tuple[float | None, ...] = ()
    rx_power: tuple[float | None, ...] = ()
    temperature_band: Band | None = None
    tx_band: Band | None = None
    rx_band: Band | None = None
    tx_los: int | None = None
    rx_los: int | None = None
    tx_lol: int | None = None
    rx_lol: int | None = None


@dataclass(frozen=True)
class Arp:
    """A line of `-arp -g`. `mac` None: <incomplete>."""

    address: str
    mac: str | None
    interface: str


@dataclass(frozen=True)
class DeviceRoute:
    """A line of `-route -g`. `gateway` None: directly connected."""

    destination: str  # "default" or an address
    gateway: str | None
    netmask: str
    interface: str


@dataclass(frozen=True)
class Vnic:
    """Output of `-vnic -g` (source only)."""

    link: str = ""
    address: str = ""
    netmask: str = ""


@dataclass(frozen=True)
class UdpPorts:
    """Output of `-udp -g` (source only): the choice of the source port of RoCE packets."""

    mode: str  # "auto", "custom", "multi_qp", "nslb_dp"; "unknown", as the tool prints it
    port: int | None = None
    queue_pairs: int | None = None


@dataclass(frozen=True)
class Bandwidth:
    """Output of `-bandwidth -g` (source only): current MB/s."""

    tx: float
    rx: float


@dataclass(frozen=True)
class Neighbour:
    """Output of `-lldp -g`: the switch and its port; empty if the switch does not send them."""

    system: str = ""
    port: str = ""


@dataclass(frozen=True)
class NicDevice:
    index: int
    history: Found[LinkHistory] = NOT_SET
    optics: Found[Optics] = NOT_SET
    speed: Found[int] = NOT_SET  # Mb/s; None for "Unknown!", as of a link that is down
    duplex: Found[str] = NOT_SET  # Full | Half; None for "Unknown!"
    fec: Found[str] = NOT_SET  # rs | auto | no; the mode on Ascend 950, such as 128 T4
    mac: Found[str] = NOT_SET
    neighbour: Found[Neighbour] = NOT_SET  # None: no LLDP frame received
    packets: Found[dict[str, int]] = NOT_SET  # -stat -g, by the tool's own keys
    resources: Found[dict[str, int]] = NOT_SET  # -hw_stats -g: qp_active …
    arp: Found[tuple[Arp, ...]] = NOT_SET
    routes: Found[tuple[DeviceRoute, ...]] = NOT_SET
    hccp: Found[str] = NOT_SET  # -process -g: exist | not exist
    pfc: Found[tuple[bool, ...]] = NOT_SET  # by priority 0 … 7 (source only)
    dscp_to_tc: Found[dict[int, int]] = NOT_SET  # source only
    vnic: Found[Vnic] = NOT_SET
    udp: Found[UdpPorts] = NOT_SET
    bandwidth: Found[Bandwidth] = NOT_SET


@dataclass(frozen=True)
class Nic:
    devices: tuple[NicDevice, ...]
