"""`ibstat` and `ibstatus`, of infiniband-diags."""

import re

from preflight.facts.parsers.rdma.port import LONGEST, RdmaPort, RdmaPorts, Reader, pair, whole_lines
from preflight.facts.reading import Missing
from preflight.model.text import quote

# "CA 'mlx5_0'"; "iWARP RNIC 'cxgb4_0'", "??? 'efa_0'"; with a colon if the query is for one port
_ADAPTER = re.compile(r"([^:']{1,30}):? '([A-Za-z][\w.-]{0,60})'", re.ASCII)
_PORT = re.compile(r"Port ([0-9]{1,3}):", re.ASCII)
_IBSTATUS = re.compile(r"Infiniband device '([A-Za-z][\w.-]{0,60})' port ([0-9]{1,3}) status:", re.ASCII)
_IBSTAT_KEYS = {
    "CA type": "model",
    "Firmware version": "firmware",
    "Node GUID": "node_guid",
    "State": "state",
    "Physical state": "physical_state",
    "Rate": "rate",
    "Base lid": "lid",
    "SM lid": "sm_lid",
    "Link layer": "link_layer",
}
_IBSTATUS_KEYS = {
    "base lid": "lid",
    "sm lid": "sm_lid",
    "state": "state",
    "phys state": "physical_state",
    "rate": "rate",
    "link_layer": "link_layer",
}
_NO_IB = "no RDMA device: its driver is not loaded, or none is there"
# A line of libibumad's debug output.
_STEP = re.compile(
    r"ibwarn: \[[0-9]{1,10}\] (?:umad_\w{1,60}|resolve_ca_\w{1,20}|dev_to_umad_id): (.{0,400})", re.ASCII
)
_FAILED = re.compile(
    r"can't|cannot|could ?n.t|fail|wrong|error|unable|invalid|\bbad\b|denied|\bno\b|not found", re.IGNORECASE
)
_GONE = re.compile(r"stat of IB device '.{1,60}' failed: No such file")


class _Adapter:
    """The lines of `ibstat` on one adapter so far."""

    def __init__(self, reader: Reader, last: str, kind: str = "", name: str = "") -> None:
        self.reader = reader
        self.last = last  # key of a port's last line
        self.kind = kind
        self.name = name
        self.number: int | None = None
        self.ports_left: int | None = None  # None: the adapter does not count its ports, as in a query for one port
        self.pairs: dict[str, str] = {}
        self.port_pairs: dict[str, str] = {}

    def add(self, line: str) -> None:
        """Keep a line about the adapter or its port. Other lines, such as messages, may come several times."""
        if not self.name:
            self.reader.above(line)
            return
        key, value = pair(line)
        if key == f"{self.kind} type":
            key = "CA type"
        if key == "Number of ports" and value.isdecimal() and len(value) < 4:
            self.ports_left = int(value)
        if key not in _IBSTAT_KEYS and key != "Port GUID":
            return
        self.reader.add_pair(self.name, self.pairs if self.number is None else self.port_pairs, key, value)

    def begin_port(self, number: int) -> None:
        """Begin a port after the previous one has ended."""
        self.number, self.port_pairs = number, {}
        if self.ports_left is not None and number:  # port 0, of a switch, is not counted
            self.ports_left -= 1

    def end_port(self) -> list[RdmaPort]:
        """Return the port that has ended, if there is one."""
        if self.number is None:
            return []
        self.reader.note_cut(self.name, self.number, self.port_pairs, self.last)
        return [self.reader.port(self.name, self.number, self.pairs | self.port_pairs)]

    def end(self, *, of_text: bool = False) -> list[RdmaPort]:
        """Return the last port, after a note on ports that are missing."""
        last = self.end_port()
        if (self.ports_left or 0) < 0:
            self.reader.note(f"{self.name} has more ports than it counts")
        elif self.ports_left:
            cut = ": the text was cut" if of_text else ""
            self.reader.note(f"{self.name} lacks {self.ports_left} of its ports{cut}")
        return last


def _complaint(line: str) -> str:
    """Return the error in a line of ibwarn or ibpanic; "" for debug output."""
    step = _STEP.fullmatch(line)
    if line.startswith("ibdebug:") or (step and not _FAILED.search(step.group(1))):
        return ""
    if _GONE.search(line):
        return f"it printed {quote(line)}: a device is there in name only, as after a virtual function was taken"
    if "ABI version" in line:
        return f"it printed {quote(line)}: the kernel module ib_umad is not loaded, or does not fit"
    return f"it printed {quote(line)}"


def ibstat(text: str) -> RdmaPorts | Missing:
    """Parse `ibstat`, also where it ends with an error, as for a virtual function that was taken away.

    Lines of ibwarn on the steps of libibumad are debug output and are ignored.
    """
    reader = Reader("ibstat", _IBSTAT_KEYS)
    ports: list[RdmaPort] = []
    last = "Link layer" if "Link layer:" in text[:LONGEST] else "Port GUID"  # older releases print no link layer
    adapter = _Adapter(reader, last)
    for line in whole_lines(text, reader):
        if match := _ADAPTER.fullmatch(line):
            ports += adapter.end()
            adapter = _Adapter(reader, last, *match.groups())
        elif adapter.name and (match := _PORT.fullmatch(line)):
            ports += adapter.end_port()
            adapter.begin_port(int(match.group(1)))
        elif line.startswith(("ibpanic:", "ibwarn:", "ibdebug:")):
            if complaint := _complaint(line):
                reader.note(complaint)
        else:
            adapter.add(line)
    ports += adapter.end(of_text=True)
    return reader.ports(ports, "ibstat printed", text)


def ibstatus(text: str) -> RdmaPorts | Missing:
    """Parse `ibstatus`, a script that reads sysfs."""
    reader = Reader("ibstatus", _IBSTATUS_KEYS)
    ports: list[RdmaPort] = []
    last = "link_layer" if "link_layer:" in text[:LONGEST] else "rate"
    place: tuple[str, int] | None = None
    pairs: dict[str, str] = {}

    def close() -> None:
        if place is not None:
            reader.note_cut(*place, pairs, last)
            ports.append(reader.port(*place, pairs))

    for line in whole_lines(text, reader):
        if match := _IBSTATUS.fullmatch(line):
            close()
            place, pairs = (match.group(1), int(match.group(2))), {}
        elif line.startswith("Fatal error:"):
            reader.note(f"it printed {quote(line)}: {_NO_IB}")
        elif place is not None:
            reader.add_pair(place[0], pairs, *pair(line))
        else:
            reader.above(line)
    close()
    return reader.ports(ports, "ibstatus printed", text)
