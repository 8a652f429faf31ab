"""Logs of all hosts, brought into a folder in one round trip a host; omissions are reported."""

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
_EACH = 4  # a file may take 1/_EACH of its host's share
_KERNEL_MOST = 1 << 20  # bytes
_POOL = 16  # hosts at once: an answer is held in memory until it is written
_SECONDS = 240.0  # for a host: 60 to read, 20 for dmesg, 90 in a container, and some for a slow connection


@dataclass(frozen=True)
class Wanted:
    """Selection of the logs to bring.

    `globs`: files on the hosts besides CANN's and the kernel's logs. `probe`: where and as which user jobs run. `age`:
    seconds since a file was changed. `most`: bytes of a host.
    """

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
    """A host's answer: see preflight/remote/fetch_logs/main.py."""

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
    """A round trip.

    `share`: bytes that the files may have. `sent`, `received`: seconds since 1970, by this machine's clock.
    """

    host: str
    marker: str
    share: int
    sent: float
    received: float


class _Unusable(Exception):  # noqa: N818  (what came of asking, not a fault of ours)
    """An answer of a host that cannot be used, as one sentence."""


def fetch(
    hosts: Sequence[Host],
    transport: Transport,
    wanted: Wanted,
    folder: Path,
    *,
    pool: int,
    progress: Callable[[Progress], None] | None,
) -> Fetched:
    """Bring the logs into `folder`, which the caller has to remove.

    Raises OSError if it cannot be written, and nothing that a host could cause.
    """
    share = min(wanted.most, max(_LEAST, _MOST // len(hosts)))
    numbers = {host.name: number for number, host in enumerate(hosts)}

    def one(host: Host) -> Came | str:
        marker = secrets.token_hex(16)
        program = _program(wanted, share, marker)
        sent = time.time()
        answer = transport.run(host, program, timeout=_SECONDS, limit=_answer_size(share))
        round_trip = _Asked(host.name, marker, share, sent, time.time())
        try:
            return _written(round_trip, answer, folder / str(numbers[host.name]))
        except (framed.NoAnswer, _Unusable, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return json_error(error)

    answers = fan_out(hosts, one, pool=min(pool, _POOL), deadline=_SECONDS, progress=progress, phase="logs")
    fetched = Fetched()
    came: dict[str, Came] = {}
    for name, answer in answers.items():
        if isinstance(answer, Came):
            came[name] = answer
        else:
            why = answer.summary.removeprefix(f"{name}: ") if isinstance(answer, TransportError) else answer
            fetched.unread.append(Unread(name, f"no logs came: {why}"))
    take(came, wanted.globs, fetched)
    return fetched


def _program(wanted: Wanted, share: int, marker: str) -> Program:
    """Return the program that brings the logs.

    If the inventory's wrapper leads into a container, the program runs there, too, and each of the two brings half.
    """
    text, probe = source("fetch_logs", "collect.tools"), wanted.probe
    limit = share // 2 if probe.wrapper else share
    request = {
        "marker": marker,
        "globs": wanted.globs,
        "user": probe.user,
        "age": wanted.age,
        "most": limit,
        "each": max(1, limit // _EACH),
        "passed": NO_LOGS,
        "kernel": True,
        "inside": None,
    }
    if not probe.wrapper:
        return Program(text, json.dumps(request).encode(), setup=probe.setup)
    inner_program = Program(
        text, json.dumps({**request, "kernel": False}).encode(), probe.python, probe.setup, probe.wrapper, probe.user
    )
    inside = {
        "argv": host_argv(inner_program, sudo=False),
        "program": inner_program.source + inner_program.payload.decode(),
    }
    return Program(text, json.dumps({**request, "inside": inside}).encode())


def _answer_size(share: int) -> int:
    """Return the bytes that an answer may have: base64, and some words."""
    return 2 * share + (8 << 20)


def _written(asked: _Asked, said: HostAnswer, folder: Path) -> Came:
    """Write a host's logs into `folder`, named by numbers: a host's file name never becomes a path here.

    Raises the errors that `fetch` counts as no answer.
    """
    folder.mkdir(mode=0o700)
    name = asked.host
    answer = decode(framed.document(said, asked.marker), _Answer)
    unread: list[Unread] = []
    answers = [answer]
    if answer.inside and answer.inside.why:
        unread.append(Unread(name, f"no logs of the container came: {answer.inside.why}"))
    elif answer.inside:
        inner_answer = HostAnswer(_unpacked(answer.inside.text, _answer_size(asked.share)), b"", 0, 0.0)
        try:
            answers.append(decode(framed.document(inner_answer, asked.marker), _Answer))
        except framed.NoAnswer:
            words = inner_answer.stdout.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no word of why"]
            unread.append(Unread(name, f"no logs of the container came: {words[0][:200]}"))
    kept: list[Kept] = []
    room = asked.share
    container_keys: set[tuple[str, float]] = set()  # name and time of its files; the host may have the same files
    for part in reversed(answers):
        for file in part.files:
            key = (Path(file.path).name, file.changed)
            if part is answer and key in container_keys:
                continue
            container_keys.add(key)
            data = _unpacked(file.text, room)
            room -= len(data)
            path = folder / str(len(kept))
            path.write_bytes(data)
            os.utime(path, (0, min(max(file.changed, 0.0), 4e9)))  # lines without a year are of its year
            kept.append(Kept(replace(file, size=len(data), text=b""), path, part is not answer))
        unread.extend(Unread(f"{name}:{omission.path}", omission.why) for omission in part.left)
        if part.left_more:
            unread.append(Unread(name, f"{part.left_more} more files were not taken"))
    kernel = None
    if answer.kernel and answer.kernel.why:
        unread.append(Unread(f"{name}:{KERNEL}", answer.kernel.why))
    elif answer.kernel:
        kernel = folder / "kernel"
        kernel.write_bytes(_unpacked(answer.kernel.text, _KERNEL_MOST))
    nothing = frozenset.intersection(*(frozenset(part.nothing) for part in answers))
    older = sum(part.older for part in answers)
    begun, ended = answer.clock
    ahead = ended - asked.received, begun - asked.sent
    return Came(tuple(kept), kernel, nothing, older, answers[-1].zone, ahead, tuple(unread))


def _unpacked(text: bytes, most: int) -> bytes:
    """Return the unpacked text. Raises _Unusable for text that is not packed, or larger than was asked for."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(text, most + 1)
    except zlib.error as error:
        raise _Unusable("the answer of the program on the host cannot be unpacked") from error
    if len(data) > most or not unpacking.eof:
        raise _Unusable("the host sent more than it was asked for, or not all of it")
    return data
