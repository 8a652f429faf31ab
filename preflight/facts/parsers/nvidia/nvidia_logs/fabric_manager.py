"""/var/log/fabricmanager.log: what the service that sets up the NVSwitches reports.

`[Feb 25 2025 13:59:45] [INFO] [tid 1803] words`; lines without such a beginning belong to the line before them.
Its errors of NVSwitches are known from what other tools look for in it; no capture has one.
"""

import re
from dataclasses import dataclass

from preflight.facts.parsers.nvidia.nvidia_smi.tree import bus_address
from preflight.facts.quote import quote
from preflight.facts.reading import Missing

LONGEST = 64 << 20  # characters; of a longer log, the first ones are read: `last` tells how far
MOST_MESSAGES = 50  # of different words that are told
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
    """All errors of one code (an SXid) of one NVSwitch. `ports` of the switch, in ascending order."""

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
    """Other words of one level above INFO."""

    level: str
    text: str
    count: int
    first: str
    last: str


@dataclass(frozen=True)
class FabricManagerLog:
    """`lines` that begin with a time, of which `first` and `last` are those of the log's ends."""

    lines: int
    first: str
    last: str
    switch_errors: tuple[SwitchError, ...]
    messages: tuple[Message, ...]


@dataclass
class _Seen:
    first: str
    last: str
    count: int
    ports: set[int]


def fabric_manager(text: str) -> FabricManagerLog | Missing:
    """/var/log/fabricmanager.log: errors of NVSwitches, and other words above INFO."""
    errors: dict[tuple[str, int, int, bool], _Seen] = {}
    messages: dict[tuple[str, str], _Seen] = {}
    lines, first, last = 0, "", ""
    for line in text[:LONGEST].splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        last, level, said = match.groups()
        lines, first = lines + 1, first or last
        if found := _SWITCH_ERROR.search(said):
            spared, code, domain, bus, device, function, physical, port = found.groups()
            place = (bus_address(domain, bus, device, function), int(physical), int(code), not spared)
            seen = errors.setdefault(place, _Seen(last, last, 0, set()))
            seen.ports.add(int(port))
        elif level not in _QUIET and (len(messages) < MOST_MESSAGES or (level, said[:200]) in messages):
            seen = messages.setdefault((level, said[:200].strip()), _Seen(last, last, 0, set()))
        else:
            continue
        seen.last, seen.count = last, seen.count + 1
    if not lines:
        return Missing(f"no line of fabric manager's log; it begins with {quote(text[:10_000])}")
    return FabricManagerLog(
        lines, first, last,
        tuple(
            SwitchError(*place, tuple(sorted(seen.ports)), seen.count, seen.first, seen.last)
            for place, seen in errors.items()
        ),
        tuple(Message(*words, seen.count, seen.first, seen.last) for words, seen in messages.items()),
    )  # fmt: skip
