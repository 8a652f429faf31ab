"""The agents of one run: one a host, started by a launcher, talked to in lines of JSON.

What they need of a launcher is `Launcher` alone: the transports are launchers, and so is whatever starts one process a
host and keeps its stdin and stdout (docs/probe.md, "Launchers").
"""

import getpass
import json
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from preflight.model.cluster import Cluster, Host
from preflight.probe.messages import Message, read
from preflight.probe.patience import VARIABLES
from preflight.transport.programs import source
from preflight.transport.types import Channel, Program, TransportError

CONNECT = 30.0  # seconds for connecting to a host, of which the transport's own limits are a part
FAREWELL = 3.0  # seconds for agents to end what they started
BEAT = 2.0  # seconds between two signs of life to an agent
SILENCE = 20.0  # seconds without one after which an agent ends itself, and everything it started
PATIENCE = 90.0  # seconds after which an agent ends that is not ready: the run has given it up long ago
BATCH = 1000  # messages taken at once: the clock is looked at in between


class Launcher(Protocol):
    """Starts a program on a host. Thread-safe."""

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        """Start `program` and return at once; `timeout` bounds connecting only. Raises TransportError."""


@dataclass(frozen=True)
class Gone:
    """The agent's channel has ended, or never began."""

    why: str


@dataclass(frozen=True)
class Said:
    host: str
    message: Message | Gone


class Agents:
    """Starts all agents at once. Leaving the context ends them and everything they started: at first by asking, so
    that ports and devices are free afterwards, then by dropping the connection, which agents understand, too.

    Each host has two threads, so that one that stands still holds up no other: one listens to it, the other passes on
    what it is told, and a sign of life every `BEAT` seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        hosts: Sequence[Host],
        launcher: Launcher,
        backend: str,
        ports_free: Callable[[], object] | None = None,
        trains: bool = False,
    ) -> None:
        """`ports_free` returns when agents may bind the job's ports; until then they have torch to import. `trains`: a
        training step will be done."""
        self._ports_free = ports_free or (lambda: None)
        self._nonce = secrets.token_hex(16)
        self._launcher = launcher
        self._orders: dict[str, queue.SimpleQueue[bytes | None]] = {host.name: queue.SimpleQueue() for host in hosts}
        self._said: queue.Queue[Said] = queue.Queue(maxsize=10_000)
        self._channels: dict[str, Channel] = {}
        self._lock = threading.Lock()
        self._closing = False
        agent = source("agent", "worker")
        probe = cluster.probe
        self._threads = []
        for host in hosts:
            hello = {
                "nonce": self._nonce,
                "by": _owner(),
                "silence": SILENCE,
                "patience": PATIENCE,
                "devices": [device.index for device in host.devices],
                "backend": backend,
                "trains": trains,
                "nic": host.nic,
                "address": host.address,
                "base_port": cluster.hccl_ports.ranges[0][0] if cluster.hccl_ports else 0,
                "host_range": cluster.hccl_host_range,
                "variables": VARIABLES,
                "store_ports": _store_ports(cluster),
            }
            program = Program(
                source=agent,
                payload=json.dumps(hello).encode() + b"\n",
                python=probe.python,
                setup=probe.setup,
                wrapper=probe.wrapper,
                user=probe.user,
                isolated=False,  # the jobs' own packages, wherever they come from
            )
            self._threads.append(threading.Thread(target=self._follow, args=(host, program), daemon=True))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closing = True
            channels = dict(self._channels)
        if kind is None:
            self.send({host: [{"do": "end"}] for host in channels})
            until = time.monotonic() + FAREWELL
            for thread in self._threads:
                thread.join(max(0.0, until - time.monotonic()))
        for channel in channels.values():
            channel.close()

    def _follow(self, host: Host, program: Program) -> None:
        """A host's first thread: connect, then pass on what the agent says until its channel ends."""
        why = "its agent has ended"
        try:
            channel = self._launcher.start(host, program, timeout=CONNECT)
            with self._lock:
                self._channels[host.name] = channel
                closing = self._closing
            if closing:
                channel.close()
            threading.Thread(target=self._talk, args=(host, channel), daemon=True).start()
            for line in channel.lines():
                message = read(line, self._nonce)
                if message is not None:
                    self._said.put(Said(host.name, message))
            trouble = channel.trouble()
            why = trouble.summary if trouble else _last_words(channel.stderr_tail()) or why
        except TransportError as error:
            why = error.summary
        except Exception as error:  # a thread that dies in silence would leave the run waiting
            why = f"{type(error).__name__}: {error}"
        finally:
            self._orders[host.name].put(None)
            if not self._closing:
                self._said.put(Said(host.name, Gone(why)))

    def _talk(self, host: Host, channel: Channel) -> None:
        """A host's second thread. That nobody listens any more is found by the first one."""
        with suppress(Exception):  # who waits for it, too, hears of it
            self._ports_free()
        with suppress(TransportError):
            channel.send(b"go\n")
            while True:
                try:
                    order = self._orders[host.name].get(timeout=BEAT)
                except queue.Empty:
                    order = b"\n"
                if order is None:
                    return
                channel.send(order)

    def said(self, timeout: float) -> list[Said]:
        """All that hosts have said by now, in order; waits up to `timeout` seconds for the first. At most `BATCH`."""
        said: list[Said] = []
        with suppress(queue.Empty):
            said.append(self._said.get(timeout=timeout))
            while len(said) < BATCH:
                said.append(self._said.get_nowait())
        return said

    def printed(self, host: str) -> list[str]:
        """The last lines on stderr of the host: the setup line's, Python's and torch's. The agent itself has none."""
        channel = self._channels.get(host)
        lines = channel.stderr_tail().decode("utf-8", "replace").splitlines() if channel else []
        return [line for line in lines if line.strip()][-3:]

    def send(self, commands: Mapping[str, Sequence[Mapping[str, object]]]) -> None:
        """Send each host its commands. A host that is gone says so by itself, as `Gone`."""
        for host, lines in commands.items():
            self._orders[host].put(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def _owner() -> str:
    """Who runs this, for others to read; some containers have no name for their user."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return socket.gethostname()


def _store_ports(cluster: Cluster) -> list[int]:
    """Where an agent may serve its store: the jobs' own ports, the master's first, unless rank 0 needs that itself."""
    ports = list(dict.fromkeys((*cluster.port_names, *cluster.job_ports)))
    return ports[1 if cluster.probe.init in ("env", "tcp") else 0 :][:16]


def _last_words(stderr: bytes) -> str:
    """The last line of stderr: where a Python that could not run the agent says why."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return f"its agent has ended: {lines[-1]}" if lines else ""
