"""Logs of all hosts, brought into a folder in one round trip a host; what was left out is said."""

import json
import os
import secrets
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from preflight.diagnose.gather import about
from preflight.diagnose.reading import NO_LOGS, Source, Unread
from preflight.diagnose.types import Who
from preflight.facts import framed
from preflight.facts.decode import decode
from preflight.model.cluster import Host
from preflight.transport import fan_out
from preflight.transport.programs import source
from preflight.transport.types import Program, Progress, Transport, TransportError

KERNEL = "the kernel's log"
_MOST = 2 << 30  # bytes of all hosts together
_LEAST = 256 << 10  # bytes of a host, however many there are
_EACH = 4  # a file may take one part in so many of its host's share
_KERNEL_MOST = 1 << 20  # bytes
_POOL = 16  # hosts at once: an answer is held in memory until it is written
_SECONDS = 150.0  # a host: 60 to read, 20 for dmesg, and a slow way


@dataclass(frozen=True)
class Wanted:
    """`globs`: files on the hosts beside CANN's and the kernel's; `user`: whose jobs run there, or ""; `setup`: a line
    that sets their environment; `age`: seconds since a file was changed; `most`: bytes of a host."""

    globs: tuple[str, ...]
    user: str
    setup: str
    age: float
    most: int


@dataclass(frozen=True)
class Copy:
    """A log that came: `size` bytes of it, from byte `begin` on."""

    host: str
    file: str
    size: int
    begin: int = 0


@dataclass(frozen=True)
class Fetched:
    """`sources` are read as local files are. `unread`: hosts and files, or parts of them, that did not come."""

    sources: list[Source] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _File:
    path: str
    glob: int | None
    shared: str
    changed: float
    size: int
    begin: int
    text: bytes


@dataclass(frozen=True)
class _Left:
    path: str
    why: str


@dataclass(frozen=True)
class _Kernel:
    text: bytes
    why: str


@dataclass(frozen=True)
class _Answer:
    """See preflight/remote/fetch_logs.py."""

    files: tuple[_File, ...]
    left: tuple[_Left, ...]
    left_more: int
    older: int
    nothing: tuple[str, ...]
    kernel: _Kernel
    zone: int


@dataclass(frozen=True)
class _Came:
    """An answer whose texts are files below the folder: number of the file → where it lies."""

    answer: _Answer
    kept: Mapping[int, Path]
    kernel: Path | None


class _Unusable(Exception):  # noqa: N818  (what came of asking, not a fault of ours)
    """The host's answer cannot be used: one sentence."""


def fetch(
    hosts: Sequence[Host],
    transport: Transport,
    wanted: Wanted,
    folder: Path,
    *,
    pool: int,
    progress: Callable[[Progress], None] | None,
) -> Fetched:
    """Bring the logs into `folder`, which is the caller's to remove. Raises OSError where it cannot be written, and
    nothing that a host could cause."""
    share = min(wanted.most, max(_LEAST, _MOST // len(hosts)))
    text = source("fetch_logs")
    words = {
        "globs": wanted.globs, "user": wanted.user, "age": wanted.age, "most": share, "each": max(1, share // _EACH),
        "passed": NO_LOGS,
    }  # fmt: skip
    numbers = {host.name: number for number, host in enumerate(hosts)}

    def one(host: Host) -> _Came | str:
        marker = secrets.token_hex(16)
        program = Program(text, json.dumps({"marker": marker, **words}).encode(), setup=wanted.setup)
        answer = transport.run(host, program, timeout=_SECONDS, limit=share // 2 * 3 + (8 << 20))
        try:
            told = decode(framed.document(answer, marker), _Answer)
            return _written(told, folder / str(numbers[host.name]), share)
        except (framed.NoAnswer, _Unusable, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return str(error)

    heard = fan_out(hosts, one, pool=min(pool, _POOL), deadline=_SECONDS, progress=progress, phase="logs")
    fetched = Fetched()
    came: dict[str, _Came] = {}
    for name, it in heard.items():
        if isinstance(it, _Came):
            came[name] = it
        else:
            why = it.summary.removeprefix(f"{name}: ") if isinstance(it, TransportError) else it
            fetched.unread.append(Unread(name, f"no logs came: {why}"))
    _take(came, wanted.globs, fetched)
    return fetched


def _written(answer: _Answer, folder: Path, share: int) -> _Came:
    """Names are numbers: what a host calls its files is never a path here."""
    folder.mkdir(mode=0o700)
    kept: dict[int, Path] = {}
    room = share
    for number, file in enumerate(answer.files):
        data = _unpacked(file.text, room)
        room -= len(data)
        kept[number] = folder / str(number)
        kept[number].write_bytes(data)
        os.utime(kept[number], (0, min(max(file.changed, 0.0), 4e9)))  # lines without a year are of its year
    kernel = folder / "kernel" if answer.kernel.text else None
    if kernel:
        kernel.write_bytes(_unpacked(answer.kernel.text, _KERNEL_MOST))
    texts = tuple(replace(file, text=b"") for file in answer.files)
    return _Came(replace(answer, files=texts, kernel=replace(answer.kernel, text=b"")), kept, kernel)


def _unpacked(text: bytes, most: int) -> bytes:
    """Raises _Unusable for what is not packed, or larger than was asked for."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(text, most + 1)
    except zlib.error as error:
        raise _Unusable("the answer of the program on the host cannot be unpacked") from error
    if len(data) > most or not unpacking.eof:
        raise _Unusable("the host sent more than it was asked for, or not all of it")
    return data


def _take(came: Mapping[str, _Came], globs: Sequence[str], into: Fetched) -> None:
    on = defaultdict(set)  # number of a pattern → hosts with a file of their own that belongs to it
    for name, it in came.items():
        for file in it.answer.files:
            if not file.shared:
                on[file.glob].add(name)
    seen: set[tuple[str, str]] = set()  # what lies in a file system of all hosts is one file
    for name, it in came.items():
        for number, file in enumerate(it.answer.files):
            if file.shared and (file.shared, file.path) in seen:
                continue
            seen.add((file.shared, file.path))
            # The output of a launcher lies on one host, and is of the ranks of all.
            own = file.glob is None or (not file.shared and (len(on[file.glob]) > 1 or len(came) == 1))
            told = about(file.path.lstrip("/"))
            shown = f"{name}:{file.path}"
            into.sources.append(Source(it.kept[number], shown, replace(told, host=name if own else "")))
            into.copies.append(Copy(name, file.path, file.size, file.begin))
            if file.begin:
                why = f"only its last {_mib(file.size)} came: line numbers are counted from there"
                into.unread.append(Unread(shown, why))
        _about(name, it, into)
    for number, glob in enumerate(globs):
        lacking = [name for name, it in came.items() if glob in it.answer.nothing]
        if lacking and len(lacking) == len(came):
            into.unread.append(Unread(glob, "there is no such file on any host"))
        elif lacking and number in on:
            into.notes.append(f"no {glob} on {len(lacking)} of {len(came)} hosts")
    if older := sum(it.answer.older for it in came.values()):
        into.notes.append(f"{older} older logs on the hosts were not fetched (--since)")
    zones = {it.answer.zone for it in came.values()}
    if len(zones) > 1:
        into.notes.append(
            "the hosts' clocks are in different time zones: what came first on different hosts is not known"
        )


def _about(name: str, it: _Came, into: Fetched) -> None:
    """What else is to be said of a host's answer."""
    answer = it.answer
    if it.kernel:
        shown = f"{name}:{KERNEL}"
        into.sources.append(Source(it.kernel, shown, Who(host=name)))
        into.copies.append(Copy(name, KERNEL, it.kernel.stat().st_size))
    if answer.kernel.why:
        into.unread.append(Unread(f"{name}:{KERNEL}", answer.kernel.why))
    into.unread.extend(Unread(f"{name}:{left.path}", left.why) for left in answer.left)
    if answer.left_more:
        into.unread.append(Unread(name, f"{answer.left_more} more files were not taken"))


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
