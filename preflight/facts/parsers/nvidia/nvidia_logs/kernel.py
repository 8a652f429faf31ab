"""Xid and SXid in a kernel log: errors that the NVIDIA driver reports of a GPU, and of an NVSwitch.

Sources are dmesg with any of its time stamps, journalctl -k, syslog and /dev/kmsg. Lines of one GPU and code are one
entry, since a failing GPU repeats itself thousands of times. The log does not have resets: a later reset may have fixed
the error of an Xid.
"""

import re
from dataclasses import dataclass, field

from preflight.facts.parsers.nvidia.nvidia_logs.xid_catalogue import RECOVERIES, XIDS, Action
from preflight.facts.parsers.nvidia.nvidia_smi.tree import bus_address
from preflight.facts.reading import Missing
from preflight.model.text import quote

LONGEST = 64 << 20  # characters
LONGEST_LINE = 2000
MOST_UNREAD = 20
MOST_PROCESSES = 10


@dataclass(frozen=True)
class XidProcess:
    pid: int
    name: str  # empty: the driver is too old to print it


@dataclass(frozen=True)
class Xid:
    """All lines of one GPU with one code. `first` and `last`: their time as the log writes it; empty: none.

    `text`: that of the first line, for Xid 154 that of the last one. `processes`: the first ten that the lines name.
    """

    bus: str  # "0000:9b:00.0"
    code: int
    action: Action
    meaning: str  # empty: the code is in no catalogue
    count: int
    first: str
    last: str
    text: str
    processes: tuple[XidProcess, ...]


@dataclass(frozen=True)
class SXid:
    """All lines of one NVSwitch with one code. `fatal`: True if the driver calls it fatal. None: it does not say."""

    switch: str  # "nvidia-nvswitch0"
    bus: str
    code: int
    fatal: bool | None
    count: int
    first: str
    last: str
    text: str  # of the first line; further lines are the registers


@dataclass(frozen=True)
class KernelLog:
    """The errors in a kernel log. `lines`: how many lines were read. `unread`: parts not read, or not understood."""

    lines: int
    xids: tuple[Xid, ...]
    sxids: tuple[SXid, ...]
    unread: tuple[Missing, ...] = ()


_BUS = r"\((?:PCI:)?([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?\)"
_XID = re.compile(
    r"NVRM: Xid " + _BUS + r": ([0-9]{1,5})(?:, pid=('?<?\w{1,20}>?'?))?(?:, name=([^,]{0,80}))?, (.*)", re.ASCII
)
_SXID = re.compile(r"(nvidia-nvswitch[0-9]{1,3}): SXid " + _BUS + r": ([0-9]{1,6}), (.*)", re.ASCII)
_TIMES = (
    re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)"),
    re.compile(r"\[([A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8} [0-9]{4})\]"),
    re.compile(r"^([A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8}) "),
    re.compile(r"\[ *([0-9]{1,10}\.[0-9]{1,6})\]"),  # seconds since boot
    re.compile(r"^[0-9]{1,4},[0-9]{1,15},([0-9]{1,18}),"),  # /dev/kmsg: microseconds since boot
)
_ANOTHER_PROGRAM = re.compile(r"\s(?!kernel\b)[\w./-]{1,60}(?:\[[0-9]{1,10}\])?:\s*$")  # in syslog, before its message
_RECOVERY = re.compile(r"to 0x[0-9a-fA-F]+ \(([A-Za-z ]{1,40})\)")


@dataclass
class _Occurrences:
    """The lines of one device and code so far."""

    first: str
    text: str
    last: str = ""
    count: int = 0
    fatal: bool | None = None
    processes: dict[int, str] = field(default_factory=dict)


@dataclass
class _Errors:
    """The errors of a kernel log so far, by device and code."""

    gpus: dict[tuple[str, int], _Occurrences] = field(default_factory=dict)
    switches: dict[tuple[str, str, int], _Occurrences] = field(default_factory=dict)
    unread: list[Missing] = field(default_factory=list)

    def read(self, line: str) -> bool:
        """Add the error of a line, if it has one. Return whether the line is one of a log."""
        start = _message_start(line)
        time, program = _time(line[: min(start, 200)])
        if not time and start == len(line):
            return False
        if "Xid (" in line[start:] and not _ANOTHER_PROGRAM.search(" " + program):
            self._add(line, start, time)
        return True

    def _add(self, line: str, start: int, time: str) -> None:
        """Add the line, in which the driver's message begins at `start`."""
        if match := _XID.match(line, start):
            error = self._of_gpu(match, time)
        elif match := _SXID.match(line, start):
            error = self._of_switch(match, time)
        else:
            if len(self.unread) < MOST_UNREAD:
                self.unread.append(Missing(f"the line {quote(line[start:])} of a kernel log is not recognized"))
            return
        error.count += 1
        error.last = time

    def _of_gpu(self, match: re.Match[str], time: str) -> _Occurrences:
        domain, bus, device, function, code, pid, name, text = match.groups()
        place = bus_address(domain, bus, device, function or "0"), int(code)
        error = self.gpus.setdefault(place, _Occurrences(time, text))
        if code == "154":
            error.text = text  # the latest recovery action
        if pid is not None and pid.isdecimal() and len(error.processes) < MOST_PROCESSES:
            error.processes.setdefault(int(pid), name or "")
        return error

    def _of_switch(self, match: re.Match[str], time: str) -> _Occurrences:
        switch, domain, bus, device, function, code, text = match.groups()
        place = switch, bus_address(domain, bus, device, function or "0"), int(code)
        error = self.switches.setdefault(place, _Occurrences(time, text))
        if text.startswith(("Fatal,", "Non-fatal,")):
            error.fatal = bool(error.fatal) or text.startswith("Fatal")
        return error


def xids(text: str) -> KernelLog | Missing:
    """Parse a kernel log (dmesg, journalctl -k, syslog): Xids of GPUs, SXids of NVSwitches. An empty log has none."""
    errors = _Errors()
    if len(text) > LONGEST:
        errors.unread.append(Missing(f"the first {LONGEST >> 20} MiB of a longer kernel log were read"))
    count = 0
    for line in text[:LONGEST].splitlines():
        count += errors.read(line[:LONGEST_LINE])
    if count == 0 and text.strip():
        return Missing(_no_log(text))
    xids = tuple(_xid(bus, code, error) for (bus, code), error in errors.gpus.items())
    return KernelLog(count, xids, _sxids(errors), tuple(errors.unread))


def _message_start(line: str) -> int:
    """Return where the driver's message begins; the length of the line if there is none."""
    return next((start for start in map(line.find, ("NVRM:", "nvidia-nvswitch")) if start >= 0), len(line))


def _time(prefix: str) -> tuple[str, str]:
    """Return the time in front of the driver's message, and the text between both."""
    for pattern in _TIMES:
        if match := pattern.search(prefix):
            return match.group(1), prefix[match.end() :]
    return "", prefix


def _sxids(errors: _Errors) -> tuple[SXid, ...]:
    return tuple(
        SXid(*place, error.fatal, error.count, error.first, error.last, error.text[:200])
        for place, error in errors.switches.items()
    )


def _xid(bus: str, code: int, error: _Occurrences) -> Xid:
    action, meaning = XIDS.get(code, ("unknown", ""))
    if action == "read its text" and (recovery := _RECOVERY.search(error.text)):
        action = RECOVERIES.get(recovery.group(1), action)
    processes = tuple(XidProcess(pid, name) for pid, name in error.processes.items())
    return Xid(bus, code, action, meaning, error.count, error.first, error.last, error.text[:200], processes)


def _no_log(text: str) -> str:
    start = text[:10_000]
    if "read kernel buffer failed" in start:
        return f"dmesg printed {quote(start)}: only root may read the kernel log here (kernel.dmesg_restrict)"
    return f"this is not a kernel log with timestamps or NVIDIA driver messages. The text begins with {quote(start)}"
