"""Agents of one run: one on each host, started by a launcher, which exchange lines of JSON with the run.

All that they need is a `Launcher`. The transports are launchers. So is any program that starts one process on each host
and keeps its stdin and stdout (docs/probe.md, "Launchers").
"""

import getpass
import json
import queue
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from preflight.model.cluster import Cluster, Host
from preflight.probe.lines import HostMessage, HostPrograms, Launcher, ProgramKind, job_program, printed
from preflight.probe.messages import Message, read
from preflight.probe.timeouts.deadlines import VARIABLES
from preflight.transport.programs import source
from preflight.transport.types import Channel, Program, TransportError

CONNECT = 30.0  # seconds for connecting to a host, the transport's own limits included
BEAT = 2.0  # seconds between two signs of life to an agent
SILENCE = 20.0  # seconds without a sign of life until an agent ends itself and all that it started
PATIENCE = 90.0  # seconds until an agent that is not ready ends itself: the run gave it up long before

AGENT_PARTS = ("agent", "worker", "collect.tools")  # of preflight/remote, in the text that is sent


@dataclass(frozen=True)
class ProbeWorkload:
    """Backend of the workers' tests. `trains`: a training step will be done."""

    backend: str
    trains: bool = False


class Agents:
    """Agents of all hosts, started at once.

    Leaving the context ends them and everything they started. They are asked first, so that ports and devices are free
    afterwards. Then their connections are dropped, which agents understand, too.

    Each host has two threads, so that a host that stands still holds up no other. One listens to the agent, the other
    sends it commands, and a sign of life every `BEAT` seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        hosts: Sequence[Host],
        launcher: Launcher,
        workload: ProbeWorkload,
        ports_free: Callable[[], object] | None = None,
    ) -> None:
        """Prepare the agents.

        `ports_free` returns when agents may bind the job's ports. Until then they import torch.
        """
        self._ports_free = ports_free or (lambda: None)
        self._orders: dict[str, queue.SimpleQueue[bytes]] = {host.name: queue.SimpleQueue() for host in hosts}
        nonce, text = secrets.token_hex(16), source(*AGENT_PARTS)
        programs = [(host, _program(cluster, host, text, nonce, workload)) for host in hosts]
        kind: ProgramKind[Message] = ProgramKind(partial(read, nonce=nonce), "its agent", CONNECT)
        self._programs: HostPrograms[Message] = HostPrograms(launcher, programs, kind, self._begin)

    def __enter__(self) -> Self:
        self._programs.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._programs.end(None if kind else lambda hosts: self.send({host: [{"do": "end"}] for host in hosts}))

    def _begin(self, host: str, channel: Channel) -> None:
        threading.Thread(target=self._send_orders, args=(host, channel), daemon=True).start()

    def _send_orders(self, host: str, channel: Channel) -> None:
        """Send commands to a host, in its second thread.

        The first thread notices when the agent no longer listens. This one ends with the next sign of life that cannot
        be sent.
        """
        with suppress(Exception):  # another caller waits for it, too, and gets the error
            self._ports_free()
        with suppress(TransportError):
            channel.send(b"go\n")
            while True:
                try:
                    order = self._orders[host].get(timeout=BEAT)
                except queue.Empty:
                    order = b"\n"
                channel.send(order)

    def receive(self, timeout: float) -> list[HostMessage[Message]]:
        """Return all messages of hosts so far, in order. Wait up to `timeout` seconds for the first."""
        return self._programs.receive(timeout)

    def printed(self, host: str) -> list[str]:
        """Return the last lines on stderr of a host, from the setup line, Python and torch. The agent writes none."""
        channel = self._programs.channel(host)
        return printed(channel)[-3:] if channel else []

    def send(self, commands: Mapping[str, Sequence[Mapping[str, object]]]) -> None:
        """Send each host its commands. A host that is gone is reported separately, as `Gone`."""
        for host, lines in commands.items():
            self._orders[host].put(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def _program(cluster: Cluster, host: Host, text: str, nonce: str, workload: ProbeWorkload) -> Program:
    probe = cluster.probe
    hello = {
        "nonce": nonce,
        "by": _owner(),
        "silence": SILENCE,
        "patience": PATIENCE,
        "devices": [device.index for device in host.devices],
        "backend": workload.backend,
        "transport": probe.transport,
        "trains": workload.trains,
        "nic": host.nic,
        "address": host.address,
        "base_port": cluster.hccl_ports.ranges[0][0] if cluster.hccl_ports else 0,
        "host_range": cluster.hccl_host_range,
        "variables": VARIABLES,
        "store_ports": _store_ports(cluster),
    }
    return job_program(probe, text, json.dumps(hello).encode() + b"\n")


def _owner() -> str:
    """Return user and host of this run, for other users to read. Some containers have no name for their user."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return socket.gethostname()


def _store_ports(cluster: Cluster) -> list[int]:
    """Return the ports on which an agent may serve its store.

    They are the jobs' own ports, the master's first, unless rank 0 needs that itself.
    """
    ports = list(dict.fromkeys((*cluster.port_names, *cluster.job_ports)))
    return ports[1 if cluster.probe.init in ("env", "tcp") else 0 :][:16]
