"""The first error of each kind of each process. Bounded: memory depends on processes and kinds of errors alone."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from preflight.diagnose.catalogue import is_exception, recognise
from preflight.diagnose.hccl import LATE, TLS_DIFFERS
from preflight.diagnose.host import MEMORY, kill_of
from preflight.diagnose.launchers import ENDED_BADLY, LAUNCHER
from preflight.diagnose.line import clean, parsed
from preflight.diagnose.survived import AFTER, ended_well, may_be_restarted, may_be_survived, went_on
from preflight.diagnose.torch import IGNORED
from preflight.diagnose.types import Kill, LastLines, Line, Role, Seen, Sign, Who

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

_LAST = 3  # last lines of a writer that are kept
_WRITERS = 64  # writers of one file whose last lines are kept
_TAIL = 4 << 10  # bytes at the end of a file in which they are sought
_TAILS = 2_000  # files whose ends are kept

_NOTICED = re.compile(
    r" nranks \d|Entry-HcclComm|LocalRank Key|TLS SWITCH|HCCL_CONNECT_TIMEOUT|\brankSize\[|rankNum is \["
    r"|\brankNum\[\d|\brank\[\d{1,6}\], totalRanks|Rank\[\d{1,6}\] failed"
)
# torch's watchdog: the group, the rank, and the collectives that it has completed.
_COMPLETED = re.compile(
    r"\[PG (?:ID )?\S{1,40} PG GUID (?P<group>[^\s\]]{1,80}) Rank (?P<rank>\d{1,6})\]"
    r".{0,200}\blast completed (?:NCCL )?work: (?P<done>\d{1,15})"
)
_CONNECTED = " - Init COMPLETE"  # NCCL: what did not connect before was tried again
# torchrun's table of failures: host, rank and exit code of a worker stand in lines of their own.
_TABLE = re.compile(
    r"^(?:\[\w+\]:)? *(?P<key>host|rank) {1,9}: (?P<value>[\w.-]{1,253})(?: \(local_rank: \d{1,4}\))? *$"
)
_TABLE_LINES = 4  # from the host to the exit code
_FOLDED = re.compile(r"signal \d{1,3}\b[^\n]{0,60}")  # Open MPI 5: behind "exited on", in the next line
# MPICH's and Intel MPI's: the signal or exit code is in the next line.
_HYDRA = re.compile(r"^=   RANK (?P<rank>\d{1,6}) PID \d{1,10} RUNNING AT (?P<host>[\w.-]{1,253})")
# Lines of CANN, which name their process.
_OF_CANN = re.compile(r"\[[A-Z]{4,9}\] ?[A-Z_]{2,16}\(\d+,|\(PID:\d+, Device:|\[PID: ?\d|Rank\[\d{1,6}\] failed")
# A source line of CANN that said the same often says it again.
_PLACE = re.compile(r"(\[ERROR\] ?[A-Z]{2,12}\(\d+,)[^)]{0,80}\):[\d.: -]{20,30}(\[[\w.]{1,80}:\d+\])")
# What tells a writer without looking at the rest of the line: plog, torch's prefix, NCCL.
_WRITER = re.compile(
    r"\[ERROR\] ?[A-Z]{2,12}\(\d+,|\[(?:rank|default)\d+\]|[\w.-]+:\d+:\d+ \[\d+\] |\[\d+(?:,\d+)?\]| *\d+: "
)
_WORLD = re.compile(r"\bnranks (\d{1,6})\b|\brankSize\[(\d{1,6})\]|:ranks\[(\d{1,6})\]|world_size[=:] ?(\d{1,6})"
                    r"|rank num\[(\d{1,6})\]|rankNum is \[(\d{1,6})\]|\d{1,6}/(\d{1,6}) clients joined"
                    r"|\brankNum\[(\d{1,6})\]|totalRanks\[(\d{1,6})\]")  # fmt: skip
_ENTRY = re.compile(r"Entry-HcclCommInitRootInfo\w*:ranks\[\d+\], rank\[(\d{1,6})\].*identifier\[[^\]]*?_(\d{1,20})\]")
_MET = re.compile(r"connected rankinfo\[LINE \d+\]: ((?:\[\d{1,16}\][,;]?){1,64})")
_TLS = re.compile(r"TLS SWITCH \((\d)\)")
_TIMEOUT = re.compile(r"HCCL_CONNECT_TIMEOUT set by \w+ to \[(\d{1,6})\]")


@dataclass
class Counted:
    """The first time that something was said, and how often it was in all.

    Of the last time: `end`, where its line ends in the file; `tag`, who wrote it; `left`, the bytes of the file after
    it, known when that is read; `survived`: its writer says that it went on, `restarted`: the job was started again and
    ended well (see survived.py).
    """

    seen: Seen
    end: int
    tag: str = ""
    count: int = 1
    left: int = 0
    survived: bool = False
    restarted: bool = False

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
    before: Callable[[], str] = lambda: ""


class Gathered:
    """All that the logs read so far tell. `processes` are in the order of their first lines."""

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
        self._table: dict[str, str] = {}  # of torchrun's table that is being read: its lines so far
        self._table_at = -_TABLE_LINES
        self._identities: dict[tuple[str, int], Who] = {}  # host and process number → rank and device
        self._writers: dict[str, set[Who]] = {}  # file → processes that CANN names in it
        self.completed: dict[str, dict[int, int]] = {}  # process group → rank → collectives that it completed
        self._ends: dict[str, tuple[Who, int, str]] = {}  # file → its last lines, or those before a launcher's report
        self.files = 0  # that were read

    def ended(self, length: int, tail: bytes, spot: Spot | None = None) -> None:
        """Take the end of a file of `length` bytes, which ends with `tail`."""
        if spot and spot.about.rank is not None and len(self.ranks) < _PROCESSES:
            self.ranks.add(spot.about.rank)
        if spot and spot.file not in self._ends and len(self._ends) < _TAILS:
            self._ends[spot.file] = (spot.about, spot.year, tail[-_TAIL:].decode("utf-8", "replace"))
        failed = any(said.seen.sign.id in ENDED_BADLY for said in self._open.values())
        for counted in self._open.values():
            counted.left = length - counted.end
            if counted.may_be_caught and counted.left <= len(tail):
                after = tail[len(tail) - counted.left :].decode("utf-8", "replace")
                counted.survived = went_on(after, counted.tag)
            if failed and not counted.tag:  # those lines may be another rank's
                counted.survived = False
            if may_be_restarted(counted.seen.sign):
                counted.restarted = ended_well(tail[-max(1, counted.left) :].decode("utf-8", "replace"))
        self._open.clear()
        self._table.clear()  # the next file's lines are no part of it
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
        if "noticed that process" in raw and raw.rstrip().endswith("exited on"):
            match = _FOLDED.search(clean(spot.after()[:_WIDTH]))
            raw = f"{raw.rstrip()} {match[0]}" if match else raw
        if match := _TABLE.match(raw):
            self._table_line(match, spot)
            return
        if match := _HYDRA.match(raw):
            self._table, self._table_at = dict(match.groupdict()), spot.number
            return
        if match := _COMPLETED.search(raw):
            self._completed(match)
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
        who = _joined(self._of_writer(line, spot), replace(spot.about, file=spot.file))
        if sign and sign.id in ENDED_BADLY and spot.file not in self._ends and len(self._ends) < _TAILS:
            self._ends[spot.file] = (spot.about, spot.year, spot.before())
        if _CONNECTED in raw and (connecting := self.processes.get(_key(line, who, None, None))):
            connecting.said = {key: counted for key, counted in connecting.said.items() if key[0] != "nccl-connect"}
        self._notice(line, Seen(LATE, who, time, spot.file, spot.number, line.text[:_WIDTH]))
        kill = kill_of(line.text) if sign and sign.id == MEMORY else None
        process = self._process(_key(line, who, sign, kill), who, sign, mixed=not line.tag)
        if process is None:
            return
        process.who = _joined(process.who, line.who)
        if not sign:
            return
        if len(process.names) < _NAMES:
            process.names.update(f"{who.host} {peer}" if peer.startswith("device ") else peer for peer in line.peers)
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

    def _completed(self, match: re.Match[str]) -> None:
        if match["group"] in self.completed or len(self.completed) < _STARTS:
            ranks = self.completed.setdefault(match["group"], {})
            if len(ranks) < _PROCESSES:
                ranks.setdefault(int(match["rank"]), int(match["done"]))

    def _table_line(self, match: re.Match[str], spot: Spot) -> None:
        if spot.number - self._table_at >= _TABLE_LINES or match["key"] in self._table:
            self._table.clear()
        self._table[match["key"]] = match["value"]
        self._table_at = spot.number

    def _of_writer(self, line: Line, spot: Spot) -> Who:
        """Return the writer of a line, also by torchrun's table around it, or by the name of a device's log."""
        who = line.who
        if spot.about.pid is not None:  # the device has process numbers of its own
            who = replace(who, pid=spot.about.pid, device=spot.about.device)
        if (
            ("exitcode" in line.text or ") received by PID " in line.text or line.text.startswith("=   "))
            and self._table
            and 0 < spot.number - self._table_at < _TABLE_LINES
        ):
            rank = self._table.get("rank", "")
            who = replace(who, host=who.host or self._table.get("host", ""), rank=int(rank) if rank.isdigit() else None)
        if _OF_CANN.search(line.text) and (who.pid is not None or who.rank is not None):
            writers = self._writers.setdefault(spot.file, set())
            if len(writers) < _WRITERS:
                writers.add(Who(who.rank, "", who.device, who.pid))
            self._learn(_joined(who, spot.about))
        return who

    def _learn(self, who: Who) -> None:
        """Keep the rank and the device of a process for its other files."""
        if who.pid is not None and (who.rank is not None or who.device) and len(self._identities) < _PROCESSES:
            key = (who.host, who.pid)
            self._identities[key] = _joined(self._identities.get(key, Who()), Who(who.rank, "", who.device))

    def identified(self, who: Who) -> Who:
        """Return the process with the rank and device that its other lines and files tell."""
        if who.pid is None:
            return who
        return _joined(who, self._identities.get((who.host, who.pid), Who()))

    def known(self) -> Iterator[Who]:
        """Yield each process of which a rank or a device is known."""
        for process in self.processes.values():
            yield self.identified(process.who)
        for (host, pid), who in self._identities.items():
            yield replace(who, host=host, pid=pid)

    def only_writer(self, file: str) -> Who:
        """Return the process that wrote a file's lines, where CANN names a single one in it."""
        writers = self._writers.get(file, set())
        ranks = {who.rank for who in writers} - {None}
        pids = {who.pid for who in writers} - {None}
        if len(ranks) > 1 or len(pids) > 1:
            return Who()
        writer = Who()
        for who in sorted(writers, key=lambda who: who.rank is None):
            writer = _joined(writer, who)
        return writer

    def last_lines(self) -> Iterator[LastLines]:
        """Yield the last lines of each writer of each file, or those before a launcher's report of a failure."""
        for file, (about_file, year, text) in self._ends.items():
            lines: dict[str, list[str]] = {}
            writers: dict[str, Who] = {}
            times: dict[str, float] = {}
            for raw in text.splitlines()[1:] if len(text) >= _TAIL else text.splitlines():
                line = parsed(raw[:_WIDTH], year)
                if not line.text or ((sign := recognise(raw)) and sign.id in ENDED_BADLY):
                    continue
                if line.tag in lines or len(lines) < _WRITERS:
                    lines.setdefault(line.tag, []).append(line.text)
                    writers[line.tag] = _joined(line.who, writers.get(line.tag, Who()))
                    if line.time is not None:
                        times[line.tag] = line.time
            for tag, texts in lines.items():
                who = self.identified(_joined(writers[tag], replace(about_file, file=file)))
                yield LastLines(who, file, times.get(tag), tuple(texts[-_LAST:]))

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


def _key(line: Line, who: Who, sign: Sign | None, kill: Kill | None) -> tuple[str, ...]:
    """Return what tells writers apart: in a kernel's log each fault stands for itself."""
    file = who.file
    if kill:
        return ("kill", file, line.who.host, str(kill.pid))
    if sign and sign.id.startswith("Xid"):
        return ("xid", file, sign.id, line.who.device, line.who.host)
    if line.tag.startswith("rank"):
        return ("rank", line.tag)
    if sign and sign.id in ENDED_BADLY and sign.id != LAUNCHER and who.rank is not None:
        return ("rank", f"rank{who.rank}")
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
_DEVICE_LOG = re.compile(r"(?:^|/)device-(\d{1,10})_\d{8,20}\.log$")  # of the host's process with that number
_NCCL_FILE = re.compile(r"nccl[\w-]*\.([A-Za-z][\w-]*)\.(\d+)(?:\.log)?$")
_NO_HOST = re.compile(
    r"debug|run|plog|device-\d+|ascend|logs?|attempt_\d+|\d+|std(?:out|err)|none_\w+|tmp|var|home|root|/|\.{0,2}"
)


def about(path: str) -> Who:
    """Return what a file's path tells of its writer; `path` is relative to the folder that was named."""
    torchrun = _TORCHRUN.search(path)
    rank, device, host = _RANK_FILE.search(path), torchrun or _DEVICE_FOLDER.search(path), ""
    folders = path.split("/")[:-1]
    if torchrun:
        folders = [name for name in folders if not _RUN_FOLDER.fullmatch(name)]
    if nccl := _NCCL_FILE.search(path):
        host = nccl[1]
    elif folders:
        host = host_of(folders[:1])
    pid = _DEVICE_LOG.search(path)
    return Who(int(rank[1]) if rank else None, host[:64], device[1] if device else "", int(pid[1]) if pid else None)


def host_of(folders: Sequence[str]) -> str:
    """The last of these names that may be a host's; empty: none may."""
    names = (name for name in reversed(folders) if not _NO_HOST.fullmatch(name) and not _RANK_FILE.search(name))
    return next(names, "")
