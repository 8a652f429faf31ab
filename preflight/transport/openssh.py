"""Transport through the system's ssh, for sites with host certificates, Kerberos, ProxyCommand or Include."""

import tempfile
import time
import weakref
from itertools import count
from pathlib import Path

from preflight.model.cluster import Host
from preflight.model.errors import UsageError
from preflight.transport import errors, process, ssh_log
from preflight.transport.attempt import current, waiting_for
from preflight.transport.bootstrap import Call
from preflight.transport.errors import Target
from preflight.transport.process import PipedProcess, ProcessChannel
from preflight.transport.retry import once_more
from preflight.transport.ssh_command import ssh_argv
from preflight.transport.types import Answer, Options, Program, TransportError

_POLL = 0.02  # seconds between two checks of ssh's log for the login
_SSH_FAILED = 255


class OpensshTransport:
    """`Transport` through one process of the system's ssh for each program."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._directory = tempfile.TemporaryDirectory(prefix="preflight-ssh-")
        self._numbers = count()
        self._agents: weakref.WeakSet[ProcessChannel] = weakref.WeakSet()

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        started = time.monotonic()

        def run_once() -> Answer:
            call = self._call(host, program)
            waiting_for("ssh to log in and the program to end")
            try:
                answer = process.run(call.begin(), call, started=started, timeout=timeout, limit=limit)
            except TimeoutError:
                raise call.timed_out(timeout) from None
            error = None if answer.truncated else call.error(answer.exit, answer.stdout, answer.stderr)
            if error:
                raise error
            return answer

        return once_more(run_once, started + timeout)

    def start(self, host: Host, program: Program, *, timeout: float) -> ProcessChannel:
        deadline = time.monotonic() + timeout

        def start_once() -> tuple[ProcessChannel, _SshCall]:
            call = self._call(host, program)
            waiting_for("ssh to log in")
            ssh = call.begin()
            with current().breakable(ssh.kill):
                if not call.wait_for_login(ssh, deadline):
                    ssh.kill()
                    raise call.timed_out(timeout)
            return ProcessChannel(ssh, call, grace=0.0), call

        agent, call = once_more(start_once, deadline)
        self._agents.add(agent)
        try:
            agent.begin(deadline)
        except BaseException as error:
            agent.close()
            if isinstance(error, TimeoutError):
                raise call.timed_out(timeout) from None
            raise
        return agent

    def close(self) -> None:
        for agent in tuple(self._agents):
            agent.close()
        self._directory.cleanup()

    def _call(self, host: Host, program: Program) -> "_SshCall":
        return _SshCall(host, program, self._options, Path(self._directory.name) / str(next(self._numbers)))


class _SshCall(Call):
    """One run of ssh, with its logs."""

    def __init__(self, host: Host, program: Program, options: Options, log: Path) -> None:
        bastion = host.ssh.bastion
        via = bastion.host if bastion else ""
        target = Target(host.name, host.address, host.ssh.port, host.ssh.user, via)
        super().__init__(target, program, sudo=host.ssh.sudo, password=options.sudo_password)
        self._host = host
        self._options = options
        self._log = log
        self._bastion_log = log.with_suffix(".bastion")
        self._known_hosts = (host.ssh.known_hosts,) if host.ssh.known_hosts else ()
        self._bastion = Target(f"bastion {bastion.host}", bastion.host, bastion.port, bastion.user) if bastion else None

    def begin(self) -> PipedProcess:
        argv = ssh_argv(self._host, self._options, log=self._log, bastion_log=self._bastion_log, command=self.command)
        try:
            return PipedProcess(argv)
        except FileNotFoundError:
            raise UsageError('transport = "openssh" needs ssh on this machine. Install openssh-client') from None

    def wait_for_login(self, ssh: PipedProcess, deadline: float) -> bool:
        """Return true once ssh has logged in, false at the deadline. Raises TransportError if ssh ends before."""
        while time.monotonic() < deadline:
            running = ssh.running
            if ssh_log.logged_in(_text(self._log)):
                return True
            if not running:
                raise self.error(_SSH_FAILED, b"", b"") or errors.hung_up(self.target, "ssh ended without a message")
            time.sleep(_POLL)
        return False

    def timed_out(self, seconds: float) -> TransportError:
        after_login = current().waiting_for if self.dialogue else "the program"
        stage = after_login if ssh_log.logged_in(_text(self._log)) else "ssh to log in"
        return errors.timed_out(self.target, seconds, stage)

    def error(self, status: int, stdout: bytes, stderr: bytes) -> TransportError | None:
        """Return why the program did not run to its end; None if it did. Announce a key that was accepted as new."""
        log = _text(self._log)
        bastion_log = _text(self._bastion_log)
        self._announce(bastion_log, self._bastion)
        self._announce(log, self.target)
        if status == _SSH_FAILED and not ssh_log.program_ended(log):
            if self._bastion and not ssh_log.reached(log):
                return ssh_log.bastion_failure(
                    bastion_log, self.target, self._bastion, self._options, self._known_hosts
                )
            return ssh_log.failure(
                log or stderr.decode("utf-8", "replace"), self.target, self._options, self._known_hosts
            )
        return super().error(status, stdout, stderr)

    def _announce(self, log: str, target: Target | None) -> None:
        notice = ssh_log.accepted_key(log, target) if target else ""
        if notice:
            self._options.notice(notice)


def _text(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
