"""Agents of a thousand hosts that are simulated in one process: no host, no device, no torch.

They speak the protocol of `preflight/remote/agent/main.py` over a socket for each host. Faults are given by device.
"""

import json
import os
import selectors
import signal
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from preflight.model.cluster import Host
from preflight.transport.types import ErrorKind, Program, TransportError

Place = tuple[str, int]  # host, device
Fault = Literal["hangs", "slow", "wrong", "breaks"]
_ALONE = ("torch", "backend", "device")
_RATE = 10e9  # bytes a second
_SLOWER = 10  # times
_PIECE = 1 << 20


@dataclass
class _Group:
    """A group of ranks, of which some hosts may not have been started yet."""

    command: Mapping[str, Any]
    members: dict[int, Place] = field(default_factory=dict)  # by rank
    granted: int = 0

    @property
    def is_complete(self) -> bool:
        return len(self.members) == int(self.command["size"])


class Simulation:
    """The simulated agents' side of the sockets."""

    def __init__(self, faults: Mapping[Place, Fault]) -> None:
        self._faults = faults
        self._nonces: dict[str, str] = {}
        self._groups: dict[str, _Group] = {}

    def answers(self, host: str, line: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events that a line of a host's stdin leads to, each with its host."""
        if line == b"go":
            yield host, {"at": "python"}
            address = f"10.{len(self._nonces) >> 8 & 255}.{len(self._nonces) & 255}.1"
            yield host, {"at": "ready", "torch": "2.13.0", "nic": "eth0", "address": address, "store": 4711,
                         "cores": 64, "variables": {}}  # fmt: skip
            return
        if not line:
            return
        command = json.loads(line)
        if "nonce" in command:
            self._nonces[host] = command["nonce"]
            return
        match command["do"]:
            case "start":
                yield from self._start(host, command)
            case "go":
                group = self._groups[command["group"]]
                if host == group.members[0][0]:  # each of its hosts gets the order
                    yield from self._test(group, group.granted)
                    group.granted += 1
                    if group.granted == len(group.command["tests"]):
                        yield from self._close(group)
            case "stop":
                yield from self._stop(host, command["group"])
            case "settle":
                yield host, {"at": "settled", "held": [], "error": ""}

    def line(self, host: str, event: Mapping[str, Any]) -> bytes:
        return json.dumps({**event, "nonce": self._nonces[host]}).encode() + b"\n"

    def _start(self, host: str, command: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        group = self._groups.setdefault(command["group"], _Group(command))
        for worker in command["workers"]:
            group.members[worker["rank"]] = (host, worker["device"])
        if not group.is_complete:
            return
        for stage in ("spawned", *_ALONE):
            yield from self._all(group, {"at": "stage", "stage": stage})
        if command["meets"]:
            for stage in ("store", "peers"):
                yield from self._all(group, {"at": "stage", "stage": stage})
            if "hangs" in self._of(group):
                return
            yield from self._all(group, {"at": "stage", "stage": "communicator"})
        if not command["wait"]:
            for number in range(len(command["tests"])):
                yield from self._test(group, number)
            yield from self._close(group)

    def _of(self, group: _Group) -> set[Fault]:
        return {self._faults[place] for place in group.members.values() if place in self._faults}

    def _all(self, group: _Group, event: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        for rank, (host, _) in group.members.items():
            yield host, {**event, "group": group.command["group"], "rank": rank}

    def _test(self, group: _Group, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
        test, faults = group.command["tests"][number], self._of(group)
        seconds = (5e-5 + test["bytes"] / _RATE) * (_SLOWER if "slow" in faults and test["bytes"] >= _PIECE else 1)
        is_wrong = bool(group.command["meets"]) and "wrong" in faults
        result = {"at": "result", "test": number, "seconds": [seconds] * test["iterations"], "wrong": int(is_wrong),
                  "first": "index 0: found 1, expected 2" if is_wrong else "", "suspect": None}  # fmt: skip
        yield from self._all(group, {"at": "enter", "test": number})
        yield from self._all(group, result)

    def _close(self, group: _Group) -> Iterator[tuple[str, dict[str, Any]]]:
        yield from self._all(group, {"at": "stage", "stage": "closed"})
        yield from self._all(group, {"at": "end", "end": "closed", "error": "", "state": "", "printed": ""})

    def _stop(self, host: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        group = self._groups[name]
        for rank, (own, _) in group.members.items():
            if own == host:
                event = {"group": name, "rank": rank, "end": "stopped", "state": "S"}
                yield host, {**event, "at": "killed", "connecting": []}
                yield host, {**event, "at": "end", "error": "", "printed": ""}


class SimulatedAgents:
    """A launcher whose hosts are simulated in a child process."""

    def __init__(self, hosts: Sequence[Host], faults: Mapping[Place, Fault]) -> None:
        pairs = {host.name: socket.socketpair() for host in hosts}
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _serve({name: theirs for name, (_, theirs) in pairs.items()}, Simulation(faults))
            finally:
                os._exit(0)
        self._channels = {name: SocketChannel(ours) for name, (ours, _) in pairs.items()}
        for _, theirs in pairs.values():
            theirs.close()

    def start(self, host: Host, program: Program, *, timeout: float) -> "SocketChannel":  # noqa: ARG002
        channel = self._channels[host.name]
        channel.send(program.payload)
        return channel

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class SocketChannel:
    """The controller's end of one agent."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except OSError:
            raise TransportError(ErrorKind.CLOSED, "the simulated agent has ended", "run the benchmark again") from None

    def lines(self) -> Iterator[bytes]:
        with self._connection.makefile("rb") as stream:
            for line in stream:
                yield line.rstrip(b"\n")

    def stderr_tail(self) -> bytes:
        return b""

    def error(self) -> None:
        return None

    def close(self) -> None:
        with suppress(OSError):  # it has been closed before
            self._connection.shutdown(socket.SHUT_RDWR)


def _serve(connections: Mapping[str, socket.socket], simulation: Simulation) -> None:
    """Answer all connections until the process is killed. Output waits for its reader as that of a pipe does."""
    selector = selectors.DefaultSelector()
    unread: dict[str, bytes] = defaultdict(bytes)
    for name, listening in connections.items():
        selector.register(listening, selectors.EVENT_READ, name)
    while selector.get_map():
        for key, _ in selector.select():
            connection: Any = key.fileobj
            data = connection.recv(1 << 20)
            if not data:
                selector.unregister(connection)
                continue
            *lines, unread[key.data] = (unread[key.data] + data).split(b"\n")
            output: dict[str, bytearray] = defaultdict(bytearray)
            for line in lines:
                for host, event in simulation.answers(key.data, line):
                    output[host] += simulation.line(host, event)
            for receiver, text in output.items():
                connections[receiver].sendall(text)
