"""Transport through Fabric: its `Connection` opens and authenticates; programs run on our own channel.

Fabric's own `Connection` (3.2) accepts any host key, opens a bastion for every host, waits without limits and polls
from three threads while a command runs. This transport has strict host keys, one connection to a bastion, and a limit
on every step. A host costs one thread besides paramiko's thread, and while it works both only sleep.
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, cast

from fabric import Config, Connection
from paramiko import Channel as SshChannel
from paramiko import MissingHostKeyPolicy, PKey, SSHClient, SSHConfig
from paramiko import Transport as Session
from paramiko.ssh_exception import ChannelException, SSHException

from preflight.model.cluster import Host
from preflight.model.text import last_line
from preflight.transport import attempt, errors
from preflight.transport.attempt import waiting_for
from preflight.transport.bootstrap import Call
from preflight.transport.fabric_pipes import Pipes
from preflight.transport.fanout import LOGINS
from preflight.transport.host_keys import HostKeys
from preflight.transport.known_hosts import HostKey
from preflight.transport.login import KeyFiles, KeyLogin
from preflight.transport.retry import once_more
from preflight.transport.ssh_config import Endpoint, SshConfig
from preflight.transport.streams import STDERR_TAIL, BoundedOutput, Tail, split_lines
from preflight.transport.types import Answer, Channel, Options, Program, TransportError

# paramiko logs a traceback for every host that hangs up; our own errors report the cause.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False

# Exceptions of a broken or closed paramiko session; the type depends on the call.
_BROKEN = (SSHException, OSError, EOFError)

_HANDSHAKES_PER_BASTION = 8  # sshd drops new connections from 10 unauthenticated ones on (MaxStartups)
_SEND_TIMEOUT = 1.0  # seconds that `close` of a forwarded channel waits for a sender
_EXIT_CODE_TIMEOUT = 1.0  # seconds from the end of a program's output to its exit code
_STILL_THERE = 3.0  # seconds until a parked connection has to answer
_WATCH = 0.25  # seconds between two looks for connections beyond their deadline
# Seconds between two looks of paramiko's thread at a connection without data. Its own 0.1 s, for each of thousands of
# hosts that work, would keep a processor busy. A dropped connection wakes the thread at once (`_Link.drop`).
_QUIET = 60.0
_PROHIBITED = 1  # SSH_OPEN_ADMINISTRATIVELY_PROHIBITED, RFC 4254 section 5.1


class FabricTransport:
    """`Transport` through Fabric and paramiko."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._ssh_config = SshConfig(options.notice)
        self._host_keys = HostKeys(accept_new=options.accept_new, notice=options.notice)
        self._key_files = KeyFiles()
        self._lock = threading.Lock()
        self._logins = threading.Semaphore(LOGINS)
        self._bastions: dict[Endpoint, _Bastion] = {}
        self._links: set[_Link] = set()
        self._parked: dict[Endpoint, _Link] = {}  # connections without a program, for the next one
        self._closed = threading.Event()
        self._watchdog: threading.Thread | None = None

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        started = time.monotonic()
        link = self._connect(host, started + timeout)
        try:
            with _host_errors(link, timeout, started + timeout):
                waiting_for("the program")
                call = self._call(host, link, program)
                pipes = Pipes(link.execute(call.command))
                answer = _run(link, call, pipes, limit=limit, started=started)
        except BaseException:
            self._forget(link)
            raise
        self._park(link, pipes.channel, ended=not answer.truncated)
        return answer

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        deadline = time.monotonic() + timeout
        link = self._connect(host, deadline)
        try:
            with _host_errors(link, timeout, deadline):
                call = self._call(host, link, program)
                agent = _FabricChannel(link, call, deadline, forget=lambda: self._forget(link))
        except Exception:
            self._forget(link)
            raise
        link.keep()
        return agent

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            links = tuple(self._links)
        for link in links:
            self._forget(link)

    def _call(self, host: Host, link: "_Link", program: Program) -> Call:
        return Call(link.target, program, sudo=host.ssh.sudo, password=self._options.sudo_password)

    def _forget(self, link: "_Link") -> None:
        link.drop()
        with self._lock:
            self._links.discard(link)

    def _connect(self, host: Host, deadline: float) -> "_Link":
        """Return a parked connection to the host that still works, or else a new one."""
        endpoint = self._ssh_config.endpoint(host)
        with self._lock:
            link = self._parked.pop(endpoint, None)
        if link:
            link.deadline = deadline
            waiting_for("the connection of the last program")
            with attempt.current().breakable(link.drop):
                if link.answers():
                    return link
            self._forget(link)
        return self._log_in(endpoint, deadline)

    def _park(self, link: "_Link", channel: SshChannel, *, ended: bool) -> None:
        """Keep a connection for the next program if the options say so, else drop it.

        Connections behind a bastion are not kept: all of them would be open files of one process there.
        """
        if self._options.parked and ended and link.endpoint.via is None:
            with contextlib.suppress(*_BROKEN):
                channel.close()
                link.keep()
                with self._lock:
                    if len(self._parked) < self._options.parked and link.endpoint not in self._parked:
                        self._parked[link.endpoint] = link
                        return
        self._forget(link)

    def _watch(self) -> None:
        """Drop connections at their deadline, until the transport is closed."""
        while not self._closed.wait(_WATCH):
            now = time.monotonic()
            with self._lock:
                overdue = [link for link in self._links if link.deadline <= now]
            for link in overdue:
                link.keep()  # it is dropped once
                # A forwarded connection may wait for its bastion, and would hold up the others.
                threading.Thread(target=self._forget, args=(link,), daemon=True).start()

    def _add(self, link: "_Link") -> None:
        with self._lock:
            self._links.add(link)
            if self._watchdog is None:
                self._watchdog = threading.Thread(target=self._watch, name="ssh-deadlines", daemon=True)
                self._watchdog.start()

    def _log_in(self, endpoint: Endpoint, deadline: float) -> "_Link":
        """Return a connection on which a program can run."""
        return once_more(lambda: self._log_in_once(endpoint, deadline), deadline)

    def _log_in_once(self, endpoint: Endpoint, deadline: float) -> "_Link":
        bastion = self._bastion(endpoint.via, deadline) if endpoint.via else None
        with bastion.handshakes if bastion else contextlib.nullcontext():
            seconds = self._step_timeout(deadline)
            stream = bastion.forward(endpoint, seconds) if bastion else _tcp(endpoint, seconds)
            link = _Link(endpoint, stream, deadline)
            self._add(link)
            try:
                with attempt.current().breakable(link.drop), self._turn(link, deadline):
                    self._open(link, deadline)
            except BaseException:
                self._forget(link)
                raise
            return link

    @contextlib.contextmanager
    def _turn(self, link: "_Link", deadline: float) -> Iterator[None]:
        """Wait until fewer than LOGINS hosts log in."""
        waiting_for("its turn to log in")
        started = time.monotonic()
        if not self._logins.acquire(timeout=max(0.0, deadline - started)):
            raise errors.timed_out(link.target, time.monotonic() - started, "its turn to log in")
        try:
            yield
        finally:
            self._logins.release()

    def _step_timeout(self, deadline: float) -> float:
        return max(0.1, min(self._options.connect_timeout, deadline - time.monotonic()))

    def _open(self, link: "_Link", deadline: float) -> None:
        """Do banner, key exchange, host key check and login."""
        endpoint = link.endpoint
        target = endpoint.target
        timeout = self._step_timeout(deadline)
        known_hosts = self._host_keys.known(endpoint.known_hosts)

        def new_session(stream: socket.socket | SshChannel, **settings: Any) -> Session:
            session = Session(cast(socket.socket, stream), **settings)
            session.handshake_timeout = timeout
            _prefer(session, known_hosts.key_types(endpoint.known_as))
            link.session = session
            return session

        connection = Connection(
            target.address,
            user=target.user,
            port=target.port,
            # Fabric's own configuration (/etc/fabric.yml, FABRIC_*) is not read: its gateway would bypass ours.
            # One object for each Connection: a Connection changes it.
            config=Config(lazy=True, ssh_config=SSHConfig()),
            connect_kwargs={
                "sock": link.stream,
                "transport_factory": new_session,
                "auth_strategy": KeyLogin(endpoint, self._key_files),
                "banner_timeout": timeout,
                "auth_timeout": max(0.1, min(self._options.auth_timeout, deadline - time.monotonic())),
                "channel_timeout": timeout,
            },
        )
        connection.client.set_missing_host_key_policy(_Policy(endpoint, self._host_keys))
        waiting_for("the ssh banner and key exchange")
        started = time.monotonic()
        try:
            connection.open()
        except Exception as error:
            if not _is_host_error(error, link):
                raise
            seconds = time.monotonic() - started
            if seconds >= timeout or time.monotonic() >= deadline:
                raise errors.timed_out(target, seconds, attempt.current().waiting_for) from None
            raise errors.hung_up(target, last_line(str(error)) or "the server closed the connection") from None

    def _bastion(self, endpoint: Endpoint, deadline: float) -> "_Bastion":
        """Return the one connection to a bastion. The first caller opens it; the others wait for the result."""
        with self._lock:
            bastion = self._bastions.setdefault(endpoint, _Bastion())
        waiting_for(f"the bastion {endpoint.target.address}")
        with bastion.opening:
            if bastion.failure is None and not (bastion.link and bastion.link.is_open):
                try:
                    bastion.link = self._log_in(endpoint, deadline)
                    bastion.link.keep()
                except TransportError as error:
                    bastion.failure = error
        return bastion


class _Link:
    """One connection from its first byte to its end. Any thread can drop it, at any stage.

    The transport drops it at `deadline` unless `keep` is called, because some waits inside paramiko have no timeout.
    Examples are a server that sends endless banner lines, and one that never answers the request to run a command.
    """

    def __init__(self, endpoint: Endpoint, stream: socket.socket | SshChannel, deadline: float) -> None:
        self.endpoint = endpoint
        self.stream = stream
        self.session: Session | None = None
        self.deadline = deadline

    def keep(self) -> None:
        """Remove the deadline."""
        self.deadline = float("inf")

    def only_wait(self) -> None:
        """Report that the login is over, and let paramiko's thread sleep until data comes.

        Behind a bastion all hosts share its connection, and the number of hosts at once stays that of logins.
        """
        if isinstance(self.stream, socket.socket):
            self.stream.settimeout(_QUIET)
            attempt.current().logged_in()

    @property
    def target(self) -> errors.Target:
        return self.endpoint.target

    @property
    def is_open(self) -> bool:
        return self.session is not None and self.session.is_active()

    def drop(self) -> None:
        """End the connection; every call blocked on it returns. Idempotent."""
        self.keep()
        if isinstance(self.stream, socket.socket):
            # Wakes paramiko's thread at once; closing alone leaves it in recv for up to a minute.
            with contextlib.suppress(OSError):
                self.stream.shutdown(socket.SHUT_RDWR)
        if self.session:
            self.session.close()
        self.stream.close()

    def answers(self) -> bool:
        """Return whether a parked connection still works. A firewall may have forgotten it."""
        try:
            if self.session is None or not self.session.is_active():
                return False
            self.session.open_session(timeout=_STILL_THERE).close()
        except _BROKEN:
            return False
        return True

    def execute(self, command: str) -> SshChannel:
        """Return a channel on which `command` runs."""
        if self.session is None:
            raise EOFError
        channel = self.session.open_session()
        channel.exec_command(command)
        return channel


class _Forwarded:
    """Forwarded channel that sends nothing after `close`.

    paramiko releases its lock between building a data message and sending it. Another thread may close the channel in
    between. OpenSSH then receives data for a channel that it has freed, and ends the connection of all hosts
    ("data packet referred to nonexistent channel").
    """

    def __init__(self, channel: SshChannel) -> None:
        self._channel = channel
        self._sending = threading.Lock()
        self._closed = False

    def send(self, data: bytes) -> int:
        with self._sending:
            if self._closed:
                raise EOFError
            return self._channel.send(data)

    def close(self) -> None:
        self._closed = True
        # A sender may be blocked by the other side, so the wait for it is limited.
        free = self._sending.acquire(timeout=_SEND_TIMEOUT)
        self._channel.close()
        if free:
            self._sending.release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


class _Bastion:
    """The one connection to a bastion, or the reason why there is none."""

    def __init__(self) -> None:
        self.opening = threading.Lock()
        self.handshakes = threading.Semaphore(_HANDSHAKES_PER_BASTION)
        self.link: _Link | None = None
        self.failure: TransportError | None = None

    def forward(self, endpoint: Endpoint, seconds: float) -> SshChannel:
        """Return a channel to the endpoint, which the bastion connects."""
        target = endpoint.target
        if self.failure:
            raise errors.bastion_failed(target, self.failure)
        if not self.link or not self.link.session:
            raise ValueError("forward before the bastion was opened")
        waiting_for(f"the bastion {self.link.target.address} to connect")
        try:
            channel = self.link.session.open_channel(
                "direct-tcpip", (target.address, target.port or 22), ("", 0), timeout=seconds
            )
            return cast(SshChannel, _Forwarded(channel))
        except ChannelException as error:
            if error.code == _PROHIBITED:
                raise errors.bastion_forbids(target, last_line(error.text)) from None
            raise errors.refused(target, last_line(error.text)) from None
        except _BROKEN as error:
            if "Timeout" in str(error):
                raise errors.timed_out(target, seconds, "the bastion to connect") from None
            raise errors.bastion_failed(target, errors.closed(self.link.target, "connection closed")) from None


class _Policy(MissingHostKeyPolicy):
    """Host-key policy of paramiko that leaves the decision to `HostKeys`.

    paramiko calls it for every host because its own tables stay empty.
    """

    def __init__(self, endpoint: Endpoint, host_keys: HostKeys) -> None:
        self._endpoint = endpoint
        self._host_keys = host_keys

    def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:  # noqa: ARG002
        endpoint = self._endpoint
        shown = HostKey(key.get_name(), key.asbytes())
        self._host_keys.check(endpoint, shown)


def _is_host_error(error: Exception, link: _Link) -> bool:
    """Return true for an exception that the host caused. All others are bugs.

    paramiko passes on the exception that ended its thread. A hostile server can cause any exception there.
    """
    return not isinstance(error, TransportError) and (isinstance(error, _BROKEN) or not link.is_open)


@contextlib.contextmanager
def _host_errors(link: _Link, timeout: float, deadline: float) -> Iterator[None]:
    """Raise TransportError instead of an exception that the host caused."""
    try:
        with attempt.current().breakable(link.drop):
            yield
    except Exception as error:
        if not _is_host_error(error, link):
            raise
        if time.monotonic() >= deadline:
            raise errors.timed_out(link.target, timeout, attempt.current().waiting_for) from None
        raise _closed(link, error) from None


def _closed(link: _Link, error: Exception) -> TransportError:
    return errors.closed(link.target, last_line(str(error)) or "connection closed")


def _prefer(session: Session, key_types: tuple[str, ...]) -> None:
    """Ask the server for a host key of these types first, as ssh does."""
    algorithms = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
    preferred = [algorithm for key_type in key_types for algorithm in algorithms.get(key_type, (key_type,))]
    options = session.get_security_options()
    offered = options.key_types
    options.key_types = [*(a for a in preferred if a in offered), *(a for a in offered if a not in preferred)]


def _tcp(endpoint: Endpoint, seconds: float) -> socket.socket:
    target = endpoint.target
    waiting_for("the TCP connection")
    try:
        stream = socket.create_connection((target.address, target.port), timeout=seconds)
    except socket.gaierror as error:
        raise errors.unresolved(target, error.strerror or str(error)) from None
    except TimeoutError:
        raise errors.timed_out(target, seconds, "the TCP connection") from None
    except OSError as error:
        raise errors.refused(target, error.strerror or str(error)) from None
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def _run(link: _Link, call: Call, pipes: Pipes, *, limit: int, started: float) -> Answer:
    link.only_wait()
    output = BoundedOutput(limit)
    early = call.dialogue.become(pipes.chunks(), pipes.send, link.deadline) if call.dialogue else ()
    pipes.feed(call.data)
    for is_stderr, data in chain(early, pipes.chunks()):
        output.add(is_stderr, data)
        if output.too_much:
            return output.answer(-1, time.monotonic() - started)
    status = pipes.channel.recv_exit_status()
    if status == -1 and not link.is_open:
        raise EOFError
    answer = output.answer(status, time.monotonic() - started)
    error = call.error(status, answer.stdout, answer.stderr)
    if error:
        raise error
    return answer


class _FabricChannel:
    """`Channel` through paramiko."""

    def __init__(self, link: _Link, call: Call, deadline: float, *, forget: Callable[[], None]) -> None:
        """Start the program. Raises TransportError, or TimeoutError at `deadline`."""
        self._link = link
        self._call = call
        self._forget = forget
        self._stderr = Tail(STDERR_TAIL)
        self._closed = False
        self._pipes = Pipes(link.execute(call.command))
        link.only_wait()
        self._early = call.dialogue.become(self._pipes.chunks(), self._pipes.send, deadline) if call.dialogue else ()
        if call.dialogue is None or call.dialogue.python_ready:
            # If the program cannot be started, this may fail already; `error` then knows the reason.
            with contextlib.suppress(OSError):
                self._pipes.send(call.data)

    def send(self, data: bytes) -> None:
        try:
            self._pipes.send(data)
        except _BROKEN as error:
            raise _closed(self._link, error) from None

    def lines(self) -> Iterator[bytes]:
        return split_lines(self._stderr.take_from(chain(self._early, self._pipes.chunks())))

    def stderr_tail(self) -> bytes:
        return bytes(self._stderr)

    def error(self) -> TransportError | None:
        channel = self._pipes.channel
        if self._closed or not channel.status_event.wait(_EXIT_CODE_TIMEOUT):
            return None
        if channel.exit_status == -1 and not self._link.is_open:
            return errors.closed(self._link.target, "connection closed")
        return self._call.error(channel.exit_status, b"", self.stderr_tail())

    def close(self) -> None:
        self._closed = True
        self._forget()
