"""TCP connections from relays to the controller, for engines that do not carry stdin and stderr unchanged.

A caller shows the run's token, which the engine puts into the nodes' environment. Without an engine both sides prove
that they have a common key (`handshake.py`). Like the engines' own connections these are not encrypted: they are meant
for the network of the nodes.
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
SEND_TIMEOUT = 8.0  # seconds for all nodes to take a line; a node that is slower is dropped
_LEAST_SEND_TIMEOUT = 0.01  # seconds for a node to fill its buffer after that time
_READ = 1 << 16  # bytes at a time
_TICK = 0.5  # seconds between two checks for callers that have not shown the token
_MOST_UNPROVEN = 64  # callers without the token at a time
_OTHER_FILES = 192  # open files besides the connections


def make_room(nodes: int) -> None:
    """Raise this process's limit of open files for a connection of each node. Raises UsageError if it must not."""
    needed = nodes + _MOST_UNPROVEN + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != hard < needed:
        raise UsageError(
            f"{nodes} nodes need {needed} open files, but the limit is {hard}. Raise it with ulimit -Hn {needed}, or "
            "use fewer hosts (--limit)"
        )
    if resource.RLIM_INFINITY != soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@dataclass
class _Caller:
    """Connection of a relay. `expected` is the line that proves its identity; `buffer` has an unfinished line."""

    connection: socket.socket
    since: float
    expected: bytes
    proven: bool = False
    buffer: bytearray = field(default_factory=bytearray)


class Callbacks:
    """Connections of all relays. `lines` runs in its own thread; the other methods may be called from any.

    With a `key`, callers prove that they have it instead of showing the token.
    """

    def __init__(self, token: str, port: int = 0, key: str = "") -> None:
        self._token = token.encode()
        self._key = key
        self._listener = socket.create_server(("", port), backlog=1024)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._broadcasts = b""
        self._callers: dict[socket.socket, _Caller] = {}
        self._lock = threading.Lock()  # of the connections; it also keeps the order of the lines to each
        self._closed = False

    def addresses(self, hosts: Sequence[str]) -> str:
        """Return the addresses to call, as `address:port,…`: this machine's on the routes to the first hosts.

        No packet is sent.
        """
        port, addresses = self._listener.getsockname()[1], dict[str, None]()
        for host in hosts[:8]:
            with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((host, 9))
                addresses[probe.getsockname()[0]] = None
        return ",".join(f"{address}:{port}" for address in addresses or {socket.gethostname(): None})

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of callers that have shown the token, until `close`."""
        while not self._closed:
            for key, _ in self._selector.select(_TICK):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Caller):
                    yield from self._receive(key.data)
            self._drop_overdue()
        for caller in list(self._callers.values()):
            self._drop(caller)

    def _drop_overdue(self) -> None:
        """Drop callers that have not shown the token in time."""
        latest = time.monotonic() - SHOW
        for caller in list(self._callers.values()):
            if not caller.proven and caller.since < latest:
                self._drop(caller)

    def send(self, data: bytes) -> None:
        """Send to all relays."""
        with self._lock:
            self._send([caller for caller in self._callers.values() if caller.proven], data)

    def broadcast(self, data: bytes) -> None:
        """Send to all relays; relays that call later get it first."""
        with self._lock:
            self._broadcasts += data
            self._send([caller for caller in self._callers.values() if caller.proven], data)

    def close(self) -> None:
        self._closed = True
        with self._lock:
            for caller in self._callers.values():
                with suppress(OSError):
                    caller.connection.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _send(self, callers: Sequence[_Caller], data: bytes) -> None:
        deadline = time.monotonic() + SEND_TIMEOUT  # for all together: blocked callers must not delay the others
        for caller in callers:
            try:
                caller.connection.settimeout(max(_LEAST_SEND_TIMEOUT, deadline - time.monotonic()))
                caller.connection.sendall(data)
            except OSError:  # the reading thread then drops it
                with suppress(OSError):
                    caller.connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            if sum(not caller.proven for caller in self._callers.values()) >= _MOST_UNPROVEN:
                connection.close()
                return
            connection.settimeout(SEND_TIMEOUT)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            caller = _Caller(connection, time.monotonic(), b"" if self._key else self._token)
            with self._lock:
                self._callers[connection] = caller
            self._selector.register(connection, selectors.EVENT_READ, caller)

    def _receive(self, caller: _Caller) -> Iterator[bytes]:
        data = b""
        with suppress(OSError):
            data = caller.connection.recv(_READ)
        *lines, unfinished = bytes(caller.buffer + data).split(b"\n")
        caller.buffer = bytearray(unfinished)
        if lines and not caller.proven:
            self._authenticate(caller, lines.pop(0))
        if caller.proven:
            yield from lines
        if not data or len(unfinished) > FRAME or (lines and not caller.proven):
            self._drop(caller)

    def _authenticate(self, caller: _Caller, line: bytes) -> None:
        with self._lock:
            if not caller.expected:
                reply, caller.expected = handshake.answer(self._key, line)
                self._send([caller], reply)
                return
            caller.proven = hmac.compare_digest(line, caller.expected)
            caller.since = 0.0  # a caller with a wrong proof is overdue at once
            self._send([caller] if caller.proven else [], self._broadcasts)

    def _drop(self, caller: _Caller) -> None:
        self._selector.unregister(caller.connection)
        with self._lock:
            del self._callers[caller.connection]
        caller.connection.close()
