"""The last lines of logs, for jobs that ended without a reason in them. Bounded."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from preflight.diagnose.catalogue import recognise
from preflight.diagnose.errors.launchers import ENDED_BADLY
from preflight.diagnose.line import parse_line
from preflight.diagnose.types import LastLines, Spot, Who

_LINES = 3  # of a writer
_WIDTH = 500  # characters of a line
_WRITERS = 64  # of one file
_TAIL = 4 << 10  # bytes at the end of a file that are searched for them
_FILES = 2_000


@dataclass
class _Ending:
    who: Who
    lines: list[str] = field(default_factory=list)
    time: float | None = None


class Ends:
    """The text at the end of each file, or before a launcher's first report of a failure in it."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[Who, int, str]] = {}

    def keep(self, spot: Spot, text: str) -> None:
        """Keep the text before `spot`, unless an earlier end of its file is kept."""
        if spot.file not in self._texts and len(self._texts) < _FILES:
            self._texts[spot.file] = (spot.about, spot.year, text[-_TAIL:])

    def last_lines(self) -> Iterator[LastLines]:
        """Yield the last lines of each writer of each file."""
        for file, (about, year, text) in self._texts.items():
            lines = text.splitlines()
            for writer in _endings(lines[1:] if len(text) == _TAIL else lines, year):
                identity = writer.who.completed_by(replace(about, file=file))
                yield LastLines(identity, file, writer.time, tuple(writer.lines[-_LINES:]))


def _endings(texts: list[str], year: int) -> Iterator[_Ending]:
    """Yield each writer of these lines with its own lines, without reports of launchers."""
    writers: dict[str, _Ending] = {}
    for raw in texts:
        line = parse_line(raw[:_WIDTH], year)
        sign = recognise(raw)
        if not line.text or (sign and sign.id in ENDED_BADLY):
            continue
        if line.tag in writers or len(writers) < _WRITERS:
            writer = writers.setdefault(line.tag, _Ending(line.who))
            writer.who = line.who.completed_by(writer.who)
            writer.lines.append(line.text)
            writer.time = line.time if line.time is not None else writer.time
    yield from writers.values()
