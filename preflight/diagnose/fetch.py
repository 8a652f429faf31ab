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

from preflight.diagnose.fetched import KERNEL, Fetched, File, HostLogs, Kept, take
from preflight.diagnose.reading import NO_LOGS, Unread
from preflight.facts import answer_frame as framed
from preflight.facts.decode import decode
from preflight.facts.documents.refused_document import json_error
from preflight.model.cluster import Host, ProbeSettings
from preflight.transport import FanOutLimits, fan_out
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
class LogSelection:
    """Selection of the logs to bring.

    `globs`: files on the hosts besides CANN's and the kernel's logs. `probe`: where and as which user jobs run. `age`:
    seconds since a file was changed. `most`: bytes of a host.
    """

    globs: tuple[str, ...]
    probe: ProbeSettings
    age: float
    most: int


@dataclass(frozen=True)
class _Omission:
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
    left: tuple[_Omission, ...]
    left_more: int
    older: int
    nothing: tuple[str, ...]
    kernel: _Text | None
    inside: _Text | None
    zone: int
    clock: tuple[float, float]


@dataclass(frozen=True)
class _RoundTrip:
    """A request to a host and its answer.

    `share`: bytes that the files may have. `sent`, `received`: seconds since 1970, by this machine's clock.
    """

    host: str
    marker: str
    share: int
    sent: float
    received: float
    answer: HostAnswer


class _UnusableError(Exception):
    """An answer of a host that cannot be used, as one sentence."""


@dataclass(frozen=True)
class HostAccess:
    """Hosts, the way to them, and how many of them are contacted at once."""

    hosts: Sequence[Host]
    transport: Transport
    pool: int
    progress: Callable[[Progress], None] | None = None


def fetch(access: HostAccess, selection: LogSelection, folder: Path) -> Fetched:
    """Bring the logs into `folder`, which the caller has to remove.

    Raises OSError if it cannot be written, and nothing that a host could cause.
    """
    hosts = access.hosts
    share = min(selection.most, max(_LEAST, _MOST // len(hosts)))
    numbers = {host.name: number for number, host in enumerate(hosts)}

    def fetch_host(host: Host) -> HostLogs | str:
        marker = secrets.token_hex(16)
        program = _program(selection, share, marker)
        sent = time.time()
        answer = access.transport.run(host, program, timeout=_SECONDS, limit=_answer_size(share))
        round_trip = _RoundTrip(host.name, marker, share, sent, time.time(), answer)
        try:
            return _write_logs(round_trip, folder / str(numbers[host.name]))
        except (framed.NoAnswer, _UnusableError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return json_error(error)

    pool = min(access.pool, _POOL)
    answers = fan_out(hosts, fetch_host, FanOutLimits(pool, _SECONDS), progress=access.progress, phase="logs")
    fetched = Fetched()
    logs: dict[str, HostLogs] = {}
    for name, answer in answers.items():
        if isinstance(answer, HostLogs):
            logs[name] = answer
        else:
            why = answer.summary.removeprefix(f"{name}: ") if isinstance(answer, TransportError) else answer
            fetched.unread.append(Unread(name, f"no logs were fetched: {why}"))
    take(logs, selection.globs, fetched)
    return fetched


def _program(selection: LogSelection, share: int, marker: str) -> Program:
    """Return the program that brings the logs.

    If the inventory's wrapper leads into a container, the program runs there, too, and each of the two brings half.
    """
    text, probe = source("fetch_logs", "collect.tools"), selection.probe
    limit = share // 2 if probe.wrapper else share
    request = {
        "marker": marker,
        "globs": selection.globs,
        "user": probe.user,
        "age": selection.age,
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


def _write_logs(round_trip: _RoundTrip, folder: Path) -> HostLogs:
    """Write a host's logs into `folder`, named by numbers: a host's file name never becomes a path here.

    Raises the errors that `fetch` counts as no answer.
    """
    folder.mkdir(mode=0o700)
    answer = decode(framed.document(round_trip.answer, round_trip.marker), _Answer)
    unread: list[Unread] = []
    inner_answer = _container_answer(round_trip, answer.inside, unread) if answer.inside else None
    parts = (inner_answer, answer) if inner_answer else (answer,)
    kept = _write_files(parts, round_trip.share, folder)
    for part in parts:
        unread += [Unread(f"{round_trip.host}:{omission.path}", omission.why) for omission in part.left]
        if part.left_more:
            unread.append(Unread(round_trip.host, f"{part.left_more} more files were not fetched"))
    kernel = _write_kernel_log(round_trip, answer.kernel, folder, unread) if answer.kernel else None
    nothing = frozenset.intersection(*(frozenset(part.nothing) for part in parts))
    older = sum(part.older for part in parts)
    begun, ended = answer.clock
    ahead = ended - round_trip.received, begun - round_trip.sent
    return HostLogs(kept, kernel, nothing, older, parts[0].zone, ahead, tuple(unread))


def _container_answer(round_trip: _RoundTrip, inside: _Text, unread: list[Unread]) -> _Answer | None:
    """Return the answer of the program in the host's container. If there is none, the reason is put into `unread`."""
    why = inside.why
    if not why:
        answer = HostAnswer(_unpack(inside.text, _answer_size(round_trip.share)), b"", 0, 0.0)
        try:
            return decode(framed.document(answer, round_trip.marker), _Answer)
        except framed.NoAnswer:
            words = answer.stdout.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no reason was given"]
            why = words[0][:200]
    unread.append(Unread(round_trip.host, f"the container's logs could not be fetched: {why}"))
    return None


def _write_files(parts: Sequence[_Answer], room: int, folder: Path) -> tuple[Kept, ...]:
    """Write the files of a host's answers, the last of which is the host's own. `room`: bytes for all of them."""
    kept: list[Kept] = []
    container_keys: set[tuple[str, float]] = set()  # name and time of its files; the host may have the same files
    for part in parts:
        is_host = part is parts[-1]
        for file in part.files:
            key = (Path(file.path).name, file.changed)
            if is_host and key in container_keys:
                continue
            container_keys.add(key)
            data = _unpack(file.text, room)
            room -= len(data)
            path = folder / str(len(kept))
            path.write_bytes(data)
            os.utime(path, (0, min(max(file.changed, 0.0), 4e9)))  # lines without a year are of its year
            kept.append(Kept(replace(file, size=len(data), text=b""), path, not is_host))
    return tuple(kept)


def _write_kernel_log(round_trip: _RoundTrip, log: _Text, folder: Path, unread: list[Unread]) -> Path | None:
    """Return the path of the kernel's log. If it did not come, the reason is put into `unread`."""
    if log.why:
        unread.append(Unread(f"{round_trip.host}:{KERNEL}", log.why))
        return None
    path = folder / "kernel"
    path.write_bytes(_unpack(log.text, _KERNEL_MOST))
    return path


def _unpack(text: bytes, most: int) -> bytes:
    """Return the unpacked text. Raises _UnusableError for text that is not packed, or larger than was asked for."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(text, most + 1)
    except zlib.error as error:
        raise _UnusableError("the host's response cannot be unpacked") from error
    if len(data) > most or not unpacking.eof:
        raise _UnusableError("the host's response is incomplete or too large")
    return data
