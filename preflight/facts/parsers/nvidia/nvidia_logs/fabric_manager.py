"""/var/log/fabricmanager.log: messages of the service that sets up the NVSwitches.

`[Feb 25 2025 13:59:45] [INFO] [tid 1803] message`; lines without such a beginning belong to the line before them. The
form of its NVSwitch errors is known only from other tools that search for them, not from a capture.
"""

import re
from dataclasses import dataclass, field

from preflight.facts.parsers.nvidia.nvidia_smi.tree import bus_address
from preflight.facts.reading import Missing
from preflight.model.text import quote

LONGEST = 64 << 20  # characters; a longer log is read up to there: its time is `last`
MOST_MESSAGES = 50  # different messages that are kept
_LINE = re.compile(
    r"\[([A-Z][a-z]{2} [0-9]{2} [0-9]{4} [0-9:]{8})\] \[([A-Z]{4,10})\] \[tid [0-9]{1,10}\] (.{0,2000})", re.ASCII
)
_SWITCH_ERROR = re.compile(
    r"detected NVSwitch (non-)?fatal error ([0-9]{1,6}) on fid [0-9]{1,5} on NVSwitch pci bus id "
    r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7]) physical id ([0-9]{1,4}) port ([0-9]{1,4})",
    re.ASCII,
)
_QUIET = ("INFO", "DEBUG")


@dataclass(frozen=True)
class SwitchError:
    """All errors of one code (an SXid) of one NVSwitch. `ports`: those of the switch, in ascending order."""

    bus: str
    physical_id: int
    code: int
    fatal: bool
    ports: tuple[int, ...]
    count: int
    first: str  # times as the log writes them
    last: str


@dataclass(frozen=True)
class Message:
    """Another message of a level above INFO."""

    level: str
    text: str
    count: int
    first: str
    last: str


@dataclass(frozen=True)
class FabricManagerLog:
    """The errors and messages of a log. `lines`: those with a time. `first`, `last`: the first and the last time."""

    lines: int
    first: str
    last: str
    switch_errors: tuple[SwitchError, ...]
    messages: tuple[Message, ...]


@dataclass
class _LogEntry:
    """The lines of one error or message so far. `ports`: those of the NVSwitch, if the error names them."""

    first: str
    last: str = ""
    count: int = 0
    ports: set[int] = field(default_factory=set)

    def add(self, time: str, ports: tuple[int, ...] = ()) -> None:
        self.last, self.count = time, self.count + 1
        self.ports.update(ports)


def fabric_manager(text: str) -> FabricManagerLog | Missing:
    """Parse /var/log/fabricmanager.log: errors of NVSwitches, and other messages above INFO."""
    errors: dict[tuple[str, int, int, bool], _LogEntry] = {}
    messages: dict[tuple[str, str], _LogEntry] = {}
    lines, first, last = 0, "", ""
    for match in filter(None, map(_LINE.match, text[:LONGEST].splitlines())):
        last, level, message = match.groups()
        lines, first = lines + 1, first or last
        if error := _SWITCH_ERROR.search(message):
            non_fatal, code, domain, bus, device, function, physical, port = error.groups()
            place = (bus_address(domain, bus, device, function), int(physical), int(code), not non_fatal)
            errors.setdefault(place, _LogEntry(last)).add(last, (int(port),))
        elif level not in _QUIET and (len(messages) < MOST_MESSAGES or (level, message[:200]) in messages):
            messages.setdefault((level, message[:200].strip()), _LogEntry(last)).add(last)
    if not lines:
        return Missing(f"this is not a fabric manager log. The text begins with {quote(text[:10_000])}")
    switch_errors = tuple(
        SwitchError(*place, tuple(sorted(error.ports)), error.count, error.first, error.last)
        for place, error in errors.items()
    )
    other_messages = tuple(Message(*key, line.count, line.first, line.last) for key, line in messages.items())
    return FabricManagerLog(lines, first, last, switch_errors, other_messages)
