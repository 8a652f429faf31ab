"""Types of a transport: the program that is sent to a host, its answer, and the errors on the way."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from preflight.model.cluster import Host
from preflight.transport.password import Password


@dataclass(frozen=True)
class Program:
    """A Python source text to run on a host (`preflight/remote/*.py`), and the command that runs it.

    The source travels over stdin, never as an argument; `payload` follows it on the same stream.
    `setup` is a shell line before python and needs a POSIX shell on the host.
    `user` runs the program as this user (sudo -u). Without it, the host's settings decide about sudo to root.
    `isolated` (python -I) keeps the login user's environment out. It is off where the jobs' packages count.
    """

    source: str
    payload: bytes = b""
    python: str = "python3"
    setup: str = ""
    wrapper: tuple[str, ...] = ()
    user: str = ""
    isolated: bool = True


@dataclass(frozen=True)
class Answer:
    """Output and exit code of a program. Both streams are bounded; `truncated`: it printed more and was ended."""

    stdout: bytes
    stderr: bytes
    exit: int
    seconds: float
    truncated: bool = False


class ErrorKind(StrEnum):
    """Kinds of failure to reach a host, each with its own message and remedy."""

    RESOLVE = "resolve"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    HOST_KEY_UNKNOWN = "host-key-unknown"
    HOST_KEY_CHANGED = "host-key-changed"
    AUTHENTICATION = "authentication"
    NO_PYTHON = "no-python"
    SUDO = "sudo"
    CLOSED = "closed"  # the connection broke while the program ran
    BASTION = "bastion"
    BUDGET = "budget"  # the time of the whole run ended; nothing is known to be wrong with the host


@dataclass
class TransportError(Exception):
    """Failure to reach a host or to run the program there. Not the user's mistake: it becomes a finding."""

    kind: ErrorKind
    summary: str  # one sentence: the host and the failure
    remedy: str  # one sentence: what to do
    commands: tuple[str, ...] = ()  # the commands for it, ready to be pasted

    def __str__(self) -> str:
        return self.summary


class Channel(Protocol):
    """A running program on a host, with its stdin and stdout; used by the probe's agents."""

    def send(self, data: bytes) -> None:
        """Write all of `data` to the program's stdin. Raises TransportError(CLOSED) if the program has ended."""

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the program's stdout, without the newline. Blocks. Lines over 1 MiB are cut.

        Ends when the program closes its stdout or `close` is called from another thread.
        """

    def stderr_tail(self) -> bytes:
        """Return the last 4 KiB of stderr so far."""

    def error(self) -> TransportError | None:
        """Return why the program never ran (no python, sudo refused) or how the connection broke.

        Valid once `lines` has ended. None if the program ran and ended, or `close` was called.
        """

    def close(self) -> None:
        """Drop the connection at once; the program sees end-of-file on stdin. Idempotent, callable from any thread."""


class Transport(Protocol):
    """A way to hosts. Thread-safe: one object serves all hosts of a command. `close` drops shared connections."""

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        """Run `program` to its end on its own connection.

        `timeout` is in seconds and covers the whole call; `limit` is the number of stdout bytes to keep.
        Raises TransportError. A non-zero exit of the program itself is not an error here.
        """

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        """Start `program` and return at once; `timeout` bounds connecting only. Raises TransportError."""

    def close(self) -> None: ...


def _to_stderr(notice: str) -> None:
    print(notice, file=sys.stderr)


@dataclass(frozen=True)
class Options:
    """Transport settings of the command line. Timeouts are in seconds.

    `parked`: number of connections to keep for the next programs of their hosts. A command that changes hosts keeps
    none: only a new connection shows that a host still lets us in. `sudo_password`: None means `sudo -n`.
    `notice` gets messages about accepted new host keys and ignored ssh settings.
    """

    accept_new: bool = False
    connect_timeout: float = 10.0  # TCP connect and banner
    auth_timeout: float = 15.0
    parked: int = 0
    sudo_password: Password | None = field(default=None, repr=False)
    notice: Callable[[str], None] = _to_stderr


@dataclass(frozen=True)
class Progress:
    """Progress of work over many hosts. `slowest` is the host that has been running longest, for `seconds`.

    `waiting_for` is the step at which that host waits, such as "the ssh banner" or "the program".
    `phase` is the work itself: "facts", "pings", "apply". `unit` is what is counted. A phase that is one of several of
    a probe has `whole`.
    """

    done: int
    total: int
    failed: int
    slowest: str | None = None
    seconds: float = 0.0
    waiting_for: str = ""
    phase: str = ""
    unit: str = "hosts"
    whole: "WholeProgress | None" = None


@dataclass(frozen=True)
class WholeProgress:
    """Tests of a whole probe. `expected`: seconds that it takes if nothing fails, from its announcement on."""

    done: int
    total: int
    expected: float
