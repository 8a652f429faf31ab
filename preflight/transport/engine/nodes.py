"""State of the engine's nodes, read from its stream: the host of each, the output of its programs, and losses."""

import re
import threading
import time
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from preflight.model.text import last_line
from preflight.transport.engine import frames
from preflight.transport.engine.channel import EngineChannel
from preflight.transport.engine.frames import RelayFrame
from preflight.transport.engine.names import short
from preflight.transport.engine.site import EngineSite
from preflight.transport.types import ErrorKind, TransportError

SILENCE = 20.0  # seconds without a frame from a node until it counts as lost; a node sends one every 5
LATE = 15.0  # seconds after a node has started in which the next one is expected
CHECK_PERIOD = 0.5  # seconds between two checks for silent nodes
MOST_NAMES = 100  # of one node
_ERROR = re.compile(
    r"error|fail|unable|unreach|refused|denied|no route|no way|timed out|not found|not reply|killed|abort|lost|invalid",
    re.IGNORECASE,
)


@dataclass
class _Node:
    """One relay. `host` is the inventory's name as soon as it is resolved; `last_frame` is of time.monotonic()."""

    number: int
    last_frame: float
    seq: int = 0
    host: str = ""
    names: list[str] = field(default_factory=list)
    channels: dict[str, EngineChannel] = field(default_factory=dict)


class Nodes:
    """All nodes of an engine. Thread-safe. Every frame has the `nonce` of the run."""

    def __init__(self, site: EngineSite, count: int, nonce: str) -> None:
        self._site, self._count, self._nonce = site, count, nonce
        self.end_reason = ""  # why the engine has ended
        self._nodes: dict[int, _Node] = {}
        self._started: dict[str, _Node] = {}  # by host
        self._lost: dict[str, str] = {}  # host → reason
        self._messages: deque[str] = deque(maxlen=30)
        self._checked = 0.0  # time of the last check for silent nodes
        self._changed = threading.Condition()

    def wait_for(self, host: str, timeout: float) -> int:
        """Return the number of the host's node as soon as its relay has started. Raises TransportError."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not (self.end_reason or host in self._started or host in self._lost):
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    raise self.timed_out(host, timeout, "its relay to start")
            if self.end_reason or host in self._lost:
                raise self._closed(host, self._lost.get(host, self.end_reason))
            return self._started[host].number

    def wait_for_all(self, hosts: Collection[str], timeout: float) -> None:
        """Wait until all these nodes have started, or no further one has started for LATE seconds.

        The engine counts as ended if none of its nodes has started in `timeout` seconds.
        """
        begin = last_start = time.monotonic()
        count = 0
        with self._changed:
            while not self.end_reason and any(host not in self._started and host not in self._lost for host in hosts):
                if len(self._started) > count:
                    count, last_start = len(self._started), time.monotonic()
                remaining = last_start + (LATE if count else timeout) - time.monotonic()
                if remaining <= 0:
                    break
                self._changed.wait(remaining)
            none_started = not self._started
        if none_started:
            self.end(f"{self._site.name} started no program within {time.monotonic() - begin:.0f} s")

    def all_lost(self) -> str:
        """Return the reason if all nodes are lost, which is a failure of the engine; otherwise an empty text."""
        with self._changed:
            if not self._lost or any(host not in self._lost for host in self._started):
                return ""
            reason = self._engine_errors() or Counter(self._lost.values()).most_common(1)[0][0]
        return f"{self._site.name} lost all nodes: {reason}"

    def attach(self, host: str, program: str, channel: EngineChannel) -> None:
        """Pass all output of `program` on the host's node to `channel` from now on."""
        with self._changed:
            self._started[host].channels[program] = channel
            if host in self._lost:  # it was lost after `wait_for`
                self._lose(host, self._lost[host])

    def read(self, line: bytes) -> None:
        """Process a line of the engine's stream: a frame of a relay, or a message of the engine."""
        frame = frames.read(line, self._nonce)
        if frame is None:
            message = last_line(line)
            with self._changed:
                self._messages.append(message)
                for host, reason in self._site.lost(message):
                    self._lose(host, reason)
        elif frame.node < self._count:
            with self._changed:
                self._take(frame, self._nodes.setdefault(frame.node, _Node(frame.node, 0.0)))
            self.drop_silent()

    def drop_silent(self) -> None:
        """Count silent nodes as lost. Reader and writer both call this: an engine may block either of them."""
        now = time.monotonic()
        if now < self._checked + CHECK_PERIOD:
            return
        self._checked = now
        with self._changed:
            for host, node in self._started.items():
                if host not in self._lost and now - node.last_frame > SILENCE:
                    self._lose(host, f"no message for {SILENCE:.0f} s")

    def end(self, reason: str) -> None:
        """Count all nodes as lost because the engine has ended. The error has the reason and the engine's message."""
        with self._changed:
            self.end_reason = self.end_reason or ": ".join(filter(None, (reason, self._last_message())))
            for host in self._started:
                self._lose(host, self.end_reason)
            self._changed.notify_all()

    def timed_out(self, host: str, seconds: float, step: str) -> TransportError:
        """Return the error for a host that sent nothing while we waited for `step`."""
        nodes = list(self._nodes.values())
        strangers = [node.names[0] for node in nodes if not node.host and node.names[-1:] == [""]]
        hint = f". Nodes that are not in the inventory: {', '.join(strangers[:4])}" if strangers else ""
        message = self._last_message()
        reported = f"; {message}" if message and host not in self._started else ""
        return TransportError(
            ErrorKind.TIMEOUT,
            f"{host}: {self._site.name} timed out after {seconds:.0f} s (waiting for {step}{reported}){hint}",
            *self._fix(host),
        )

    def _take(self, frame: RelayFrame, node: _Node) -> None:
        node.last_frame = time.monotonic()
        if frame.seq != node.seq:
            self._lose(node.host, f"part of the output of {self._site.name} was lost")
        node.seq = frame.seq + 1
        if frame.here is not None:
            self._add_name(node, frame.here)
        channel = node.channels.get(frame.program)
        if not channel:
            return
        if frame.out is not None or frame.err is not None:
            channel.take(frames.data_of(frame.out or frame.err or ""), is_stderr=frame.out is None)
        elif frame.exit is not None:
            channel.finish(frame.exit)
            del node.channels[frame.program]

    def _add_name(self, node: _Node, name: str) -> None:
        """Record one of the node's names. The first name that the site maps to a host decides its host."""
        if len(node.names) < MOST_NAMES:
            node.names.append(name)
        host = self._site.called.get(name) or self._site.called.get(short(name))
        if node.host or not host:
            return
        node.host = host
        if host in self._started:
            self._lose(host, f"two nodes have the name {name}")
        self._started[host] = node
        self._changed.notify_all()

    def _lose(self, host: str, reason: str) -> None:
        if not host:
            return
        self._lost.setdefault(host, reason)
        for channel in list(self._started[host].channels.values()) if host in self._started else ():
            channel.finish(error=self._closed(host, reason))
        self._changed.notify_all()

    def _closed(self, host: str, reason: str) -> TransportError:
        return TransportError(ErrorKind.CLOSED, f"{host}: {reason}", *self._fix(host))

    def _fix(self, host: str) -> tuple[str, tuple[str, ...]]:
        return f"check that {self._site.name} can run a program on this host", (self._site.try_out(host),)

    def _last_message(self) -> str:
        """Return the engine's latest errors, or its last line if there are none."""
        return self._engine_errors() or next(filter(None, reversed(list(self._messages))), "")

    def _engine_errors(self) -> str:
        return "; ".join([line for line in list(self._messages) if _ERROR.search(line)][:2])
