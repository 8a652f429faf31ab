"""The first error of each kind of each process. Bounded: memory depends on processes and kinds of errors alone."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from preflight.diagnose.catalogue import is_exception, recognise, uncommon_exception, unknown
from preflight.diagnose.ends import Ends
from preflight.diagnose.errors.hccl import LATE, TLS_DIFFERS
from preflight.diagnose.errors.host import MEMORY, kill_of
from preflight.diagnose.errors.launchers import ENDED_BADLY, LAUNCHER
from preflight.diagnose.errors.torch import IGNORED
from preflight.diagnose.line import clean, parse_line
from preflight.diagnose.survived import AFTER, Below, may_be_restarted, may_be_survived, restart_place
from preflight.diagnose.types import Kill, LoggedError, LogLine, Role, Sign, Spot, Who
from preflight.diagnose.writers import Writers

_PROCESSES = 65_536  # of all logs; further ones are counted
_WIDTH = 500  # characters of a line that is kept
_KINDS = 64  # kinds of errors of a process
_UNMARKED = 5_000  # like _PARSED, for lines that do not begin with their writer
_KEPT = 100_000  # errors in all
_NAMES = 1024  # names of peers that are kept for a process
_PARSED = 50  # lines of a process with the same error that are parsed for its rank, host and device
_STARTS = 10_000  # communicators
_CHECKED = 8  # first occurrences of an exception at which the lines below are checked for a program that went on
_RANK_ENDED = frozenset(ENDED_BADLY) - {LAUNCHER}  # reports of the end of one rank
_TRACEBACK_BEGINS = "Traceback (most recent call last)"
_TRACEBACK = 40  # lines at most, of an exception that Python ignored
_WAITED = 120.0  # seconds that HCCL waits for a late rank by default (HCCL_CONNECT_TIMEOUT)

_NOTICED = re.compile(
    r" nranks \d|Entry-HcclComm|LocalRank Key|TLS SWITCH|HCCL_CONNECT_TIMEOUT|\brankSize\[|rankNum is \["
    r"|\brankNum\[\d|\brank\[\d{1,6}\], totalRanks|Rank\[\d{1,6}\] failed|\(PID:\d{1,10}, Device:"
)
# torch's watchdog: the group, the rank, and the collectives that it has completed.
_COMPLETED = re.compile(
    r"\[PG (?:ID )?\S{1,40} PG GUID (?P<group>[^\s\]]{1,80}) Rank (?P<rank>\d{1,6})\]"
    r".{0,200}\blast completed (?:NCCL )?work: (?P<done>\d{1,15})"
)
_CONNECTED = " - Init COMPLETE"  # NCCL: failed connections have been tried again
_FOLDED = re.compile(r"signal \d{1,3}\b[^\n]{0,60}")  # Open MPI 5: behind "exited on", in the next line
# A source line of CANN that has logged the same error often; it is likely to log it again.
_PLACE = re.compile(r"(\[ERROR\] ?[A-Z]{2,12}\(\d+,)[^)]{0,80}\):[\d.: -]{20,30}(\[[\w.]{1,80}:\d+\])")
# A prefix that identifies a writer without the rest of the line: plog, torch's prefix, NCCL.
_WRITER = re.compile(
    r"\[ERROR\] ?[A-Z]{2,12}\(\d+,|\[(?:rank|default)\d+\]|[\w.-]+:\d+:\d+ \[\d+\] |\[\d+(?:,\d+)?\]| *\d+: "
)
_WORLD = re.compile(
    r"\bnranks (\d{1,6})\b|\brankSize\[(\d{1,6})\]|:ranks\[(\d{1,6})\]|world_size[=:] ?(\d{1,6})"
    r"|rank num\[(\d{1,6})\]|rankNum is \[(\d{1,6})\]|\d{1,6}/(\d{1,6}) clients joined"
    r"|\brankNum\[(\d{1,6})\]|totalRanks\[(\d{1,6})\]"
)
_ENTRY = re.compile(r"Entry-HcclCommInitRootInfo\w*:ranks\[\d+\], rank\[(\d{1,6})\].*identifier\[[^\]]*?_(\d{1,20})\]")
_MET = re.compile(r"connected rankinfo\[LINE \d+\]: ((?:\[\d{1,16}\][,;]?){1,64})")
_TLS = re.compile(r"TLS SWITCH \((\d)\)")
_TIMEOUT = re.compile(r"HCCL_CONNECT_TIMEOUT set by \w+ to \[(\d{1,6})\]")


@dataclass
class Counted:
    """The first occurrence of an error, and the number of all occurrences.

    `end`: where the line of the last occurrence ends in the file. `tag`: its writer. `remaining`: the bytes of the
    file after it, known when the file is read. `survived`: its writer logs that it went on. `restarted`: the job was
    started again and ended well (see survived.py).
    """

    error: LoggedError
    end: int
    tag: str = ""
    count: int = 1
    remaining: int = 0
    survived: bool = False
    restarted: bool = False

    @property
    def may_be_caught(self) -> bool:
        return may_be_survived(self.error.sign, self.error.text)

    @property
    def caught(self) -> bool:
        """True if a program went on after it: it logs so, or there is much left of the file."""
        return self.may_be_caught and (self.survived or self.remaining > AFTER)


@dataclass
class LoggedProcess:
    """A writer of lines.

    `mixed`: it may be several, since the lines of its file do not identify their writer. `errors`: the first one for
    each id and role of signs. `names`: peers that its errors name. `met`: ranks that it reports as connected.
    """

    who: Who
    mixed: bool = False
    errors: dict[tuple[str, Role], Counted] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    met: set[int] = field(default_factory=set)


ProcessErrors = tuple[LoggedProcess, list[LoggedError]]


class Gathered:
    """Results of the logs read so far. `processes` are in the order of their first lines."""

    def __init__(self) -> None:
        self.processes: dict[tuple[str, ...], LoggedProcess] = {}
        self.ranks: set[int] = set()
        self.world = 0
        self.too_many = 0
        self._starts: dict[str, tuple[LoggedError, LoggedError]] = {}
        self._repeated: dict[tuple[str, str, str], Counted] = {}
        self._tls: dict[str, tuple[str, LoggedError]] = {}
        self._waits = 0.0
        self._ignored: dict[tuple[str, str], int] = {}  # file and writer → the line of Python's report of it
        self._kept = 0
        self._open: dict[int, Counted] = {}  # errors of the file that is being read
        self.writers = Writers()
        self.ends = Ends()
        self.completed: dict[str, dict[int, int]] = {}  # process group → rank → collectives that it completed
        self._completions = 0  # of all groups
        self.files = 0  # files that were read

    def end_file(self, length: int, tail: bytes, spot: Spot | None = None) -> None:
        """Take the end of a file of `length` bytes, which ends with `tail`."""
        if spot and spot.about.rank is not None and len(self.ranks) < _PROCESSES:
            self.ranks.add(spot.about.rank)
        if spot:
            self.ends.keep(spot, tail.decode("utf-8", "replace"))
        self._end_errors(length, tail)
        self._open.clear()
        self.writers.end_file()
        self.files += 1

    def _end_errors(self, length: int, tail: bytes) -> None:
        """Complete the errors of a file with the text below them, which shows whether their programs went on."""
        failed = any(counted.error.sign.id in ENDED_BADLY for counted in self._open.values())
        below, restart = Below(tail), cache(lambda: restart_place(tail))
        for counted in sorted(self._open.values(), key=lambda counted: counted.end):
            counted.remaining = length - counted.end
            place = len(tail) - counted.remaining  # below 0: the text right after it is not known any more
            if counted.may_be_caught and place >= 0:
                counted.survived = below.went_on(place, counted.tag)
            if failed and not counted.tag:  # those lines may be another rank's
                counted.survived = False
            if may_be_restarted(counted.error.sign):
                counted.restarted = max(0, place) <= restart()

    def _record(self, counted: Counted, spot: Spot, tag: str | None = None) -> None:
        """Count an occurrence. `tag` None: the writer of the occurrence before."""
        counted.end = spot.end
        counted.tag = counted.tag if tag is None else tag
        self._open[id(counted)] = counted
        if counted.count <= _CHECKED and counted.may_be_caught:
            counted.survived = spot.went_on(counted.tag)

    def add(self, raw: str, spot: Spot) -> None:
        """Take a line that may report an error, or the job's ranks."""
        raw = _unfold(clean(raw) if "\x1b" in raw else raw, spot)  # colours are right before words
        if self.writers.take_table_line(raw, spot):
            return
        if match := _COMPLETED.search(raw):
            self._take_completion(match)
        if _TRACEBACK_BEGINS in raw:
            self._take_traceback(raw, spot)
        else:
            self._add_line(raw, spot)

    def _add_line(self, raw: str, spot: Spot) -> None:
        """Take a line outside tracebacks. It is not parsed if its error was logged often already."""
        place = _PLACE.match(raw)
        place_key = (spot.file, place[1], place[2]) if place else None
        if self._is_repeated(place_key, spot):
            return
        sign = recognise(raw)
        if self._is_irrelevant(sign, raw, spot):
            return
        prefix = _prefix(raw)
        error_key = (spot.file, sign.id, prefix) if sign else None
        if self._is_repeated(error_key, spot):
            return
        counted = self._take_line(parse_line(raw, spot.year), sign, spot)
        if counted and counted.count > (_PARSED if prefix or place else _UNMARKED):
            self._keep_repeated(counted, error_key, place_key)

    def _keep_repeated(self, counted: Counted, *keys: tuple[str, str, str] | None) -> None:
        """Keep an error by what its lines begin with, so that further ones are only counted."""
        if len(self._repeated) < _PROCESSES:
            self._repeated.update({key: counted for key in keys if key})

    def _is_repeated(self, key: tuple[str, str, str] | None, spot: Spot) -> bool:
        """Return whether it is an error that was read often enough, and count it."""
        counted = self._repeated.get(key) if key else None
        if counted is None:
            return False
        counted.count += 1
        self._record(counted, spot)
        return True

    def _take_traceback(self, raw: str, spot: Spot) -> None:
        """Take the exception that ends a traceback, if its class is not called an error."""
        raised = uncommon_exception(raw, spot.after())
        if raised and not (spot.number - self._ignored.get((spot.file, ""), -_TRACEBACK) < _TRACEBACK):
            name, text, below = raised
            self._take_line(parse_line(text, spot.year), unknown(name), replace(spot, number=spot.number + below))

    def _take_line(self, line: LogLine, sign: Sign | None, spot: Spot) -> Counted | None:
        """Take a parsed line. Return its error as it is counted now, None if there is none."""
        sign = _allowed(line, sign)
        time = line.time if line.time is not None else spot.time_before()
        writer = self.writers.writer_of(line, spot).completed_by(replace(spot.about, file=spot.file))
        if sign and sign.id in ENDED_BADLY:
            self.ends.keep(spot, spot.before())
        if _CONNECTED in line.text:
            self._forget_failed_connections(line, writer)
        occurrence = LoggedError(LATE, writer, time, spot.file, spot.number, line.text[:_WIDTH])
        self._notice(line, occurrence)
        kill = kill_of(line.text) if sign and sign.id == MEMORY else None
        process = self._process(_key(line, writer, sign, kill), writer, sign, mixed=not line.tag)
        if process is None:
            return None
        process.who = process.who.completed_by(line.who)
        if sign is None:
            return None
        _take_names(process, line, writer)
        return self._count(process, replace(occurrence, sign=sign, kill=kill), line, spot)

    def _forget_failed_connections(self, line: LogLine, writer: Who) -> None:
        process = self.processes.get(_key(line, writer, None, None))
        if process:
            process.errors = {key: counted for key, counted in process.errors.items() if key[0] != "nccl-connect"}

    def _count(self, process: LoggedProcess, error: LoggedError, line: LogLine, spot: Spot) -> Counted | None:
        key = (error.sign.id, error.sign.role)
        counted = process.errors.get(key)
        if counted:
            counted.count += 1
        elif len(process.errors) < _KINDS and self._kept < _KEPT:
            self._kept += 1
            counted = process.errors[key] = Counted(error, spot.end)
        if counted:
            self._record(counted, spot, line.tag)
        return counted

    def _take_completion(self, match: re.Match[str]) -> None:
        group, rank = match["group"], int(match["rank"])
        if self._completions < _PROCESSES and rank not in self.completed.get(group, {}):
            self._completions += 1
            self.completed.setdefault(group, {})[rank] = int(match["done"])

    def known_writers(self) -> Iterator[Who]:
        """Yield each process of which a rank or a device is known."""
        for process in self.processes.values():
            yield self.writers.complete(process.who)
        yield from self.writers.known_writers()

    def _is_irrelevant(self, sign: Sign | None, raw: str, spot: Spot) -> bool:
        """Return whether the line reports neither an error that counts nor a fact of the job.

        An exception that Python ignores does not count: its report, and the end of its traceback. An exception that is
        known from logs of failed jobs counts.
        """
        if sign is None:
            return not _NOTICED.search(raw)
        writer = (spot.file, _prefix(raw))
        if sign.id == IGNORED:
            self._ignored[writer] = spot.number
            return True
        if sign.role is not Role.UNKNOWN or not is_exception(raw):
            return False
        return spot.number - self._ignored.pop(writer, -_TRACEBACK) < _TRACEBACK

    def _process(self, key: tuple[str, ...], who: Who, sign: Sign | None, *, mixed: bool) -> LoggedProcess | None:
        process = self.processes.get(key)
        if process is None and (sign or who.rank is not None):
            if len(self.processes) < _PROCESSES:
                process = self.processes[key] = LoggedProcess(who, mixed=mixed)
            elif sign:
                self.too_many += 1
        return process

    def _notice(self, line: LogLine, occurrence: LoggedError) -> None:
        """Record facts of lines without errors: ranks, the size of the job, when each rank began, its TLS switch."""
        text, writer = line.text, occurrence.who
        if writer.rank is not None and len(self.ranks) < _PROCESSES:
            self.ranks.add(writer.rank)
        if match := _WORLD.search(text):
            self.world = max(self.world, int(next(filter(None, match.groups()))))
        if (match := _ENTRY.search(text)) and occurrence.time is not None:
            self._notice_start(match[2], replace(occurrence, who=replace(writer, rank=int(match[1]))))
        if match := _TIMEOUT.search(text):
            self._waits = max(self._waits, float(match[1]))
        if (match := _TLS.search(text)) and len(self._tls) < _PROCESSES:
            key = f"{writer.host} {writer.device} {writer.pid if not writer.device else ''}"
            self._tls[key] = (match[1], occurrence)

    def _notice_start(self, communicator: str, start: LoggedError) -> None:
        """Keep the first and the last rank that began to make a communicator."""
        earlier = self._starts.get(communicator, ())
        if earlier or len(self._starts) < _STARTS:
            starts = (*earlier, start)
            self._starts[communicator] = (min(starts, key=_time), max(starts, key=_time))

    def comparison_errors(self) -> list[LoggedError]:
        """Return errors that show only in a comparison of processes: a late start, TLS that differs."""
        errors = []
        waits = self._waits or _WAITED
        for first, last in self._starts.values():
            delay = _time(last) - _time(first)
            if delay > waits:
                text = f"began {delay:.0f} s after rank {first.who.rank}, which waits {waits:.0f} s: {last.text}"
                errors.append(replace(last, time=first.time, text=text[:_WIDTH]))
        if len({state for state, _ in self._tls.values()}) > 1:
            for state, error in self._tls.values():
                errors.append(replace(error, sign=TLS_DIFFERS, text=f"TLS {state}: {error.text}"[:_WIDTH]))
        return errors


def _unfold(raw: str, spot: Spot) -> str:
    """Return the line; of Open MPI 5, with the signal from the line below."""
    if "noticed that process" not in raw or not raw.rstrip().endswith("exited on"):
        return raw
    match = _FOLDED.search(clean(spot.after()[:_WIDTH]))
    return f"{raw.rstrip()} {match[0]}" if match else raw


def _take_names(process: LoggedProcess, line: LogLine, who: Who) -> None:
    """Keep the peers that an error names, and the ranks that it reports as connected."""
    if len(process.names) < _NAMES:
        process.names.update(f"{who.host} {peer}" if peer.startswith("device ") else peer for peer in line.peers)
    if len(process.met) < _NAMES and (match := _MET.search(line.text)):
        process.met.update(int(number) for number in re.findall(r"\d{1,16}", match[1]))


def _prefix(raw: str) -> str:
    """Return the beginning of a line that identifies its writer, empty if there is none."""
    writer = _WRITER.match(raw)
    return writer[0] if writer else ""


def _time(error: LoggedError) -> float:
    return error.time or 0.0


def _allowed(line: LogLine, sign: Sign | None) -> Sign | None:
    """Return the sign, None if the line's level allows no error: libraries warn, and try again."""
    if sign is None or sign.role is Role.NOISE:
        return None
    return sign if sign.role is Role.HINT or sign.id == "heartbeat" or line.level in ("", "ERROR") else None


def _key(line: LogLine, who: Who, sign: Sign | None, kill: Kill | None) -> tuple[str, ...]:
    """Return the key that identifies a writer; in a kernel's log, each fault has its own."""
    file = who.file
    if kill:
        return ("kill", file, line.who.host, str(kill.pid))
    if sign and sign.id.startswith("Xid"):
        return ("xid", file, sign.id, line.who.device, line.who.host)
    if line.tag.startswith("rank"):
        return ("rank", line.tag)
    if sign and sign.id in _RANK_ENDED and who.rank is not None:
        return ("rank", f"rank{who.rank}")
    if line.who.pid is not None:
        return ("pid", file, line.tag)
    return ("file", file, line.tag or line.who.host)
