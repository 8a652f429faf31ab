"""The port rehearsal before torch: hosts listen on the ports that the job will use, and connect to each other's."""

import json
import secrets
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
from msgspec import Meta

from preflight.model.cluster import Cluster, Host
from preflight.model.rehearsal import Attendance, Blocked, How, Rehearsal, Taken, Visit
from preflight.probe.lines import Gone, HostPrograms, ProgramKind, job_program, read
from preflight.probe.messages import Address, Event
from preflight.probe.rehearsal_plan import Targets, ephemeral_count, listening_ports, note, targets_to_send, visits
from preflight.transport.programs import source
from preflight.transport.types import Progress, Transport, TransportError

CONNECT = 20.0  # seconds for connecting to a host and for its Python to start
SOON, TIMES = 5.0, 3.0  # seconds; once most hosts listen, the others get this, or so many times the median
PATIENCE = 2.5  # seconds for one connection: the kernel sends its first packet again after one
PATIENCE_A_HOST = 0.001  # more for each host, since all connect to the first one at the same time
VISITS = 15.0  # seconds for all of a host's connections
_TICK = 0.1
LONGEST = 1 << 20  # bytes of one line

OnProgress = Callable[[Progress], None]

_Text = Annotated[str, Meta(max_length=2000)]
_Word = Annotated[str, Meta(max_length=100)]
_Port = Annotated[int, Meta(ge=1, le=65535)]
_Pid = Annotated[int, Meta(ge=1, lt=1 << 31)]

# Parts of preflight/remote in the text that is sent.
REHEARSAL_PARTS = ("rehearse", "agent.network", "agent.processes", "collect.connects", "collect.tools")


class _Holder(msgspec.Struct, frozen=True):
    port: _Port
    listening: bool
    process: _Word
    pid: _Pid | None


class _Listening(Event, frozen=True, tag="listening"):
    address: Address
    ports: list[_Port]
    ephemeral: list[_Port]
    taken: list[_Holder]


class _Failed(Event, frozen=True, tag="failed"):
    error: _Text


class _Dead(msgspec.Struct, frozen=True):
    ports: list[_Port]
    how: How
    by: _Word
    error: _Text


class _Visited(Event, frozen=True, tag="visited"):
    visits: list[tuple[_Word, list[_Dead]]]


_Message = _Listening | _Failed | _Visited
_decoder: msgspec.json.Decoder[_Message] = msgspec.json.Decoder(_Message)


@dataclass(frozen=True)
class RehearsalRequest:
    """Hosts of a port rehearsal. `backend` decides whether ports that the kernel chooses have to be open, too."""

    cluster: Cluster
    hosts: Sequence[Host]
    backend: str


def rehearse(
    request: RehearsalRequest,
    transport: Transport,
    progress: OnProgress = lambda _: None,
    *,
    until: float = float("inf"),
) -> Rehearsal:
    """Have hosts listen, connect to each other, and free their ports again. They are free when this returns.

    Runs where jobs run, and needs no torch there. Never raises for a host. A host that takes no part reports why in its
    attendance, and the others go on without it after at most `CONNECT` seconds, or sooner if most others were fast.
    `until`: the moment of the monotonic clock at which hosts have to free their ports, whatever they have reported.
    """
    cluster, hosts, backend = request.cluster, request.hosts, request.backend
    if len(hosts) < 2:
        return Rehearsal(backend, (), ())
    with _Listeners(cluster, hosts, transport, ephemeral_count(cluster, backend)) as programs:
        return _RehearsalRun(request, programs, progress, until).play()


class _RehearsalRun:
    def __init__(self, request: RehearsalRequest, programs: "_Listeners", progress: OnProgress, until: float) -> None:
        self._request, self._programs, self._progress, self._until = request, programs, progress, until
        self._attending: dict[str, Attendance] = {}

    def play(self) -> Rehearsal:
        cluster = self._request.cluster
        names = [host.name for host in self._request.hosts]
        for host, message in self._hear(names, CONNECT, "the host did not listen within {:.0f} s", soon=True).items():
            self._attending[host] = _attendance(host, message)
        present = [attendance for attendance in self._attending.values() if not attendance.error]
        planned_visits = visits(cluster, present)
        self._start_visits(planned_visits, present)
        results = self._collect_visits(planned_visits)
        attending = tuple(self._attending[host] for host in names)
        return Rehearsal(self._request.backend, attending, results, note(cluster, len(present)))

    def _start_visits(self, planned_visits: Mapping[str, Targets], present: Sequence[Attendance]) -> None:
        patience = PATIENCE + PATIENCE_A_HOST * len(present)
        self._programs.send(
            {
                host: {"do": "visit", "targets": targets, "patience": patience, "seconds": VISITS}
                for host, targets in targets_to_send(planned_visits, present).items()
                if targets
            }
        )

    def _collect_visits(self, planned_visits: Mapping[str, Targets]) -> tuple[Visit, ...]:
        late = "the host did not report its connections within {:.0f} s"
        visitors = [host for host, targets in planned_visits.items() if targets]
        results: list[Visit] = []
        for host, message in self._hear(visitors, VISITS + PATIENCE, late).items():
            if isinstance(message, _Visited):
                results += _visits(host, planned_visits[host], message)
            else:
                self._attending[host] = replace(self._attending[host], error=_error(message))
        return tuple(results)

    def _hear(
        self, hosts: Iterable[str], seconds: float, late: str, *, soon: bool = False
    ) -> dict[str, _Message | Gone]:
        """Return one message of each host, or why there is none, in the order of `hosts`.

        `soon`: do not wait for hosts that take far longer than most.
        """
        order = tuple(hosts)
        waiting, replies = dict.fromkeys(order), dict[str, _Message | Gone]()
        begin, total, durations = time.monotonic(), len(waiting), list[float]()
        seconds = min(seconds, max(0.0, self._until - begin))
        seconds_passed = 0.0
        while waiting and (seconds_passed := time.monotonic() - begin) < seconds:
            if soon and 2 * len(durations) >= total:
                seconds = min(seconds, max(SOON, TIMES * statistics.median(durations)))
            self._progress(
                Progress(
                    len(replies), total, 0, next(iter(waiting)), seconds_passed, waiting_for="its ports", phase="ports"
                )
            )
            for reply in self._programs.receive(_TICK):
                host, message = reply.host, reply.message
                if host in waiting:
                    del waiting[host]
                    replies[host] = message
                    durations.append(time.monotonic() - begin)
                elif isinstance(message, Gone) and isinstance(replies.get(host), _Listening):
                    replies[host] = message  # it no longer listens
        return {host: replies.get(host, Gone(late.format(seconds_passed))) for host in order}


def _attendance(host: str, message: _Message | Gone) -> Attendance:
    if not isinstance(message, _Listening):
        return Attendance(host, error=_error(message))
    held = tuple(Taken(holder.port, holder.listening, holder.process, holder.pid) for holder in message.taken)
    return Attendance(host, message.address, tuple(message.ports), tuple(message.ephemeral), held)


def _error(message: _Message | Gone) -> str:
    if isinstance(message, Gone):
        return message.why
    return message.error if isinstance(message, _Failed) else "the host sent an unexpected message"


def _visits(source: str, planned: Targets, message: _Visited) -> list[Visit]:
    """Return the visits that a host had to make, with its results. Other hosts and ports are its invention."""
    results = dict(message.visits)
    visits = []
    for target, ports in planned.items():
        failures = [
            (failure, tuple(port for port in failure.ports if port in ports)) for failure in results.get(target, [])
        ]
        blocked = tuple(
            Blocked(failed_ports, failure.how, failure.by, failure.error)
            for failure, failed_ports in failures
            if failed_ports
        )
        visits.append(Visit(source, target, ports, blocked))
    return visits


class _Listeners:
    """The program on all hosts, started at once. Leaving the context ends it, and waits until the ports are free."""

    def __init__(self, cluster: Cluster, hosts: Sequence[Host], transport: Transport, ephemeral: bool) -> None:
        nonce, word = secrets.token_hex(16), secrets.token_hex(32)
        text = source(*REHEARSAL_PARTS)
        programs = []
        for host in hosts:
            hello = {
                "nonce": nonce,
                "word": word,
                "name": host.name,
                "nic": host.nic,
                "address": host.address,
                "ports": listening_ports(cluster),
                "ephemeral": ephemeral,
            }
            program = job_program(cluster.probe, text, json.dumps(hello).encode() + b"\n")
            programs.append((host, program))
        kind: ProgramKind[_Message] = ProgramKind(
            lambda line: read(line, nonce, _decoder, LONGEST), "its listener", CONNECT
        )
        self._programs = HostPrograms(transport, programs, kind)
        self.receive = self._programs.receive

    def __enter__(self) -> "_Listeners":
        self._programs.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._programs.end(lambda hosts: self.send({host: {"do": "end"} for host in hosts}))

    def send(self, commands: Mapping[str, Mapping[str, object]]) -> None:
        """Send each host its command. A host that is gone is reported separately."""
        for host, command in commands.items():
            channel = self._programs.channel(host)
            with suppress(TransportError):
                if channel:
                    channel.send(json.dumps(command).encode() + b"\n")
