"""Logs of all hosts, brought into a folder in one round trip a host; what was left out is said."""

import json
import os
import secrets
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from preflight.diagnose.fetched import KERNEL, Came, Fetched, File, Kept, take
from preflight.diagnose.reading import NO_LOGS, Unread
from preflight.facts import answer_frame as framed
from preflight.facts.decode import decode
from preflight.facts.documents.refused_document import json_error
from preflight.model.cluster import Host, ProbeSettings
from preflight.transport import fan_out
from preflight.transport.bootstrap import host_argv
from preflight.transport.programs import source
from preflight.transport.types import Answer as HostAnswer
from preflight.transport.types import Program, Progress, Transport, TransportError

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
class _Left:
    path: str
    why: str


@dataclass(frozen=True)
class _Text:
    text: bytes
    why: str


@dataclass(frozen=True)
class _Answer:
    """See preflight/remote/fetch_logs/main.py."""

    files: tuple[File, ...]
    left: tuple[_Left, ...]
    left_more: int
    older: int
    nothing: tuple[str, ...]
    kernel: _Text | None
    inside: _Text | None
    zone: int
    clock: tuple[float, float]


@dataclass(frozen=True)
class _Asked:
    """A round trip: `share` is what the files may have in bytes; `sent`, `received`: seconds since 1970, here."""

    host: str
    marker: str
    share: int
    sent: float
    received: float


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

    def one(host: Host) -> Came | str:
        marker = secrets.token_hex(16)
        program = _program(wanted, share, marker)
        sent = time.time()
        answer = transport.run(host, program, timeout=_SECONDS, limit=_answer_size(share))
        asked = _Asked(host.name, marker, share, sent, time.time())
        try:
            return _written(asked, answer, folder / str(numbers[host.name]))
        except (framed.NoAnswer, _Unusable, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return json_error(error)

    heard = fan_out(hosts, one, pool=min(pool, _POOL), deadline=_SECONDS, progress=progress, phase="logs")
    fetched = Fetched()
    came: dict[str, Came] = {}
    for name, it in heard.items():
        if isinstance(it, Came):
            came[name] = it
        else:
            why = it.summary.removeprefix(f"{name}: ") if isinstance(it, TransportError) else it
            fetched.unread.append(Unread(name, f"no logs came: {why}"))
    take(came, wanted.globs, fetched)
    return fetched


def _program(wanted: Wanted, share: int, marker: str) -> Program:
    """Where the inventory's wrapper leads into a container, the program runs there, too: each brings half."""
    text, probe = source("fetch_logs", "collect.tools"), wanted.probe
    most = share // 2 if probe.wrapper else share
    words = {
        "marker": marker,
        "globs": wanted.globs,
        "user": probe.user,
        "age": wanted.age,
        "most": most,
        "each": max(1, most // _EACH),
        "passed": NO_LOGS,
        "kernel": True,
        "inside": None,
    }
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


def _written(asked: _Asked, said: HostAnswer, folder: Path) -> Came:
    """Names are numbers: what a host calls its files is never a path here. Raises what `fetch` has as no answer."""
    folder.mkdir(mode=0o700)
    name = asked.host
    answer = decode(framed.document(said, asked.marker), _Answer)
    unread: list[Unread] = []
    answers = [answer]
    if answer.inside and answer.inside.why:
        unread.append(Unread(name, f"no logs of the container came: {answer.inside.why}"))
    elif answer.inside:
        again = HostAnswer(_unpacked(answer.inside.text, _answer_size(asked.share)), b"", 0, 0.0)
        try:
            answers.append(decode(framed.document(again, asked.marker), _Answer))
        except framed.NoAnswer:
            words = again.stdout.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no word of why"]
            unread.append(Unread(name, f"no logs of the container came: {words[0][:200]}"))
    kept: list[Kept] = []
    room = asked.share
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
            kept.append(Kept(replace(file, size=len(data), text=b""), path, told is not answer))
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
    begun, ended = answer.clock
    ahead = ended - asked.received, begun - asked.sent
    return Came(tuple(kept), kernel, nothing, older, answers[-1].zone, ahead, tuple(unread))


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
