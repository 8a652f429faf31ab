"""The processes that wrote a job's logs, as far as CANN's lines and the tables of launchers show them. Bounded."""

import re
from collections.abc import Iterator
from dataclasses import replace

from preflight.diagnose.types import LogLine, Spot, Who

_PROCESSES = 65_536  # of all logs
_OF_FILE = 4  # processes that are kept for a file: two are enough to know that it has several
_FILES = 65_536
# torchrun's table of failures: host, rank and exit code of a worker are on separate lines.
_TABLE = re.compile(
    r"^(?:\[\w+\]:)? *(?P<key>host|rank) {1,9}: (?P<value>[\w.-]{1,253})(?: \(local_rank: \d{1,4}\))? *$"
)
_TABLE_LINES = 4  # from the host to the exit code
# Table of MPICH and Intel MPI: the signal or exit code is in the next line.
_HYDRA = re.compile(r"^=   RANK (?P<rank>\d{1,6}) PID \d{1,10} RUNNING AT (?P<host>[\w.-]{1,253})")
_OF_TABLE = re.compile(r"exitcode|\) received by PID |^=   ")
# Lines of CANN, which name their process.
_OF_CANN = re.compile(r"\[[A-Z]{4,9}\] ?[A-Z_]{2,16}\(\d+,|\(PID:\d+, Device:|\[PID: ?\d|Rank\[\d{1,6}\] failed")


class Writers:
    """Writers of log lines, as far as they are known by now."""

    def __init__(self) -> None:
        self._table: dict[str, str] = {}  # values so far of the launcher's table that is being read
        self._table_at = -_TABLE_LINES
        self._identities: dict[tuple[str, int], Who] = {}  # host and process number → rank and device
        self._of_file: dict[str, set[Who]] = {}  # file → processes that CANN names in it

    def take_table_line(self, raw: str, spot: Spot) -> bool:
        """Return whether the line is one of a launcher's table, which is then kept for the lines below it."""
        if match := _HYDRA.match(raw):
            self._table = dict(match.groupdict())
        elif match := _TABLE.match(raw):
            if spot.number - self._table_at >= _TABLE_LINES or match["key"] in self._table:
                self._table.clear()
            self._table[match["key"]] = match["value"]
        else:
            return False
        self._table_at = spot.number
        return True

    def end_file(self) -> None:
        """Forget a table: the next file's lines are no part of it."""
        self._table.clear()

    def writer_of(self, line: LogLine, spot: Spot) -> Who:
        """Return the writer of a line, also by a launcher's table around it, or by the path of a device's log."""
        writer = line.who
        if spot.about.pid is not None:  # the device has its own process numbers
            writer = replace(writer, pid=spot.about.pid, device=spot.about.device)
        if self._table and 0 < spot.number - self._table_at < _TABLE_LINES and _OF_TABLE.search(line.text):
            rank = self._table.get("rank", "")
            writer = replace(
                writer, host=writer.host or self._table.get("host", ""), rank=int(rank) if rank.isdigit() else None
            )
        if _OF_CANN.search(line.text) and (writer.pid is not None or writer.rank is not None):
            self._learn(writer, spot)
        return writer

    def _learn(self, who: Who, spot: Spot) -> None:
        """Keep the rank and the device of a process, for its file and for its other files."""
        if spot.file in self._of_file or len(self._of_file) < _FILES:
            writers = self._of_file.setdefault(spot.file, set())
            if len(writers) < _OF_FILE:
                writers.add(Who(who.rank, "", who.device, who.pid))
        writer = who.completed_by(spot.about)
        if writer.pid is None or len(self._identities) >= _PROCESSES:
            return
        if writer.rank is not None or writer.device:
            key = (writer.host, writer.pid)
            self._identities[key] = self._identities.get(key, Who()).completed_by(Who(writer.rank, "", writer.device))

    def complete(self, who: Who) -> Who:
        """Return the process with the rank and device of its other lines and files."""
        return who if who.pid is None else who.completed_by(self._identities.get((who.host, who.pid), Who()))

    def known_writers(self) -> Iterator[Who]:
        """Yield each process of which a rank or a device is known."""
        for (host, pid), identity in self._identities.items():
            yield replace(identity, host=host, pid=pid)

    def only_writer(self, file: str) -> Who:
        """Return the process that wrote a file's lines, if CANN names a single one in it."""
        writers = self._of_file.get(file, set())
        if (
            len({candidate.rank for candidate in writers} - {None}) > 1
            or len({candidate.pid for candidate in writers} - {None}) > 1
        ):
            return Who()
        writer = Who()
        for candidate in sorted(writers, key=lambda candidate: candidate.rank is None):
            writer = writer.completed_by(candidate)
        return writer
