"""RDMA ports from any source: `ibstat`, `ibstatus`, `ibv_devinfo`, `rdma link`, sysfs."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from preflight.facts.reading import Missing
from preflight.model.text import quote

LONGEST = 4 << 20  # characters
MOST_PORTS = 1024
MOST_UNREAD = 20

State = Literal["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"]
PhysicalState = Literal[
    "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "PhyTest"
]
LinkLayer = Literal["InfiniBand", "Ethernet"]


@dataclass(frozen=True)
class RdmaPort:
    """One port. None: not printed. Only `state` ACTIVE is healthy: INIT and ARMED wait for a subnet manager.

    `physical_state` Polling: no signal (cable, switch port); Disabled: switched off. `rate` in Gbit/s; if the port is
    down, any value that the firmware left. `lid` and `sm_lid` are 0 on Ethernet. `mtu`: the active one, in bytes.
    """

    device: str  # mlx5_0
    port: int
    state: State | None = None
    physical_state: PhysicalState | None = None
    rate: float | None = None
    link_layer: LinkLayer | None = None
    lid: int | None = None
    sm_lid: int | None = None
    mtu: int | None = None
    mtu_max: int | None = None
    netdev: str | None = None
    model: str | None = None  # MT4129
    firmware: str | None = None
    board_id: str | None = None
    node_guid: str | None = None  # sixteen hexadecimal digits


@dataclass(frozen=True)
class RdmaPorts:
    """All ports of a host. `unread`: parts of the text that are missing or not understood."""

    ports: tuple[RdmaPort, ...]
    unread: tuple[Missing, ...] = ()


_STATES: dict[str, State] = {
    "nop": "NOP",
    "down": "DOWN",
    "init": "INIT",
    "initializing": "INIT",
    "armed": "ARMED",
    "active": "ACTIVE",
    "active_defer": "ACTIVE_DEFER",
    "actdefer": "ACTIVE_DEFER",
    "active defer": "ACTIVE_DEFER",
}
_PHYSICAL: dict[str, PhysicalState] = {
    "sleep": "Sleep",
    "polling": "Polling",
    "disabled": "Disabled",
    "linkup": "LinkUp",
    "phytest": "PhyTest",
    "portconfigurationtraining": "PortConfigurationTraining",
    "portconfigurationtrainning": "PortConfigurationTraining",  # as ibv_devinfo spells it
    "linkerrorrecovery": "LinkErrorRecovery",
    "linkerrorrecover": "LinkErrorRecovery",  # rdma link
}
_LAYERS: dict[str, LinkLayer] = {"InfiniBand": "InfiniBand", "IB": "InfiniBand", "Ethernet": "Ethernet"}
# The tools' words for a value that the kernel does not have.
_NOT_TOLD = {
    "physical_state": ("No state change", "NOP", "invalid physical state (0)"),
    "link_layer": ("Unspecified", "Unknown"),
}
_NUMBERED = re.compile(r"(?:[0-9]: )?([A-Za-z_ ]{1,40}?)(?: \([0-9]\))?", re.ASCII)  # from sysfs or verbs
_RATE = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,2})?)(?: Gb/sec(?: \([0-9]{1,2}X [A-Z0-9]{1,6}\))?| \(FDR10\))?", re.ASCII)
_MTU = re.compile(r"([0-9]{1,5})(?: \([0-9]\))?", re.ASCII)
_LID = re.compile(r"0x[0-9a-fA-F]{1,8}|[0-9]{1,10}", re.ASCII)
_WORD = re.compile(r"[\w.:/-]{1,60}", re.ASCII)
_GUID = re.compile(r"(?:0x)?([0-9a-fA-F:]{16,19})", re.ASCII)
_LAST = re.compile(
    r"[Ll]ink[ _]layer:\s*(InfiniBand|Ethernet)"
)  # the tools' last line, which is complete without a line end
DEVICE = re.compile(r"[A-Za-z][\w.-]{0,60}", re.ASCII)


class Reader:
    """Ports from a tool's (key → value) pairs, and the pairs that are not understood.

    `keys`: the tool's key → the field of RdmaPort.
    """

    def __init__(self, tool: str, keys: dict[str, str]) -> None:
        self.tool = tool
        self.keys = keys
        self.unread: list[Missing] = []
        self.ends_inside_a_line = False
        self._begins_inside_an_adapter = False

    def note(self, problem: str) -> None:
        if len(self.unread) < MOST_UNREAD:
            self.unread.append(Missing(f"{self.tool}: {problem}"))

    def note_cut(self, device: str, number: int, pairs: dict[str, str], last: str) -> None:
        """Note that the text was cut if the port lacks its state, or `last`, the key of a port's last line."""
        if "state" not in map(self.keys.get, pairs):
            self.note(f"{device} port {number} has no state: the text was cut")
        elif last not in pairs and not self.ends_inside_a_line:
            self.note(f"{device} port {number} has no {quote(last)}: the text was cut")

    def add_pair(self, device: str, pairs: dict[str, str], key: str, value: str) -> None:
        """Add the pair to `pairs`. A key with two values has none."""
        if pairs.setdefault(key, value) != value:
            self.note(f"{device}: {quote(key)} is listed twice")
            pairs[key] = ""

    def above(self, line: str) -> None:
        """Note, once, that a line above the first adapter belongs to an adapter: the text lacks its beginning."""
        if not self._begins_inside_an_adapter and pair(line)[0] in self.keys:
            self._begins_inside_an_adapter = True
            self.note(f"{quote(line)} is above the first adapter: the beginning of the text is missing")

    def port(self, device: str, number: int, pairs: dict[str, str]) -> RdmaPort:
        values: dict[str, object] = {}
        for key, value in pairs.items():
            field = self.keys.get(key)
            if field and value and value not in _NOT_TOLD.get(field, ()):
                values[field] = _PARSERS.get(field, _word)(value)
                if values[field] is None:
                    self.note(f"{device} port {number}: {quote(f'{key}: {value}')} is not recognized")
        return RdmaPort(device, number, **values)  # type: ignore[arg-type]

    def ports(self, ports: list[RdmaPort], nothing: str, text: str) -> RdmaPorts | Missing:
        """Return `ports` and the notes. `nothing`: the beginning of the sentence on a `text` without a port."""
        if not ports:
            return self.unread[0] if self.unread else Missing(f"{nothing} {quote(text[:100_000])}")
        places = {(port.device, port.port) for port in ports}
        if len(places) < len(ports):
            return Missing(f"{self.tool} lists a port twice: the output of several hosts or calls is mixed together")
        if len(ports) > MOST_PORTS:
            return Missing(f"{self.tool} lists more than {MOST_PORTS} ports")
        return RdmaPorts(tuple(ports), tuple(self.unread))


def _state(value: str) -> State | None:
    match = _NUMBERED.fullmatch(value)
    return _STATES.get(match.group(1).lower().removeprefix("port_")) if match else None


def _physical_state(value: str) -> PhysicalState | None:
    match = _NUMBERED.fullmatch(value)
    return _PHYSICAL.get(match.group(1).lower().replace(" ", "").replace("_", "")) if match else None


def _rate(value: str) -> float | None:
    match = _RATE.fullmatch(value)
    return float(match.group(1)) if match else None


def _lid(value: str) -> int | None:
    return int(value, 16 if value.startswith("0x") else 10) if _LID.fullmatch(value) else None


def _mtu(value: str) -> int | None:
    match = _MTU.fullmatch(value)
    return int(match.group(1)) if match else None


def _guid(value: str) -> str | None:
    match = _GUID.fullmatch(value)
    digits = match.group(1).replace(":", "").lower() if match else ""
    return digits if len(digits) == 16 else None


def _word(value: str) -> str | None:
    return value if _WORD.fullmatch(value) else None


# Fields of RdmaPort → the parser of their values, which returns None for an unknown value. Other fields are words.
_PARSERS: dict[str, Callable[[str], object]] = {
    "state": _state,
    "physical_state": _physical_state,
    "rate": _rate,
    "link_layer": _LAYERS.get,
    "lid": _lid,
    "sm_lid": _lid,
    "mtu": _mtu,
    "mtu_max": _mtu,
    "node_guid": _guid,
}


def whole_lines(text: str, reader: Reader) -> Iterator[str]:
    """Yield stripped lines that are not empty. Text after the last line end may be half a value: it is only noted."""
    *lines, cut = text[:LONGEST].split("\n")
    yield from filter(None, map(str.strip, lines))
    if _LAST.fullmatch(cut.strip()):
        yield cut.strip()
    elif cut.strip():
        reader.ends_inside_a_line = True
        reader.note(f"the output ends in the middle of the line {quote(cut)}")


def pair(line: str) -> tuple[str, str]:
    key, _, value = line.partition(":")
    return key.strip(), value.strip()
