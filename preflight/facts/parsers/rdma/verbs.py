"""`ibv_devinfo` (libibverbs) and `rdma link` (iproute2)."""

import re
from dataclasses import replace

from preflight.facts.parsers.rdma.port import LONGEST, RdmaPort, RdmaPorts, Reader, pair, whole_lines
from preflight.facts.reading import Missing
from preflight.model.text import quote

_DEVINFO_KEYS = {
    "fw_ver": "firmware",
    "node_guid": "node_guid",
    "board_id": "board_id",
    "state": "state",
    "max_mtu": "mtu_max",
    "active_mtu": "mtu",
    "sm_lid": "sm_lid",
    "port_lid": "lid",
    "link_layer": "link_layer",
    "phys_state": "physical_state",
}
_OTHER_KEYS = ("transport", "phys_port_cnt", "port_lmc", "active_width", "active_speed")
_LINK_KEYS = {
    "state": "state",
    "physical_state": "physical_state",
    "netdev": "netdev",
    "lid": "lid",
    "sm_lid": "sm_lid",
}
_HCA = re.compile(r"hca_id:\s{1,20}([A-Za-z][\w.-]{0,60})", re.ASCII)
_PORT = re.compile(r"port:\s{1,20}([0-9]{1,3})", re.ASCII)
_WIDTH = re.compile(r"([0-9]{1,2})X(?: \([0-9]{1,3}\))?", re.ASCII)
_SPEED = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,2})?) Gbps(?: \([0-9]{1,6}\))?", re.ASCII)
_NO_VALUE = re.compile(r"invalid (?:widthX|speed) \(0\)")
_NO_DEVICES = re.compile(r"No IB devices found|Failed to get IB devices list")
_COMPLAINT = re.compile(
    r"Failed to |IB device '|Invalid port requested|libibverbs: Warning: no userspace device-specific driver"
)
# "link mlx5_0/1 state ACTIVE …". Before iproute2 5.1: "1/1: mlx5_0/1: state ACTIVE …".
_LINK = re.compile(r"(?:link |[0-9]{1,5}/[0-9]{1,3}: )([A-Za-z][\w.-]{0,60})/([0-9]{1,3}):? (.{1,400})", re.ASCII)


class _Hca:
    """The lines of `ibv_devinfo` on one adapter so far."""

    def __init__(self, reader: Reader, last: str, name: str = "") -> None:
        self.reader = reader
        self.last = last  # key of a port's last line, without -v
        self.name = name
        self.failed = False  # the tool reports that its query failed
        self.number: int | None = None
        self.ports = 0
        self.pairs: dict[str, str] = {}
        self.port_pairs: dict[str, str] = {}
        self.verbose = False  # -v

    def add(self, line: str) -> None:
        """Keep a line about the ports. With -v there are many other lines, some of which come several times."""
        if not self.name:
            self.reader.above(line)
            return
        key, value = pair(line)
        self.verbose |= key == "max_mr_size"
        if key not in _DEVINFO_KEYS and key not in _OTHER_KEYS:
            return
        self.reader.add_pair(self.name, self.pairs if self.number is None else self.port_pairs, key, value)

    def begin_port(self, number: int) -> None:
        """Begin a port after the previous one has ended."""
        self.number, self.port_pairs = number, {}
        self.ports += 1

    def end_port(self) -> list[RdmaPort]:
        """Return the port that has ended, if there is one."""
        if self.number is None:
            return []
        verbose_last = "phys_state" if self.pairs.get("transport", "").startswith("InfiniBand") else "active_speed"
        last = verbose_last if self.verbose else self.last
        self.reader.note_cut(self.name, self.number, self.port_pairs, last)
        port = self.reader.port(self.name, self.number, self.pairs | self.port_pairs)
        return [replace(port, rate=self._rate())]

    def end(self) -> list[RdmaPort]:
        """Return the last port, after a note on ports that are missing."""
        last = self.end_port()
        count = self.pairs.get("phys_port_cnt", "")
        missing = int(count) - self.ports if count.isdecimal() and len(count) < 4 else 0
        if self.name and not self.ports:
            self.reader.note(f"{self.name} has no port{'' if self.failed else ': the text was cut'}")
        elif missing > 0:
            self.reader.note(f"{self.name} lacks {missing} of its ports: the text was cut, or one port was asked for")
        return last

    def _rate(self) -> float | None:
        """Return the port's Gbit/s over all its lanes. Its width and speed are 0 if the kernel does not report them."""
        width, speed = self.port_pairs.get("active_width", ""), self.port_pairs.get("active_speed", "")
        lanes, lane_speed = _WIDTH.fullmatch(width), _SPEED.fullmatch(speed)
        for value, match in ((width, lanes), (speed, lane_speed)):
            if value and match is None and not _NO_VALUE.fullmatch(value):
                self.reader.note(f"{self.name} port {self.number}: {quote(value)} is not a link width or speed")
        return int(lanes.group(1)) * float(lane_speed.group(1)) if lanes and lane_speed else None


def ibv_devinfo(text: str) -> RdmaPorts | Missing:
    """Parse `ibv_devinfo` and `-v`. `active_mtu: 1024` on Ethernet means 1500 of the NIC; 4096 takes 4192 and more."""
    reader = Reader("ibv_devinfo", _DEVINFO_KEYS)
    ports: list[RdmaPort] = []
    last = "link_layer" if "link_layer:" in text[:LONGEST] else "port_lmc"  # older releases print no link layer
    hca = _Hca(reader, last)
    for line in whole_lines(text, reader):
        if match := _HCA.fullmatch(line):
            ports += hca.end()
            hca = _Hca(reader, last, match.group(1))
        elif hca.name and (match := _PORT.fullmatch(line)):
            ports += hca.end_port()
            hca.begin_port(int(match.group(1)))
        elif _NO_DEVICES.match(line):
            reader.note(f"it printed {quote(line)}: no RDMA device is there, or its driver is not loaded")
        elif _COMPLAINT.match(line):
            reader.note(f"it printed {quote(line)}")
            hca.failed = True
        else:
            hca.add(line)
    ports += hca.end()
    return reader.ports(ports, "ibv_devinfo printed", text)


def rdma_link(text: str) -> RdmaPorts | Missing:
    """Parse `rdma link show`: a line a port, of words that come in pairs."""
    reader = Reader("rdma link", _LINK_KEYS)
    ports: list[RdmaPort] = []
    for line in whole_lines(text, reader):
        if line.startswith("caps: <"):  # of the port above, with -d
            continue
        match = _LINK.fullmatch(line)
        words = match.group(3).split() if match else []
        if match is None or len(words) % 2:
            reader.note(f"{quote(line)} is not recognized")
            continue
        ports.append(reader.port(match.group(1), int(match.group(2)), dict(zip(words[::2], words[1::2], strict=True))))
    return reader.ports(ports, "rdma link printed", text)
