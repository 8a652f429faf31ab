"""From lines to what each process said first. Bounded: what is kept depends on processes and kinds of errors alone."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from preflight.diagnose.catalogue import is_exception, recognise
from preflight.diagnose.hccl import LATE, TLS_DIFFERS
from preflight.diagnose.host import MEMORY, kill_of
from preflight.diagnose.launchers import ENDED_BADLY
from preflight.diagnose.line import clean, parsed
from preflight.diagnose.survived import AFTER, may_be_survived, went_on
from preflight.diagnose.torch import IGNORED
from preflight.diagnose.types import Kill, Line, Role, Seen, Sign, Who

_PROCESSES = 20_000  # of all logs; further ones are counted
_WIDTH = 500  # characters of a line that is kept
_KINDS = 64  # kinds of errors of a process
_UNMARKED = 5_000  # the same of lines that do not begin with who writes them
_KEPT = 100_000  # errors in all
_NAMES = 1024  # whom one process names
_PARSED = 50  # lines of a process that say the same, in which its rank, host and device are sought
_STARTS = 10_000  # communicators
_HEARD = 8  # times of one exception, after which it is looked whether its program went on
_TRACEBACK = 40  # lines at most, of an exception that Python ignored
_WAITED = 120.0  # seconds that HCCL waits for a late rank unless told otherwise (HCCL_CONNECT_TIMEOUT)

_NOTICED = re.compile(
    r" nranks \d|Entry-HcclComm|LocalRank Key|TLS SWITCH|HCCL_CONNECT_TIMEOUT|\brankSize\[|rankNum is \["
)
# A source line of CANN that said the same often says it again.
_PLACE = re.compile(r"(\[ERROR\] ?[A-Z]{2,12}\(\d+,)[^)]{0,80}\):[\d.: -]{20,30}(\[[\w.]{1,80}:\d+\])")
# What tells a writer without looking at the rest of the line: plog, torch's prefix, NCCL.
_WRITER = re.compile(
    r"\[ERROR\] ?[A-Z]{2,12}\(\d+,|\[(?:rank|default)\d+\]|[\w.-]+:\d+:\d+ \[\d+\] |\[\d+(?:,\d+)?\]| *\d+: "
)
_WORLD = re.compile(r"\bnranks (\d{1,6})\b|\brankSize\[(\d{1,6})\]|:ranks\[(\d{1,6})\]|world_size[=:] ?(\d{1,6})"
                    r"|rank num\[(\d{1,6})\]|rankNum is \[(\d{1,6})\]|\d{1,6}/(\d{1,6}) clients joined")  # fmt: skip
_ENTRY = re.compile(r"Entry-HcclCommInitRootInfo\w*:ranks\[\d+\], rank\[(\d{1,6})\].*identifier\[[^\]]*?_(\d{1,20})\]")
_MET = re.compile(r"connected rankinfo\[LINE \d+\]: ((?:\[\d{1,16}\][,;]?){1,64})")
_TLS = re.compile(r"TLS SWITCH \((\d)\)")
_TIMEOUT = re.compile(r"HCCL_CONNECT_TIMEOUT set by \w+ to \[(\d{1,6})\]")


@dataclass
class Counted:
    """The first time that something was said, and how often it was in all.

    Of the last time: `end`, where its line ends in the file; `tag`, who wrote it; `left`, the bytes of the file after
    it, known when that is read; `survived`: its writer says that it went on (see survived.py).
    """

    seen: Seen
    end: int
    tag: str = ""
    count: int = 1
    left: int = 0
    survived: bool = False

    @property
    def may_be_caught(self) -> bool:
        return may_be_survived(self.seen.sign, self.seen.text)

    @property
    def caught(self) -> bool:
        """Whether a program went on after it: it says so, or there is much left of the file."""
        return self.may_be_caught and (self.survived or self.left > AFTER)


@dataclass
class Process:
    """A writer of lines; `mixed`: it may be several, for nothing tells the lines of its file apart.

    `said`: by the id and role of signs, the first of each; `names`: whom its errors name; `met`: ranks that it says
    had come.
    """

    who: Who
    mixed: bool = False
    said: dict[tuple[str, Role], Counted] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    met: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Spot:
    """Where a line stands. `end`: bytes of the file up to its end, as it is read; `about`: what the file's name tells;
    `year`: of lines without one; `time_before`: that of the nearest line before it that has one; `after`: what follows
    it, AFTER bytes at most."""

    file: str
    number: int
    end: int
    about: Who
    year: int
    time_before: Callable[[], float | None]
    after: Callable[[], str] = lambda: ""


class Gathered:
    """What was found so far. `processes` are in the order in which they were first heard of."""

    def __init__(self) -> None:
        self.processes: dict[tuple[str, ...], Process] = {}
        self.ranks: set[int] = set()
        self.world = 0
        self.too_many = 0
        self._starts: dict[str, tuple[Seen, Seen]] = {}
        self._repeated: dict[tuple[str, str, str], Counted] = {}
        self._tls: dict[str, tuple[str, Seen]] = {}
        self._waits = 0.0
        self._ignored: dict[tuple[str, str], int] = {}  # file and writer → the line where Python says so
        self._kept = 0
        self._open: dict[int, Counted] = {}  # what was said in the file that is being read
        self.files = 0  # that were read

    def ended(self, length: int, tail: bytes) -> None:
        """A file has been read, of `length` bytes, which ends with `tail`."""
        failed = any(said.seen.sign.id in ENDED_BADLY for said in self._open.values())
        for counted in self._open.values():
            counted.left = length - counted.end
            if counted.may_be_caught and counted.left <= len(tail):
                after = tail[len(tail) - counted.left :].decode("utf-8", "replace")
                counted.survived = went_on(after, counted.tag)
            if failed and not counted.tag:  # of whom those lines are, nobody knows
                counted.survived = False
        self._open.clear()
        self.files += 1

    def _said(self, counted: Counted, spot: Spot, tag: str | None = None) -> None:
        """Once more, or for the first time. `tag` None: the writer of the time before."""
        counted.end = spot.end
        counted.tag = counted.tag if tag is None else tag
        self._open[id(counted)] = counted
        if counted.count <= _HEARD and counted.may_be_caught:
            counted.survived = went_on(spot.after(), counted.tag)

    def add(self, raw: str, spot: Spot) -> None:
        """A line that may say something."""
        if "\x1b" in raw:  # colours stand right before words
            raw = clean(raw)
        place = _PLACE.match(raw)
        at = (spot.file, place[1], place[2]) if place else None
        if at and (again := self._repeated.get(at)):
            again.count += 1
            self._said(again, spot)
            return
        sign = recognise(raw)
        if sign and self._is_ignored(sign, raw, spot):
            return
        if not sign and not _NOTICED.search(raw):
            return
        writer = _WRITER.match(raw)
        same = (spot.file, sign.id, writer[0] if writer else "") if sign else None
        if same and (again := self._repeated.get(same)):
            again.count += 1
            self._said(again, spot)
            return
        line = parsed(raw, spot.year)
        time = line.time if line.time is not None else spot.time_before()
        if sign and not _counts(line, sign):
            sign = None
        who = _joined(line.who, replace(spot.about, file=spot.file))
        self._notice(line, Seen(LATE, who, time, spot.file, spot.number, line.text[:_WIDTH]))
        kill = kill_of(line.text) if sign and sign.id == MEMORY else None
        process = self._process(_key(line, spot.file, sign, kill), who, sign, mixed=not line.tag)
        if process is None:
            return
        process.who = _joined(process.who, line.who)
        if not sign:
            return
        if len(process.names) < _NAMES:
            process.names.update(line.peers)
        if len(process.met) < _NAMES and (found := _MET.search(line.text)):
            process.met.update(int(number) for number in re.findall(r"\d{1,16}", found[1]))
        counted = process.said.get((sign.id, sign.role))
        if counted:
            counted.count += 1
            self._said(counted, spot, line.tag)
        elif len(process.said) < _KINDS and self._kept < _KEPT:
            self._kept += 1
            first = Seen(sign, who, time, spot.file, spot.number, line.text[:_WIDTH], kill=kill)
            counted = process.said[sign.id, sign.role] = Counted(first, spot.end)
            self._said(counted, spot, line.tag)
        if counted and counted.count > (_PARSED if writer or place else _UNMARKED) and len(self._repeated) < _PROCESSES:
            self._repeated.update({key: counted for key in (same, at) if key})

    def _is_ignored(self, sign: Sign, raw: str, spot: Spot) -> bool:
        """Whether it is what Python says of an exception that it ignores: that it does, or the end of the traceback. An
        exception that logs of failed jobs are known by is none of these."""
        writer = _WRITER.match(raw)
        of = (spot.file, writer[0] if writer else "")
        if sign.id == IGNORED:
            self._ignored[of] = spot.number
            return True
        if sign.role is not Role.UNKNOWN or not is_exception(raw):
            return False
        return spot.number - self._ignored.pop(of, -_TRACEBACK) < _TRACEBACK

    def _process(self, key: tuple[str, ...], who: Who, sign: Sign | None, *, mixed: bool) -> Process | None:
        process = self.processes.get(key)
        if process is None and (sign or who.rank is not None):
            if len(self.processes) < _PROCESSES:
                process = self.processes[key] = Process(who, mixed=mixed)
            elif sign:
                self.too_many += 1
        return process

    def _notice(self, line: Line, seen: Seen) -> None:
        """What is told by lines that are no errors: ranks, the size of the job, when each began, its TLS switch."""
        text, who = line.text, seen.who
        if who.rank is not None and len(self.ranks) < _PROCESSES:
            self.ranks.add(who.rank)
        if found := _WORLD.search(text):
            self.world = max(self.world, int(next(filter(None, found.groups()))))
        if (found := _ENTRY.search(text)) and seen.time is not None:
            seen = replace(seen, who=replace(who, rank=int(found[1])))
            start = self._starts.get(found[2])
            if start is None and len(self._starts) < _STARTS:
                self._starts[found[2]] = (seen, seen)
            elif start is not None:
                both = (*start, seen)
                self._starts[found[2]] = (min(both, key=_time), max(both, key=_time))
        if found := _TIMEOUT.search(text):
            self._waits = max(self._waits, float(found[1]))
        if (found := _TLS.search(text)) and len(self._tls) < _PROCESSES:
            self._tls[f"{who.host} {who.device} {who.pid if not who.device else ''}"] = (found[1], seen)

    def compared(self) -> list[Seen]:
        """What shows only where processes are held against each other: a late start, TLS that differs."""
        found = []
        waits = self._waits or _WAITED
        for first, last in self._starts.values():
            late = _time(last) - _time(first)
            if late > waits:
                text = f"began {late:.0f} s after rank {first.who.rank}, which waits {waits:.0f} s: {last.text}"
                found.append(replace(last, time=first.time, text=text[:_WIDTH]))
        if len({state for state, _ in self._tls.values()}) > 1:
            for state, seen in self._tls.values():
                found.append(replace(seen, sign=TLS_DIFFERS, text=f"TLS {state}: {seen.text}"[:_WIDTH]))
        return found


def _time(seen: Seen) -> float:
    return seen.time or 0.0


def _counts(line: Line, sign: Sign) -> bool:
    """Whether the line's level lets it be an error: libraries warn, and try again."""
    if sign.role is Role.NOISE:
        return False
    return sign.role is Role.HINT or sign.id == "heartbeat" or line.level in ("", "ERROR")


def _key(line: Line, file: str, sign: Sign | None, kill: Kill | None) -> tuple[str, ...]:
    """Who writes: of a kernel's log each thing that is wrong stands for itself."""
    if kill:
        return ("kill", file, line.who.host, str(kill.pid))
    if sign and sign.id.startswith("Xid"):
        return ("xid", file, sign.id, line.who.device, line.who.host)
    if line.tag.startswith("rank"):
        return ("rank", line.tag)
    if line.who.pid is not None:
        return ("pid", file, line.tag)
    return ("file", file, line.tag or line.who.host)


def _joined(known: Who, new: Who) -> Who:
    return Who(
        known.rank if known.rank is not None else new.rank,
        known.host or new.host,
        known.device or new.device,
        known.pid if known.pid is not None else new.pid,
        known.file or new.file,
    )


_RANK_FILE = re.compile(r"rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_TORCHRUN = re.compile(r"attempt_\d+/(\d{1,4})/std(?:out|err)\.log$")
_RUN_FOLDER = re.compile(r".+_[a-z0-9_]{8}")  # torchrun's, of the run's id and random characters
_DEVICE_FOLDER = re.compile(r"(?:^|/)device-(\d{1,4})/")
_NCCL_FILE = re.compile(r"nccl[\w-]*\.([A-Za-z][\w-]*)\.(\d+)(?:\.log)?$")
_NO_HOST = re.compile(
    r"debug|run|plog|device-\d+|ascend|logs?|attempt_\d+|\d+|std(?:out|err)|none_\w+|tmp|var|home|root|/|\.{0,2}"
)


def about(path: str) -> Who:
    """`path`: relative to the folder that was named."""
    torchrun = _TORCHRUN.search(path)
    rank, device, host = _RANK_FILE.search(path), torchrun or _DEVICE_FOLDER.search(path), ""
    folders = path.split("/")[:-1]
    if torchrun:
        folders = [name for name in folders if not _RUN_FOLDER.fullmatch(name)]
    if nccl := _NCCL_FILE.search(path):
        host = nccl[1]
    elif folders:
        host = host_of(folders[:1])
    return Who(int(rank[1]) if rank else None, host[:64], device[1] if device else "")


def host_of(folders: Sequence[str]) -> str:
    """The last of these names that may be a host's; empty: none may."""
    names = (name for name in reversed(folders) if not _NO_HOST.fullmatch(name) and not _RANK_FILE.search(name))
    return next(names, "")
