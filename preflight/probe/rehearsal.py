"""The port rehearsal: before torch, hosts listen on the ports that the job will use, and connect to each other's."""

import json
import queue
import secrets
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
from msgspec import Meta

from preflight.model.cluster import Cluster, Host
from preflight.model.rehearsal import Attendance, Blocked, How, Rehearsal, Taken, Visit
from preflight.probe.messages import Address
from preflight.probe.rehearsal_plan import Targets, ephemeral_count, listened, note, told, visits
from preflight.transport.programs import source
from preflight.transport.types import Channel, Program, Progress, Transport, TransportError

CONNECT = 20.0  # seconds for connecting to a host and for its Python to start
SOON, TIMES = 5.0, 3.0  # where most hosts listen, the others get this, or so many times the median
PATIENCE = 2.5  # seconds for one connection: the kernel sends its first packet again after one
PATIENCE_A_HOST = 0.001  # more for each of many hosts: they all come to the first one at the same time
VISITS = 15.0  # seconds for all of a host's connections
FAREWELL = 3.0  # seconds for hosts to free their ports
_TICK = 0.1
LONGEST = 1 << 20  # bytes of one line

OnProgress = Callable[[Progress], None]

_Text = Annotated[str, Meta(max_length=2000)]
_Word = Annotated[str, Meta(max_length=100)]
_Port = Annotated[int, Meta(ge=1, le=65535)]
_Pid = Annotated[int, Meta(ge=1, lt=1 << 31)]


class _Holder(msgspec.Struct, frozen=True):
    port: _Port
    listening: bool
    process: _Word
    pid: _Pid | None


class _Listening(msgspec.Struct, frozen=True, tag_field="at", tag="listening"):
    nonce: _Word
    address: Address
    ports: list[_Port]
    ephemeral: list[_Port]
    taken: list[_Holder]


class _Failed(msgspec.Struct, frozen=True, tag_field="at", tag="failed"):
    nonce: _Word
    error: _Text


class _Dead(msgspec.Struct, frozen=True):
    ports: list[_Port]
    how: How
    by: _Word
    error: _Text


class _Visited(msgspec.Struct, frozen=True, tag_field="at", tag="visited"):
    nonce: _Word
    visits: list[tuple[_Word, list[_Dead]]]


_Message = _Listening | _Failed | _Visited
_decoder = msgspec.json.Decoder(_Message)


@dataclass(frozen=True)
class _Gone:
    why: str


def rehearse(
    cluster: Cluster,
    hosts: Sequence[Host],
    transport: Transport,
    backend: str | None = None,
    progress: OnProgress | None = None,
    *,
    until: float = float("inf"),
) -> Rehearsal:
    """Have `hosts` listen, connect to each other and free their ports again; they are free when this returns.

    Runs where jobs run, and needs no torch there. Never raises for a host: one that takes no part says why in its
    attendance, and the others go on without it after at most `CONNECT` seconds; sooner where most others were fast.
    `until`: the moment of the monotonic clock at which hosts are told to free their ports, whatever they have said.
    """
    chosen = backend or cluster.probe.backend
    if len(hosts) < 2:
        return Rehearsal(chosen, (), ())
    with _Stage(cluster, hosts, transport, ephemeral_count(cluster, chosen)) as stage:
        return _Run(cluster, hosts, stage, progress or (lambda _: None), until).everything(chosen)


class _Run:
    def __init__(
        self, cluster: Cluster, hosts: Sequence[Host], stage: "_Stage", progress: OnProgress, until: float
    ) -> None:
        self._cluster, self._hosts, self._stage, self._progress = cluster, hosts, stage, progress
        self._until = until
        self._attending: dict[str, Attendance] = {}

    def everything(self, backend: str) -> Rehearsal:
        everybody = [host.name for host in self._hosts]
        for host, message in self._hear(everybody, CONNECT, "did not listen within {:.0f} s", soon=True).items():
            self._attending[host] = _attendance(host, message)
        there = [one for one in self._attending.values() if not one.error]
        planned = visits(self._cluster, there)
        patience = PATIENCE + PATIENCE_A_HOST * len(there)
        self._stage.send(
            {
                host: {"do": "visit", "targets": targets, "patience": patience, "seconds": VISITS}
                for host, targets in told(planned, there).items()
                if targets
            }
        )
        late = "did not say within {:.0f} s what came of its connections"
        asked = [host for host, targets in planned.items() if targets]
        seen: list[Visit] = []
        for host, message in self._hear(asked, VISITS + PATIENCE, late).items():
            if isinstance(message, _Visited):
                seen += _visits(host, planned[host], message)
            else:
                self._attending[host] = replace(self._attending[host], error=_why(message))
        attending = tuple(self._attending[host] for host in everybody)
        return Rehearsal(backend, attending, tuple(seen), note(self._cluster, len(there)))

    def _hear(
        self, hosts: Iterable[str], seconds: float, late: str, *, soon: bool = False
    ) -> dict[str, _Message | _Gone]:
        """One message of each host, or why there is none, in the order of `hosts`. With `soon`, those that take far
        longer than most are not waited for."""
        order = tuple(hosts)
        waiting, heard = dict.fromkeys(order), dict[str, _Message | _Gone]()
        begin, total, took = time.monotonic(), len(waiting), list[float]()
        seconds = min(seconds, max(0.0, self._until - begin))
        passed = 0.0
        while waiting and (passed := time.monotonic() - begin) < seconds:
            if soon and 2 * len(took) >= total:
                seconds = min(seconds, max(SOON, TIMES * statistics.median(took)))
            self._progress(
                Progress(len(heard), total, 0, next(iter(waiting)), passed, waiting_for="its ports", phase="ports")
            )
            for host, message in self._stage.said(_TICK):
                if host in waiting:
                    del waiting[host]
                    heard[host] = message
                    took.append(time.monotonic() - begin)
                elif isinstance(message, _Gone) and isinstance(heard.get(host), _Listening):
                    heard[host] = message  # it listens no more
        return {host: heard.get(host, _Gone(late.format(passed))) for host in order}


def _attendance(host: str, message: _Message | _Gone) -> Attendance:
    if not isinstance(message, _Listening):
        return Attendance(host, error=_why(message))
    taken = tuple(Taken(one.port, one.listening, one.process, one.pid) for one in message.taken)
    return Attendance(host, message.address, tuple(message.ports), tuple(message.ephemeral), taken)


def _why(message: _Message | _Gone) -> str:
    if isinstance(message, _Gone):
        return message.why
    return message.error if isinstance(message, _Failed) else "it said something else than it was asked"


def _visits(source: str, planned: Targets, message: _Visited) -> list[Visit]:
    """What the host was asked to try, with what it says came of it; other hosts and ports are its invention."""
    said = dict(message.visits)
    found = []
    for target, ports in planned.items():
        dead = [(one, tuple(port for port in one.ports if port in ports)) for one in said.get(target, [])]
        blocked = tuple(Blocked(kept, one.how, one.by, one.error) for one, kept in dead if kept)
        found.append(Visit(source, target, ports, blocked))
    return found


class _Stage:
    """The program on all hosts, started at once. Leaving the context ends it, and waits until the ports are free."""

    def __init__(self, cluster: Cluster, hosts: Sequence[Host], transport: Transport, ephemeral: bool) -> None:
        self._nonce = secrets.token_hex(16)
        self._transport = transport
        self._said: queue.Queue[tuple[str, _Message | _Gone]] = queue.Queue()
        self._channels: dict[str, Channel] = {}
        self._spoken: set[str] = set()  # hosts whose program has said that it runs
        self._lock = threading.Lock()
        self._closing = False
        text = source("rehearse", "agent.network", "agent.processes", "collect.connects", "collect.tools")
        word, probe = secrets.token_hex(32), cluster.probe
        self._threads = []
        for host in hosts:
            hello = {
                "nonce": self._nonce,
                "word": word,
                "name": host.name,
                "nic": host.nic,
                "address": host.address,
                "ports": listened(cluster),
                "ephemeral": ephemeral,
            }
            program = Program(
                text, json.dumps(hello).encode() + b"\n", probe.python, probe.setup, probe.wrapper, probe.user,
                isolated=False,
            )  # fmt: skip
            self._threads.append(
                threading.Thread(target=self._follow, args=(host, program), name=host.name, daemon=True)
            )

    def __enter__(self) -> "_Stage":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closing = True
            channels = dict(self._channels)
        self.send({host: {"do": "end"} for host in channels})
        until = time.monotonic() + FAREWELL
        for thread in self._threads:
            if thread.name in self._spoken:  # who never said anything holds no port, and may hang
                thread.join(max(0.0, until - time.monotonic()))
        for channel in channels.values():
            channel.close()

    def _follow(self, host: Host, program: Program) -> None:
        why = "the program that listens has ended"
        try:
            channel = self._transport.start(host, program, timeout=CONNECT)
            with self._lock:
                self._channels[host.name] = channel
                closing = self._closing
            if closing:
                channel.close()
            for line in channel.lines():
                if message := _read(line, self._nonce):
                    self._spoken.add(host.name)
                    self._said.put((host.name, message))
            trouble = channel.trouble()
            why = trouble.summary if trouble else _last_words(channel.stderr_tail()) or why
        except TransportError as error:
            why = error.summary
        except Exception as error:  # a thread that dies in silence would leave the others waiting
            why = f"{type(error).__name__}: {error}"
        finally:
            self._said.put((host.name, _Gone(why)))

    def said(self, timeout: float) -> list[tuple[str, _Message | _Gone]]:
        """All that hosts have said by now; waits up to `timeout` seconds for the first."""
        said = []
        with suppress(queue.Empty):
            said.append(self._said.get(timeout=timeout))
            while True:
                said.append(self._said.get_nowait())
        return said

    def send(self, commands: Mapping[str, Mapping[str, object]]) -> None:
        """Send each host its command. A host that is gone says so by itself."""
        for host, command in commands.items():
            with suppress(TransportError):
                self._channels[host].send(json.dumps(command).encode() + b"\n")


def _read(line: bytes, nonce: str) -> _Message | None:
    """What a line of a host says; None for anything else that it may print."""
    if len(line) > LONGEST or nonce.encode() not in line:
        return None
    try:
        message = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return message if message.nonce == nonce else None


def _last_words(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return f"the program that listens has ended: {lines[-1]}" if lines else ""
