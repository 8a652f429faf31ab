"""The agents of one run: one a host, started over the transport, talked to in lines of JSON."""

import json
import queue
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from preflight.model.cluster import Cluster, Host
from preflight.probe.messages import Message, read
from preflight.probe.patience import VARIABLES
from preflight.transport.programs import source
from preflight.transport.types import Channel, Program, Transport, TransportError

CONNECT = 30.0  # seconds for connecting to a host, of which the transport's own limits are a part
FAREWELL = 3.0  # seconds for agents to end what they started
BATCH = 1000  # messages taken at once: the clock is looked at in between


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
    that ports and devices are free afterwards, then by dropping the connection, which agents understand, too."""

    def __init__(self, cluster: Cluster, hosts: Sequence[Host], transport: Transport, backend: str) -> None:
        self._nonce = secrets.token_hex(16)
        self._transport = transport
        self._said: queue.Queue[Said] = queue.Queue(maxsize=10_000)
        self._channels: dict[str, Channel] = {}
        self._lock = threading.Lock()
        self._closing = False
        agent, worker = source("agent"), source("worker")
        probe = cluster.probe
        self._threads = []
        for host in hosts:
            hello = {
                "nonce": self._nonce,
                "worker": worker,
                "backend": backend,
                "nic": host.nic,
                "address": host.address,
                "base_port": cluster.hccl_ports.ranges[0][0] if cluster.hccl_ports else 0,
                "host_range": cluster.hccl_host_range,
                "variables": VARIABLES,
                "store_ports": list(dict.fromkeys((*cluster.port_names, *cluster.job_ports)))[:16],
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
        """One host's thread: connect, then pass on what the agent says until its channel ends."""
        why = "its agent has ended"
        try:
            channel = self._transport.start(host, program, timeout=CONNECT)
            with self._lock:
                self._channels[host.name] = channel
                closing = self._closing
            if closing:
                channel.close()
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
            if not self._closing:
                self._said.put(Said(host.name, Gone(why)))

    def said(self, timeout: float) -> list[Said]:
        """All that hosts have said by now, in order; waits up to `timeout` seconds for the first. At most `BATCH`."""
        said: list[Said] = []
        with suppress(queue.Empty):
            said.append(self._said.get(timeout=timeout))
            while len(said) < BATCH:
                said.append(self._said.get_nowait())
        return said

    def send(self, commands: Mapping[str, Sequence[Mapping[str, object]]]) -> None:
        """Send each host its commands. A host that is gone says so by itself, as `Gone`."""
        for host, lines in commands.items():
            try:
                self._channels[host].send(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            except TransportError:
                continue


def _last_words(stderr: bytes) -> str:
    """The last line of stderr: where a Python that could not run the agent says why."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return f"its agent has ended: {lines[-1]}" if lines else ""
