"""Files of logs, read once, block by block: only lines with a trigger word are inspected.

A line is inspected up to 8 KiB around its trigger. Memory is that of a few blocks, however large the logs are.
"""

import codecs
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

from ahocorasick_rs import BytesAhoCorasick, Implementation

from preflight.diagnose.catalogue import CODE_TRIGGER, TRIGGERS
from preflight.diagnose.gather import Gathered
from preflight.diagnose.line import time_of
from preflight.diagnose.paths import about, host_of
from preflight.diagnose.survived import AFTER, Below
from preflight.diagnose.types import Spot, Who
from preflight.model.errors import UsageError

_BLOCK = 1 << 20
_LONGEST = 4 << 10  # bytes of a line on either side of its trigger
_BACK = 4 << 10  # bytes before a line without a time that are searched for one
_FILES = 65_536
SNIFFED = 8 << 10  # bytes that show the type of a file
_PACKED = {
    b"\x1f\x8b": ("gzip", "gunzip -k"),
    b"BZh": ("bzip2", "bunzip2 -k"),
    b"\xfd7zXZ": ("xz", "unxz -k"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"PK\x03\x04": ("zip", "unzip"),
}
# In a folder these are programs, data and documents, which quote errors that did not happen.
NO_LOGS = (
    ".py",
    ".pyc",
    ".sh",
    ".json",
    ".jsonl",
    ".yaml",
    ".yml",
    ".toml",
    ".md",
    ".html",
    ".csv",
    ".tsv",
    ".c",
    ".cc",
    ".cpp",
    ".h",
    ".cu",
    ".so",
    ".pt",
    ".pth",
    ".bin",
    ".safetensors",
    ".npy",
    ".npz",
    ".pkl",
    ".png",
    ".jpg",
    ".pdf",
)


@dataclass(frozen=True)
class Source:
    """A file to be read. `name`: as it is shown. `about`: its writer by its path."""

    path: Path
    name: str
    about: Who


@dataclass(frozen=True)
class Unread:
    name: str
    why: str


def sources(paths: Sequence[Path]) -> list[Source]:
    """Return the files that are given, and those in the folders that are given.

    Raises UsageError for a path that does not exist, and for paths without logs.
    """
    sources_of: dict[Path, Source] = {}
    for path in paths:
        try:
            if path.is_dir():
                host = host_of(path.parts) if len(paths) > 1 else ""
                for below in _below(path):
                    writer = about(below.relative_to(path).as_posix())
                    sources_of.setdefault(below, Source(below, str(below), replace(writer, host=writer.host or host)))
            else:
                _refuse(path)
                sources_of[path] = Source(path, str(path), about(path.name))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}. Give log files or a folder with log files") from error
        if len(sources_of) > _FILES:
            raise UsageError(f"{path}: more than {_FILES} files. Give the logs of one job")
    if not sources_of:
        raise UsageError(f"no logs in {', '.join(map(str, paths))}. Give log files or a folder with log files")
    return list(sources_of.values())


def _refuse(path: Path) -> None:
    """Raise UsageError for a name that is no log: missing, a device, or packed. A pipe is one."""
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder. Give log files or a folder with log files")
    if path.is_fifo():
        return
    if not path.is_file():
        raise UsageError(f"{path}: not a regular file. Give log files or a folder with log files")
    with path.open("rb") as file:
        if why := packed(file.read(8), path):
            raise UsageError(f"{path}: {why}")


def packed(head: bytes, path: Path) -> str:
    """Return the packing of a file and the command that unpacks it, empty if it is not packed."""
    for start, (how, tool) in _PACKED.items():
        if head.startswith(start):
            return f"compressed with {how}. Unpack it first: {tool} {shlex.quote(str(path))}"
    return ""


def _below(folder: Path) -> Iterator[Path]:
    """Yield ordinary files, in order, then folders that cannot be listed; links to folders are not followed."""
    count = 0
    shut: list[Path] = []
    for root, folders, names in os.walk(folder, onerror=lambda error: shut.append(Path(error.filename))):
        folders.sort()
        for name in sorted(names):
            path = Path(root, name)
            if path.suffix.lower() in NO_LOGS or not path.is_file():
                continue
            count += 1
            if count > _FILES:
                return
            yield path
    yield from shut


def read(source: Source, into: Gathered) -> Unread | None:
    """Read a file into `into`. Return why the file, or its rest, could not be read; None if it was read."""
    try:
        if source.path.is_dir():
            return Unread(source.name, "the folder cannot be listed")
        with source.path.open("rb") as file:
            status = os.fstat(file.fileno())
            year = datetime.fromtimestamp(status.st_mtime, UTC).year
            head = file.read(SNIFFED)
            if why := packed(head, source.path):
                return Unread(source.name, why)
            encoding = encoding_of(head)
            if encoding is None:
                return Unread(source.name, "not text")
            _Reader(source, into, year).read(_decoded(file, head, encoding))
    except OSError as error:
        return Unread(source.name, error.strerror or "cannot be read")
    return None


def encoding_of(head: bytes) -> str | None:
    """Return the encoding of a file that begins with `head`: "" for any superset of ASCII, None for no text.

    Runs of NULs, which log rotation leaves behind, do not count.
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    odd, even = head[1::2].count(0), head[::2].count(0)
    if abs(odd - even) > len(head) // 4:
        return "utf-16-le" if odd > even else "utf-16-be"
    text = head.strip(b"\0")
    strange = sum(text.count(code) for code in (*range(9), *range(14, 27), *range(28, 32)))
    return None if strange > max(8, len(text) // 50) else ""


def _decoded(file: BinaryIO, head: bytes, encoding: str) -> Iterator[bytes]:
    """Yield the file's blocks, in a superset of ASCII."""
    decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
    block = head
    while block:
        yield decoder.decode(block).encode("utf-8", "replace") if decoder else block
        block = file.read(_BLOCK)


class _Reader:
    """Reader of one file. It passes lines that may report an error to `into`, with their numbers and times."""

    def __init__(self, source: Source, into: Gathered, year: int) -> None:
        self.source, self.into, self.year = source, into, year
        self.lines = 0  # line ends before the block
        self.passed = 0  # bytes before the block, as they are read: of UTF-16 fewer than the file has
        self.tail = b""

    def read(self, blocks: Iterator[bytes]) -> None:
        try:
            self._blocks(blocks)
        finally:  # also if a file breaks off
            spot = Spot(self.source.name, self.lines, self.passed, self.source.about, self.year, lambda: None)
            self.into.end_file(self.passed, self.tail, spot)

    def _blocks(self, blocks: Iterator[bytes]) -> None:
        partial_line = b""
        for block in blocks:
            block = partial_line + block
            end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
            if not end and len(block) > _BLOCK:  # a line longer than a block: its pieces are read as lines
                end = len(block)
            self._whole_lines(block[:end])
            partial_line = block[end:]
        self._whole_lines(partial_line)

    def _whole_lines(self, block: bytes) -> None:
        counted = 0
        times, below = _Times(block, self.year), Below(block)
        for begin, end in sorted(_lines_in(block)):
            self.lines += block.count(b"\n", counted, begin)
            counted = begin
            spot = Spot(
                self.source.name,
                self.lines + 1,
                self.passed + end,
                self.source.about,
                self.year,
                partial(times.before, begin),
                partial(_text_after, block, end),
                partial(_text_before, block, begin),
                partial(below.went_on, end),
            )
            self.into.add(block[begin:end].decode("utf-8", "replace"), spot)
        self.lines += block.count(b"\n", counted)
        self.passed += len(block)
        self.tail = (self.tail + block[-AFTER:])[-AFTER:]


class _Times:
    """Times of the lines of a block. Each line is read once, however many lines without a time are below it."""

    def __init__(self, block: bytes, year: int) -> None:
        self._block, self._year = block, year
        self._upto = 0
        self._last: tuple[int, float | None] = (-_BACK, None)  # the place and time of the last line that has one

    def before(self, begin: int) -> float | None:
        """Return the time of the nearest line before `begin` that has one.

        It is about right for interleaved ranks, too.
        """
        place = begin
        for line in reversed(self._block[max(0, self._upto, begin - _BACK) : begin].splitlines(keepends=True)):
            place -= len(line)
            time = time_of(line.decode("utf-8", "replace"), self._year)
            if time is not None:
                self._last = (place, time)
                break
        self._upto = max(self._upto, begin)
        place, time = self._last
        return time if begin - place <= _BACK else None


def _text_before(block: bytes, begin: int) -> str:
    return block[max(0, begin - _BACK) : begin].decode("utf-8", "replace")


def _text_after(block: bytes, end: int) -> str:
    return block[end : end + AFTER].decode("utf-8", "replace")


@cache
def _triggers() -> BytesAhoCorasick:
    """Return the automaton that finds all trigger words in one pass, however many there are."""
    return BytesAhoCorasick(list(TRIGGERS), implementation=Implementation.DFA)


def _lines_in(block: bytes) -> set[tuple[int, int]]:
    """Return begin and end of each line that may report an error."""
    lines: set[tuple[int, int]] = set()
    for matches in (
        ((begin, end) for _, begin, end in _triggers().find_matches_as_indexes(block)),
        (match.span() for match in CODE_TRIGGER.finditer(block)),
    ):
        line = (0, -1)
        for begin, end in matches:
            if end > line[1]:
                line = _around(block, begin, end)
                lines.add(line)
    return lines


def _around(block: bytes, begin: int, end: int) -> tuple[int, int]:
    """Return the line that has these bytes, or the part of it around them. A carriage return ends a line, too."""
    low, high = max(0, begin - _LONGEST), min(len(block), end + _LONGEST)
    first = max(block.rfind(b"\n", low, begin), block.rfind(b"\r", low, begin)) + 1 or low
    ends = [place for place in (block.find(b"\n", end, high), block.find(b"\r", end, high)) if place >= 0]
    return first, min(ends, default=high)
