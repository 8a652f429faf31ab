"""Xid and SXid in a kernel log: errors that the NVIDIA driver reports of a GPU, and of an NVSwitch.

Read from dmesg with any of its time stamps, journalctl -k, syslog and /dev/kmsg. Lines of one GPU and code are told as
one, since a failing GPU repeats itself thousands of times. The log says nothing of resets: who judges an Xid that a
later reset has mended has to know of it otherwise.
"""

import re
from dataclasses import dataclass, field

from preflight.facts.parsers.nvidia.nvidia_logs.catalog import RECOVERIES, XIDS, Action
from preflight.facts.parsers.nvidia.nvidia_smi.tree import bus_address
from preflight.facts.quote import quote
from preflight.facts.reading import Missing

LONGEST = 64 << 20  # characters
LONGEST_LINE = 2000
MOST_UNREAD = 20
MOST_PROCESSES = 10


@dataclass(frozen=True)
class XidProcess:
    pid: int
    name: str  # empty: the driver is too old to tell


@dataclass(frozen=True)
class Xid:
    """All lines of one GPU with one code. `first` and `last`: their time as the log writes it; empty: none. `text` is
    the first line's, of Xid 154 the last one's. `processes`: that ran on the GPU then, the first ten."""

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
    """All lines of one NVSwitch with one code. `fatal`: whether the driver calls it so; None: it does not say."""

    switch: str  # "nvidia-nvswitch0"
    bus: str
    code: int
    fatal: bool | None
    count: int
    first: str
    last: str
    text: str  # of the first line; the others are the registers


@dataclass(frozen=True)
class KernelLog:
    """`lines`: how many lines of a kernel log were read. `unread`: what of it was not read, or is not understood."""

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
_ANOTHER_PROGRAM = re.compile(r"\s(?!kernel\b)[\w./-]{1,60}(?:\[[0-9]{1,10}\])?:\s*$")  # in syslog, before its words
_RECOVERY = re.compile(r"to 0x[0-9a-fA-F]+ \(([A-Za-z ]{1,40})\)")


@dataclass
class _Lines:
    """What the lines of one device and code have said so far."""

    first: str
    text: str
    last: str = ""
    count: int = 0
    fatal: bool | None = None
    processes: dict[int, str] = field(default_factory=dict)


def _time(prefix: str) -> tuple[str, str]:
    """The time in what stands before the driver's words, and what follows it."""
    for pattern in _TIMES:
        if match := pattern.search(prefix):
            return match.group(1), prefix[match.end() :]
    return "", prefix


def xids(text: str) -> KernelLog | Missing:
    """A kernel log (dmesg, journalctl -k, syslog): Xids of GPUs, SXids of NVSwitches. An empty log has none."""
    gpus: dict[tuple[str, int], _Lines] = {}
    switches: dict[tuple[str, str, int], _Lines] = {}
    unread: list[Missing] = []
    if len(text) > LONGEST:
        unread.append(Missing(f"the first {LONGEST >> 20} MiB of a longer kernel log were read"))
    count = 0
    for line in text[:LONGEST].splitlines():
        line = line[:LONGEST_LINE]
        start = next((at for at in map(line.find, ("NVRM:", "nvidia-nvswitch")) if at >= 0), len(line))
        time, rest = _time(line[: min(start, 200)])
        if not time and start == len(line):
            continue
        count += 1
        if "Xid (" not in line[start:] or _ANOTHER_PROGRAM.search(" " + rest):
            continue
        if match := _XID.match(line, start):
            domain, bus, device, function, code, pid, name, said = match.groups()
            entry = gpus.setdefault((bus_address(domain, bus, device, function or "0"), int(code)), _Lines(time, said))
            if code == "154":
                entry.text = said  # what the GPU needs by now
            if pid is not None and pid.isdecimal() and len(entry.processes) < MOST_PROCESSES:
                entry.processes.setdefault(int(pid), name or "")
        elif match := _SXID.match(line, start):
            switch, domain, bus, device, function, code, said = match.groups()
            place = (switch, bus_address(domain, bus, device, function or "0"), int(code))
            entry = switches.setdefault(place, _Lines(time, said))
            if said.startswith(("Fatal,", "Non-fatal,")):
                entry.fatal = bool(entry.fatal) or said.startswith("Fatal")
        else:
            if len(unread) < MOST_UNREAD:
                unread.append(Missing(f"the line {quote(line[start:])} of a kernel log is not understood"))
            continue
        entry.count += 1
        entry.last = time
    if count == 0 and text.strip():
        return Missing(_no_log(text))
    return KernelLog(
        count,
        tuple(_xid(bus, code, entry) for (bus, code), entry in gpus.items()),
        tuple(
            SXid(switch, bus, code, entry.fatal, entry.count, entry.first, entry.last, entry.text[:200])
            for (switch, bus, code), entry in switches.items()
        ),
        tuple(unread),
    )


def _xid(bus: str, code: int, entry: _Lines) -> Xid:
    action, meaning = XIDS.get(code, ("unknown", ""))
    if action == "read its text" and (recovery := _RECOVERY.search(entry.text)):
        action = RECOVERIES.get(recovery.group(1), action)
    processes = tuple(XidProcess(pid, name) for pid, name in entry.processes.items())
    return Xid(bus, code, action, meaning, entry.count, entry.first, entry.last, entry.text[:200], processes)


def _no_log(text: str) -> str:
    start = text[:10_000]
    if "read kernel buffer failed" in start:
        return f"dmesg said {quote(start)}: only root may read the kernel log here (kernel.dmesg_restrict)"
    return f"no line of a kernel log with a time or of the NVIDIA driver; it begins with {quote(start)}"
