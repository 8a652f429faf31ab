"""Where an engine does not carry stdin and stderr as they are, relays call the controller back, by TCP.

Who calls has to show the run's token, which the engine has brought to the nodes in their environment; where there is
no engine that tells both sides of each other, they prove a key that both have (`proof.py`). Like the engines' own
connections these are not encrypted: they are for the network of the nodes.
"""

import hmac
import resource
import selectors
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from preflight.model.errors import UsageError
from preflight.transport.engine import handshake
from preflight.transport.engine.frames import FRAME

SHOW = 5.0  # seconds that a caller has to show the token
TAKE = 8.0  # seconds for all nodes to take what they are told, after which those that have not are dropped
_MOMENT = 0.01  # seconds for one to take what fits into its buffer, when that time is over
_READ = 1 << 16  # bytes at a time
_TICK = 0.5  # seconds between two looks at those who have not shown the token
_STRANGERS = 64  # callers without the token at a time
_OTHERS = 192  # files that are open beside theirs and the nodes'


def make_room(nodes: int) -> None:
    """Let this process have a connection of each node, as far as it may allow itself. Raises UsageError."""
    wanted = nodes + _STRANGERS + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != hard < wanted:
        raise UsageError(f"{nodes} nodes call back here, and {hard} files may be open: ulimit -Hn {wanted}, or --limit")
    if resource.RLIM_INFINITY != soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@dataclass
class _Caller:
    """`wanted`: the line that makes it known."""

    connection: socket.socket
    since: float
    wanted: bytes
    known: bool = False
    heard: bytearray = field(default_factory=bytearray)


class Callbacks:
    """The relays' calls. `lines` runs in a thread of its own; the rest may be called from any. With a `key` callers
    prove that instead of showing the token."""

    def __init__(self, token: str, port: int = 0, key: str = "") -> None:
        self._token = token.encode()
        self._key = key
        self._listener = socket.create_server(("", port), backlog=1024)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._kept = b""
        self._callers: dict[socket.socket, _Caller] = {}
        self._lock = threading.Lock()  # of the connections, and so that each hears everything in its order
        self._closed = False

    def addresses(self, hosts: Sequence[str]) -> str:
        """Where to call, as `address:port,…`: this machine's addresses on the ways to `hosts`, of which a few are
        enough. No packet is sent."""
        port, found = self._listener.getsockname()[1], dict[str, None]()
        for host in hosts[:8]:
            with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
                way.connect((host, 9))
                found[way.getsockname()[0]] = None
        return ",".join(f"{address}:{port}" for address in found or {socket.gethostname(): None})

    def lines(self) -> Iterator[bytes]:
        """What those say who have shown the token, line by line, until `close`."""
        while not self._closed:
            for key, _ in self._selector.select(_TICK):
                if key.fileobj is self._listener:
                    self._greet()
                elif isinstance(key.data, _Caller):
                    yield from self._hear(key.data)
            late = time.monotonic() - SHOW
            for caller in [one for one in self._callers.values() if not one.known and one.since < late]:
                self._drop(caller)
        for caller in list(self._callers.values()):
            self._drop(caller)

    def send(self, data: bytes) -> None:
        """Tell all."""
        with self._lock:
            self._tell([caller for caller in self._callers.values() if caller.known], data)

    def keep(self, data: bytes) -> None:
        """Tell all, and those who call later before they are told anything else."""
        with self._lock:
            self._kept += data
            self._tell([caller for caller in self._callers.values() if caller.known], data)

    def close(self) -> None:
        self._closed = True
        with self._lock:
            for caller in self._callers.values():
                with suppress(OSError):
                    caller.connection.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _tell(self, callers: Sequence[_Caller], data: bytes) -> None:
        until = time.monotonic() + TAKE  # for all together: many that stand still must not keep the others waiting
        for caller in callers:
            try:
                caller.connection.settimeout(max(_MOMENT, until - time.monotonic()))
                caller.connection.sendall(data)
            except OSError:  # whoever reads finds its end
                with suppress(OSError):
                    caller.connection.shutdown(socket.SHUT_RDWR)

    def _greet(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            if sum(not one.known for one in self._callers.values()) >= _STRANGERS:
                connection.close()
                return
            connection.settimeout(TAKE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            caller = _Caller(connection, time.monotonic(), b"" if self._key else self._token)
            with self._lock:
                self._callers[connection] = caller
            self._selector.register(connection, selectors.EVENT_READ, caller)

    def _hear(self, caller: _Caller) -> Iterator[bytes]:
        data = b""
        with suppress(OSError):
            data = caller.connection.recv(_READ)
        *lines, rest = bytes(caller.heard + data).split(b"\n")
        caller.heard = bytearray(rest)
        if lines and not caller.known:
            self._look_at(caller, lines.pop(0))
        if caller.known:
            yield from lines
        if not data or len(rest) > FRAME or (lines and not caller.known):
            self._drop(caller)

    def _look_at(self, caller: _Caller, line: bytes) -> None:
        with self._lock:
            if not caller.wanted:
                answer, caller.wanted = handshake.answer(self._key, line)
                self._tell([caller], answer)
                return
            caller.known = hmac.compare_digest(line, caller.wanted)
            caller.since = 0.0  # else it is late at once
            self._tell([caller] if caller.known else [], self._kept)

    def _drop(self, caller: _Caller) -> None:
        self._selector.unregister(caller.connection)
        with self._lock:
            del self._callers[caller.connection]
        caller.connection.close()
