"""RDMA ports, however they are told of: `ibstat`, `ibstatus`, `ibv_devinfo`, `rdma link`, sysfs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from preflight.facts.quote import quote
from preflight.facts.reading import Missing

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
    """One port; None: the tool does not tell. Only `state` ACTIVE is healthy: INIT and ARMED wait for a subnet manager.

    `physical_state` Polling: no signal (cable, switch port); Disabled: switched off. `rate` in Gbit/s, of a port that
    is down whatever the firmware left there. `lid` and `sm_lid` are 0 on Ethernet. `mtu` in bytes, as active.
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
    """`unread`: what of the text is not understood, or is missing in it."""

    ports: tuple[RdmaPort, ...]
    unread: tuple[Missing, ...] = ()


_STATES: dict[str, State] = {
    "nop": "NOP", "down": "DOWN", "init": "INIT", "initializing": "INIT", "armed": "ARMED", "active": "ACTIVE",
    "active_defer": "ACTIVE_DEFER", "actdefer": "ACTIVE_DEFER", "active defer": "ACTIVE_DEFER",
}  # fmt: skip
_PHYSICAL: dict[str, PhysicalState] = {
    "sleep": "Sleep", "polling": "Polling", "disabled": "Disabled", "linkup": "LinkUp", "phytest": "PhyTest",
    "portconfigurationtraining": "PortConfigurationTraining", "linkerrorrecovery": "LinkErrorRecovery",
    "portconfigurationtrainning": "PortConfigurationTraining",  # as ibv_devinfo spells it
    "linkerrorrecover": "LinkErrorRecovery",  # rdma link
}  # fmt: skip
_LAYERS: dict[str, LinkLayer] = {"InfiniBand": "InfiniBand", "IB": "InfiniBand", "Ethernet": "Ethernet"}
# Words of the tools for a value that the kernel does not tell.
_NOT_TOLD = {
    "physical_state": ("No state change", "NOP", "invalid physical state (0)"),
    "link_layer": ("Unspecified", "Unknown"),
}
_NUMBERED = re.compile(r"(?:[0-9]: )?([A-Za-z_ ]{1,40}?)(?: \([0-9]\))?", re.ASCII)  # by sysfs or verbs
_RATE = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,2})?)(?: Gb/sec(?: \([0-9]{1,2}X [A-Z0-9]{1,6}\))?| \(FDR10\))?", re.ASCII)
_MTU = re.compile(r"([0-9]{1,5})(?: \([0-9]\))?", re.ASCII)
_LID = re.compile(r"0x[0-9a-fA-F]{1,8}|[0-9]{1,10}", re.ASCII)
_WORD = re.compile(r"[\w.:/-]{1,60}", re.ASCII)
_GUID = re.compile(r"(?:0x)?([0-9a-fA-F:]{16,19})", re.ASCII)
_LAST = re.compile(r"[Ll]ink[ _]layer:\s*(InfiniBand|Ethernet)")  # the tools' last line, which cannot go on
DEVICE = re.compile(r"[A-Za-z][\w.-]{0,60}", re.ASCII)


class Reader:
    """Makes ports of a tool's (key → value) pairs, and remembers what is not understood. `keys`: the tool's key →
    the field of RdmaPort."""

    def __init__(self, tool: str, keys: dict[str, str]) -> None:
        self.tool = tool
        self.keys = keys
        self.unread: list[Missing] = []
        self.ends_inside_a_line = False
        self._begins_inside_an_adapter = False

    def note(self, said: str) -> None:
        if len(self.unread) < MOST_UNREAD:
            self.unread.append(Missing(f"{self.tool}: {said}"))

    def note_cut(self, device: str, number: int, pairs: dict[str, str], last: str) -> None:
        """Note that the text was cut where the port lacks `last`, the key of the last line that is read of a port."""
        if last not in pairs and not self.ends_inside_a_line:
            self.note(f"{device} port {number} has no {quote(last)}: the text was cut")

    def above(self, line: str) -> None:
        """Note, once, that a line above the first adapter tells of one: the beginning of the text is missing."""
        if not self._begins_inside_an_adapter and pair(line)[0] in self.keys:
            self._begins_inside_an_adapter = True
            self.note(f"{quote(line)} is above the first adapter: the beginning of the text is missing")

    def port(self, device: str, number: int, pairs: dict[str, str]) -> RdmaPort:
        values: dict[str, object] = {}
        for key, value in pairs.items():
            field = self.keys.get(key)
            if field and value and value not in _NOT_TOLD.get(field, ()):
                values[field] = read = _read(field, value)
                if read is None:
                    self.note(f"{device} port {number}: {quote(f'{key}: {value}')} is not understood")
        return RdmaPort(device, number, **values)  # type: ignore[arg-type]

    def ports(self, found: list[RdmaPort], nothing: str, text: str) -> RdmaPorts | Missing:
        """`nothing`: what to say of a `text` that has no port."""
        if not found:
            return self.unread[0] if self.unread else Missing(f"{nothing} {quote(text[:100_000])}")
        seen = [(port.device, port.port) for port in found]
        if len(set(seen)) < len(seen):
            return Missing(f"{self.tool} tells of a port twice: the answers of several hosts or calls are mixed")
        if len(found) > MOST_PORTS:
            return Missing(f"{self.tool} tells of more than {MOST_PORTS} ports")
        return RdmaPorts(tuple(found), tuple(self.unread))


def _read(field: str, value: str) -> object:
    """The value of a field of RdmaPort; None: not understood."""
    if field in ("state", "physical_state"):
        match = _NUMBERED.fullmatch(value)
        word = match.group(1).lower() if match else ""
        return (
            _STATES.get(word.removeprefix("port_"))
            if field == "state"
            else _PHYSICAL.get(word.replace(" ", "").replace("_", ""))
        )
    if field == "rate":
        match = _RATE.fullmatch(value)
        return float(match.group(1)) if match else None
    if field == "link_layer":
        return _LAYERS.get(value)
    if field in ("lid", "sm_lid"):
        return int(value, 16 if value.startswith("0x") else 10) if _LID.fullmatch(value) else None
    if field in ("mtu", "mtu_max"):
        match = _MTU.fullmatch(value)
        return int(match.group(1)) if match else None
    if field == "node_guid":
        match = _GUID.fullmatch(value)
        digits = match.group(1).replace(":", "").lower() if match else ""
        return digits if len(digits) == 16 else None
    return value if _WORD.fullmatch(value) else None


def whole_lines(text: str, reader: Reader) -> Iterator[str]:
    """Stripped lines that say something. What is behind the last line end may be half a value: it is left out, and
    told of where more than blanks are lost."""
    *lines, rest = text[:LONGEST].split("\n")
    yield from filter(None, map(str.strip, lines))
    if _LAST.fullmatch(rest.strip()):
        yield rest.strip()
    elif rest.strip():
        reader.ends_inside_a_line = True
        reader.note(f"the text ends inside the line {quote(rest)}")


def pair(line: str) -> tuple[str, str]:
    key, _, value = line.partition(":")
    return key.strip(), value.strip()
