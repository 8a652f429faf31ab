"""This machine as a host: no ssh, the same command line, the same interface."""

import time
import weakref

from preflight.model.cluster import Host
from preflight.transport import bootstrap, process, troubles
from preflight.transport.attempt import waiting_for
from preflight.transport.process import Process, ProcessChannel
from preflight.transport.troubles import Place
from preflight.transport.types import Answer, Program

_GRACE = 3.0  # seconds an agent has to stop its workers after the end of its stdin


class LocalTransport:
    """See `preflight.transport.types.Transport`."""

    def __init__(self) -> None:
        self._agents: weakref.WeakSet[ProcessChannel] = weakref.WeakSet()

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        started = time.monotonic()
        sudo = host.ssh.sudo
        place = _place(host)
        waiting_for("the program")
        data = bootstrap.source_bytes(program) + program.payload
        try:
            answer = process.run(_shell(program, sudo=sudo), data, started=started, timeout=timeout, limit=limit)
        except TimeoutError:
            raise troubles.timed_out(place, timeout, "the program") from None
        error = bootstrap.not_started(
            place, program, sudo=sudo, status=answer.exit, stdout=answer.stdout, stderr=answer.stderr
        )
        if error:
            raise error
        return answer

    def start(self, host: Host, program: Program, *, timeout: float) -> ProcessChannel:  # noqa: ARG002
        place = _place(host)
        agent = ProcessChannel(
            _shell(program, sudo=host.ssh.sudo),
            place,
            grace=_GRACE,
            explain=lambda status, stderr: bootstrap.not_started(
                place, program, sudo=host.ssh.sudo, status=status, stdout=b"", stderr=stderr
            ),
        )
        self._agents.add(agent)
        agent.begin(bootstrap.source_bytes(program) + program.payload)
        return agent

    def close(self) -> None:
        for agent in tuple(self._agents):
            agent.close()


def _place(host: Host) -> Place:
    return Place(host.name, "this machine")


def _shell(program: Program, *, sudo: bool) -> Process:
    return Process(("sh", "-c", bootstrap.command_line(program, sudo=sudo)))
