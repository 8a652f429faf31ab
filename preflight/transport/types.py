"""How the rest of preflight sees a host: send it a program, read what comes back."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from preflight.model.cluster import Host
from preflight.transport.password import Password


@dataclass(frozen=True)
class Program:
    """A Python source text to run on a host (`preflight/remote/*.py`), and how to get there.

    The source travels over stdin, never as an argument; `payload` follows it on the same stream.
    """

    source: str
    payload: bytes = b""
    python: str = "python3"
    setup: str = ""  # shell line before python; needs a POSIX shell on the host
    wrapper: tuple[str, ...] = ()
    user: str = ""  # run as this user (sudo -u); otherwise as root through sudo where the host asks for it
    isolated: bool = True  # python -I: nothing of the login user's environment gets in; off where jobs' packages count


@dataclass(frozen=True)
class Answer:
    """What a program left behind. Both streams are bounded; `truncated`: one had more, and the program was cut off."""

    stdout: bytes
    stderr: bytes
    exit: int
    seconds: float
    truncated: bool = False


class ErrorKind(StrEnum):
    """The ways of failing to reach a host, each with its own sentence and remedy."""

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


@dataclass
class TransportError(Exception):
    """A host could not be reached or could not run the program. Not the user's mistake: it becomes a finding."""

    kind: ErrorKind
    summary: str  # one sentence: what happened, where
    remedy: str  # one sentence or command: what to do

    def __str__(self) -> str:
        return self.summary


class Channel(Protocol):
    """A running program on a host, with its stdin and stdout; used by the probe's agents."""

    def send(self, data: bytes) -> None:
        """Write all of `data` to the program's stdin; raises TransportError(CLOSED) if it is gone."""

    def lines(self) -> Iterator[bytes]:
        """The program's stdout, line by line without the newline, until it ends. Blocks. Lines over 1 MiB are cut.

        Ends when the program closes its stdout or `close` is called from another thread.
        """

    def stderr_tail(self) -> bytes:
        """The last 4 KiB of stderr so far."""

    def error(self) -> TransportError | None:
        """Once `lines` has ended: why the program never ran (no python, sudo refused) or how the connection broke.

        None if the program ran and ended, or `close` was called.
        """

    def close(self) -> None:
        """Drop the connection at once; the program sees end-of-file on stdin. Idempotent, callable from any thread."""


class Transport(Protocol):
    """Thread-safe. One object serves all hosts of a command; `close` drops what it holds (a bastion)."""

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        """Run `program` to its end on a connection of its own.

        `timeout`: seconds for the whole call; `limit`: bytes of stdout kept. Raises TransportError. A non-zero exit of
        the program itself is not an error here.
        """

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        """Start `program` and return at once; `timeout` bounds connecting only. Raises TransportError."""

    def close(self) -> None: ...


def _to_stderr(notice: str) -> None:
    print(notice, file=sys.stderr)


@dataclass(frozen=True)
class Options:
    """What the command line says about transport."""

    accept_new: bool = False
    connect_timeout: float = 10.0  # seconds, TCP connect and banner
    auth_timeout: float = 15.0  # seconds
    pool: int = 32  # hosts in flight; never more than a third of the open-file limit
    sudo_password: Password | None = field(default=None, repr=False)  # None: sudo has to do without (sudo -n)
    notice: Callable[[str], None] = _to_stderr  # told of host keys accepted as new, and of settings passed over


@dataclass(frozen=True)
class Progress:
    """How far work over many hosts has come. `slowest` is the host that has been running longest, for `seconds`."""

    done: int
    total: int
    failed: int
    slowest: str | None = None
    seconds: float = 0.0
    waiting_for: str = ""  # what that host is waiting for: "the ssh banner", "the program" …
    phase: str = ""  # what is being done: "facts", "pings", "apply" …
