"""The ssh servers of a fleet: one for each simulated host, on a loopback address of its own."""

import asyncio
import json
import re
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import asyncssh

from preflight.lab.fleet.answers import FleetAnswers
from preflight.lab.fleet.spec import SimulatedHost

_SOURCE_LENGTH = re.compile(r"stdin\.buffer\.read\((\d+)\)")
_SLOW = 0.01  # seconds between two bytes
_ANSIBLE = b"AnsiballZ"  # in the text of its modules
_ONLY_FACTS = b"a simulated host answers only the collector\n"
_NOISE = bytes(range(256)) * 64
_BACKLOG = 256

OnReady = Callable[[], None]


async def serve(
    hosts: Sequence[tuple[SimulatedHost, asyncssh.SSHKey]],
    users: asyncssh.SSHAuthorizedKeys,
    port: int,
    answers: FleetAnswers,
    on_ready: OnReady,
) -> None:
    """Serve all hosts, each with its own key, until SIGINT or SIGTERM. `users` may log in everywhere."""
    held = [listener for host, key in hosts if (listener := await _listen(host, key, users, port, answers)) is not None]
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    on_ready()
    await stopped.wait()
    for listener in held:
        listener.close()


async def _listen(
    host: SimulatedHost,
    key: asyncssh.SSHKey,
    users: asyncssh.SSHAuthorizedKeys,
    port: int,
    answers: FleetAnswers,
) -> "asyncio.Server | asyncssh.SSHAcceptor | _FullQueue | None":
    match host.behaviour:
        case "refuse":
            return None
        case "dead":
            return _FullQueue(host.address, port)
        case "hang":
            return await asyncio.start_server(_hang, host.address, port, backlog=_BACKLOG)
        case _:
            return await asyncssh.listen(
                host.address,
                port,
                server_host_keys=[key],
                authorized_client_keys=users,
                process_factory=partial(_run, host, answers),
                encoding=None,
                backlog=_BACKLOG,
                compression_algs=None,
            )


class _FullQueue:
    """A socket at which connections time out: its queue is full, so the kernel drops their first packet."""

    def __init__(self, address: str, port: int) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(0)
        self._sockets = [listener]
        for _ in range(2):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((address, port))
            self._sockets.append(filler)

    def close(self) -> None:
        for held in self._sockets:
            held.close()


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await reader.read()  # until the other side hangs up
    writer.close()


async def _run(host: SimulatedHost, answers: FleetAnswers, process: "asyncssh.SSHServerProcess[bytes]") -> None:
    """Read a program and its input, wait, and answer."""
    with suppress(asyncssh.Error, OSError, asyncio.CancelledError):
        data = await process.stdin.read()
        await asyncio.sleep(host.think)
        match host.behaviour:
            case "stall":
                await process.wait_closed()
            case "garbage":
                process.stdout.write(_NOISE)
            case "slow":
                for byte in _answer(host, answers, process.command or "", data):
                    process.stdout.write(bytes([byte]))
                    await asyncio.sleep(_SLOW)
            case _:
                process.stdout.write(_answer(host, answers, process.command or "", data))
        process.exit(0)


def _answer(host: SimulatedHost, answers: FleetAnswers, command: str, data: bytes) -> bytes:
    """Return the output of a command. Beside the collector, a host knows what Ansible's ping runs with pipelining."""
    if match := _SOURCE_LENGTH.search(command):
        request = json.loads(data[int(match.group(1)) :])
        return answers.answer(host, request, time.time()).encode() if "deadlines" in request else _ONLY_FACTS
    return b'{"changed": false, "ping": "pong"}\n' if _ANSIBLE in data else b""
