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
from preflight.model.cluster import Host, ProbeSettings
from preflight.transport import fan_out
from preflight.transport.bootstrap import host_argv
from preflight.transport.programs import source
from preflight.transport.types import Answer as HostAnswer
from preflight.transport.types import Program, Progress, Transport, TransportError

KERNEL = "the kernel's log"
_MOST = 2 << 30  # bytes of all hosts together
_LEAST = 256 << 10  # bytes of a host, however many there are
_EACH = 4  # a file may take one part in so many of its host's share
_KERNEL_MOST = 1 << 20  # bytes
_POOL = 16  # hosts at once: an answer is held in memory until it is written
_SECONDS = 240.0  # a host: 60 to read, 20 for dmesg, 90 in a container, and a slow way


@dataclass(frozen=True)
class Wanted:
    """`globs`: files on the hosts beside CANN's and the kernel's; `probe`: where and as whom jobs run; `age`: seconds
    since a file was changed; `most`: bytes of a host."""

    globs: tuple[str, ...]
    probe: ProbeSettings
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
class _Text:
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
    kernel: _Text | None
    inside: _Text | None
    zone: int


@dataclass(frozen=True)
class _Kept:
    """A file that came, and where its text lies here; `inside`: it is the container's."""

    file: _File
    path: Path
    inside: bool


@dataclass(frozen=True)
class _Came:
    """What a host sent. `nothing`: patterns to which no file belongs; `unread`: what did not come."""

    kept: tuple[_Kept, ...]
    kernel: Path | None
    nothing: frozenset[str]
    older: int
    zone: int
    unread: tuple[Unread, ...]


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
    numbers = {host.name: number for number, host in enumerate(hosts)}

    def one(host: Host) -> _Came | str:
        marker = secrets.token_hex(16)
        program = _program(wanted, share, marker)
        answer = transport.run(host, program, timeout=_SECONDS, limit=_answer_size(share))
        try:
            return _written(host.name, answer, marker, folder / str(numbers[host.name]), share)
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


def _program(wanted: Wanted, share: int, marker: str) -> Program:
    """Where the inventory's wrapper leads into a container, the program runs there, too: each brings half."""
    text, probe = source("fetch_logs"), wanted.probe
    most = share // 2 if probe.wrapper else share
    words = {
        "marker": marker, "globs": wanted.globs, "user": probe.user, "age": wanted.age, "most": most,
        "each": max(1, most // _EACH), "passed": NO_LOGS, "kernel": True, "inside": None,
    }  # fmt: skip
    if not probe.wrapper:
        return Program(text, json.dumps(words).encode(), setup=probe.setup)
    there = Program(
        text, json.dumps({**words, "kernel": False}).encode(), probe.python, probe.setup, probe.wrapper, probe.user
    )
    inside = {"argv": host_argv(there, sudo=False), "program": there.source + there.payload.decode()}
    return Program(text, json.dumps({**words, "inside": inside}).encode())


def _answer_size(share: int) -> int:
    """Bytes that an answer may have: base64, and some words."""
    return 2 * share + (8 << 20)


def _written(name: str, said: HostAnswer, marker: str, folder: Path, share: int) -> _Came:
    """Names are numbers: what a host calls its files is never a path here. Raises what `fetch` has as no answer."""
    folder.mkdir(mode=0o700)
    answer = decode(framed.document(said, marker), _Answer)
    unread: list[Unread] = []
    answers = [answer]
    if answer.inside and answer.inside.why:
        unread.append(Unread(name, f"no logs of the container came: {answer.inside.why}"))
    elif answer.inside:
        again = HostAnswer(_unpacked(answer.inside.text, _answer_size(share)), b"", 0, 0.0)
        try:
            answers.append(decode(framed.document(again, marker), _Answer))
        except framed.NoAnswer:
            words = again.stdout.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no word of why"]
            unread.append(Unread(name, f"no logs of the container came: {words[0][:200]}"))
    kept: list[_Kept] = []
    room = share
    known: set[tuple[str, float]] = set()  # a file of the host that the container has, too, by its name and time
    for told in reversed(answers):
        for file in told.files:
            same = (Path(file.path).name, file.changed)
            if told is answer and same in known:
                continue
            known.add(same)
            data = _unpacked(file.text, room)
            room -= len(data)
            path = folder / str(len(kept))
            path.write_bytes(data)
            os.utime(path, (0, min(max(file.changed, 0.0), 4e9)))  # lines without a year are of its year
            kept.append(_Kept(replace(file, text=b""), path, told is not answer))
        unread.extend(Unread(f"{name}:{left.path}", left.why) for left in told.left)
        if told.left_more:
            unread.append(Unread(name, f"{told.left_more} more files were not taken"))
    kernel = None
    if answer.kernel and answer.kernel.why:
        unread.append(Unread(f"{name}:{KERNEL}", answer.kernel.why))
    elif answer.kernel:
        kernel = folder / "kernel"
        kernel.write_bytes(_unpacked(answer.kernel.text, _KERNEL_MOST))
    nothing = frozenset.intersection(*(frozenset(told.nothing) for told in answers))
    older = sum(told.older for told in answers)
    return _Came(tuple(kept), kernel, nothing, older, answers[-1].zone, tuple(unread))


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
        for one in it.kept:
            if not one.file.shared:
                on[one.file.glob].add(name)
    seen: set[tuple[str, str]] = set()  # what lies in a file system of all hosts is one file, and nobody's
    for name, it in came.items():
        for one in it.kept:
            file = one.file
            if file.shared and (file.shared, file.path) in seen:
                continue
            seen.add((file.shared, file.path))
            # The output of a launcher lies on one host, and is of the ranks of all.
            own = not file.shared and (file.glob is None or len(on[file.glob]) > 1 or len(came) == 1)
            shown = f"{name}:{file.path}" + (" (in the container)" if one.inside else "")
            into.sources.append(
                Source(one.path, shown, replace(about(file.path.lstrip("/")), host=name if own else ""))
            )
            into.copies.append(Copy(name, shown.removeprefix(f"{name}:"), file.size, file.begin))
            if file.begin:
                why = f"only its last {file.size / (1 << 20):.1f} MiB came: line numbers are counted from there"
                into.unread.append(Unread(shown, why))
        if it.kernel:
            into.sources.append(Source(it.kernel, f"{name}:{KERNEL}", Who(host=name)))
            into.copies.append(Copy(name, KERNEL, it.kernel.stat().st_size))
        into.unread.extend(it.unread)
    _note(came, globs, into)


def _note(came: Mapping[str, _Came], globs: Sequence[str], into: Fetched) -> None:
    for glob in globs:
        lacking = [name for name, it in came.items() if glob in it.nothing]
        if lacking and len(lacking) == len(came):
            into.unread.append(Unread(glob, "there is no such file on any host"))
        elif lacking:
            into.notes.append(f"no {glob} on {len(lacking)} of {len(came)} hosts")
    if older := sum(it.older for it in came.values()):
        into.notes.append(f"{older} older logs on the hosts were not fetched (--since)")
    if len({it.zone for it in came.values()}) > 1:
        into.notes.append(
            "the hosts' clocks are in different time zones: what came first on different hosts is not known"
        )
