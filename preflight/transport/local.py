"""Transport to this machine: no ssh, but the same command line and the same interface."""

import time
import weakref

from preflight.model.cluster import Host
from preflight.transport import attempt, errors, process
from preflight.transport.attempt import waiting_for
from preflight.transport.bootstrap import Call
from preflight.transport.errors import Target
from preflight.transport.process import PipedProcess, ProcessChannel
from preflight.transport.types import Answer, Options, Program

_GRACE = 3.0  # seconds an agent has to stop its workers after the end of its stdin


class LocalTransport:
    """`Transport` to this machine."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._agents: weakref.WeakSet[ProcessChannel] = weakref.WeakSet()

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        started = time.monotonic()
        call = self._call(host, program)
        waiting_for("the program")
        try:
            answer = process.run(_shell(call), call, started=started, timeout=timeout, limit=limit)
        except TimeoutError:
            raise errors.timed_out(call.target, timeout, attempt.current().waiting_for) from None
        error = call.error(answer.exit, answer.stdout, answer.stderr)
        if error:
            raise error
        return answer

    def start(self, host: Host, program: Program, *, timeout: float) -> ProcessChannel:
        call = self._call(host, program)
        agent = ProcessChannel(_shell(call), call, grace=_GRACE)
        self._agents.add(agent)
        try:
            agent.begin(time.monotonic() + timeout)
        except BaseException as error:
            agent.close()
            if isinstance(error, TimeoutError):
                raise errors.timed_out(call.target, timeout, attempt.current().waiting_for) from None
            raise
        return agent

    def _call(self, host: Host, program: Program) -> Call:
        target = Target(host.name, "this machine")
        return Call(target, program, sudo=host.ssh.sudo, password=self._options.sudo_password)

    def close(self) -> None:
        for agent in tuple(self._agents):
            agent.close()


def _shell(call: Call) -> PipedProcess:
    return PipedProcess(("sh", "-c", call.command))
