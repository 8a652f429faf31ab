"""The engine's nodes as its stream tells of them: which host each is, what its programs say, and who is lost."""

import re
import threading
import time
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from preflight.transport import errors
from preflight.transport.engine import frames
from preflight.transport.engine.channel import EngineChannel
from preflight.transport.engine.frames import RelayFrame
from preflight.transport.engine.names import short
from preflight.transport.engine.site import EngineSite
from preflight.transport.types import ErrorKind, TransportError

SILENCE = 20.0  # seconds without a sign of life of a node, which gives one every 5, after which it is gone
LATE = 15.0  # seconds after the last node has come, after which no other one is expected
LOOK = 0.5  # seconds between two looks who is silent
NAMES = 100  # of one node
_BAD_NEWS = re.compile(
    r"error|fail|unable|unreach|refused|denied|no route|no way|timed out|not found|not reply|killed|abort|lost|invalid",
    re.IGNORECASE,
)


@dataclass
class _Node:
    """A relay. `host`: the inventory's name, once it is known."""

    number: int
    heard: float
    seq: int = 0
    host: str = ""
    names: list[str] = field(default_factory=list)
    channels: dict[str, EngineChannel] = field(default_factory=dict)


class Nodes:
    """Thread-safe. `count`: how many nodes there are; `nonce`: the run's, which every frame has."""

    def __init__(self, site: EngineSite, count: int, nonce: str) -> None:
        self._site, self._count, self._nonce = site, count, nonce
        self.over = ""  # why the engine has ended
        self._nodes: dict[int, _Node] = {}
        self._here: dict[str, _Node] = {}  # host → its node
        self._gone: dict[str, str] = {}  # host → why
        self._words: deque[str] = deque(maxlen=30)
        self._looked = 0.0  # when it was looked who is silent
        self._news = threading.Condition()

    def wait_for(self, host: str, timeout: float) -> int:
        """The number of the host's node, as soon as it has said that it is there. Raises TransportError."""
        until = time.monotonic() + timeout
        with self._news:
            while not (self.over or host in self._here or host in self._gone):
                if not self._news.wait(max(0.0, until - time.monotonic())):
                    raise self.late(host, timeout, "its relay to start")
            if self.over or host in self._gone:
                raise self._closed(host, self._gone.get(host, self.over))
            return self._here[host].number

    def wait_for_all(self, hosts: Collection[str], patience: float) -> None:
        """Until all these have said that they are there, or no other one has for a while. The engine is over where none
        of its nodes has in `patience` seconds."""
        began = last = time.monotonic()
        came = 0
        with self._news:
            while not self.over and any(host not in self._here and host not in self._gone for host in hosts):
                if len(self._here) > came:
                    came, last = len(self._here), time.monotonic()
                left = last + (LATE if came else patience) - time.monotonic()
                if left <= 0:
                    break
                self._news.wait(left)
            nobody = not self._here
        if nobody:
            self.end(f"{self._site.name} has started nothing in {time.monotonic() - began:.0f} s")

    def all_lost(self) -> str:
        """Why, where none of the nodes is left: all of them at once is the engine's doing. Empty while one is."""
        with self._news:
            if not self._gone or any(host not in self._gone for host in self._here):
                return ""
            why = self._bad_news() or Counter(self._gone.values()).most_common(1)[0][0]
        return f"{self._site.name} has lost all nodes: {why}"

    def attach(self, host: str, program: str, channel: EngineChannel) -> None:
        """What the host's node says of `program` is for `channel` from now on."""
        with self._news:
            self._here[host].channels[program] = channel
            if host in self._gone:  # since a moment ago
                self._lose(host, self._gone[host])

    def hear(self, line: bytes) -> None:
        """A line of the engine's stream."""
        said = frames.read(line, self._nonce)
        if said is None:
            words = errors.one_line(line)
            with self._news:
                self._words.append(words)
                for host, why in self._site.lost(words):
                    self._lose(host, why)
        elif said.node < self._count:
            with self._news:
                self._take(said, self._nodes.setdefault(said.node, _Node(said.node, 0.0)))
            self.miss_the_silent()

    def miss_the_silent(self) -> None:
        """Asked by who reads and by who writes: an engine that waits for a node to listen stops the one that writes."""
        now = time.monotonic()
        if now < self._looked + LOOK:
            return
        self._looked = now
        with self._news:
            for host, node in self._here.items():
                if host not in self._gone and now - node.heard > SILENCE:
                    self._lose(host, f"nothing has been heard from there for {SILENCE:.0f} s")

    def end(self, why: str) -> None:
        """The engine has ended, and all are lost; `why` is told, and its own words."""
        with self._news:
            self.over = self.over or ": ".join(filter(None, (why, self._last_words())))
            for host in self._here:
                self._lose(host, self.over)
            self._news.notify_all()

    def late(self, host: str, seconds: float, what: str) -> TransportError:
        """Nothing came of the host for so long while waiting for `what`."""
        nodes = list(self._nodes.values())
        strangers = [node.names[0] for node in nodes if not node.host and node.names[-1:] == [""]]
        seen = f"; there are nodes that the inventory does not name: {', '.join(strangers[:4])}" if strangers else ""
        said = self._last_words()
        return TransportError(
            ErrorKind.TIMEOUT,
            f"{host}: nothing after {seconds:.0f} s from {self._site.name} while waiting for {what}{seen}"
            + (f" ({said})" if said and host not in self._here else ""),
            f"see what this says: {self._site.try_out(host)}",
        )

    def _take(self, said: RelayFrame, node: _Node) -> None:
        node.heard = time.monotonic()
        if said.seq != node.seq:
            self._lose(node.host, f"{self._site.name} lost a part of what was said there")
        node.seq = said.seq + 1
        if said.here is not None:
            self._greet(node, said.here)
        channel = node.channels.get(said.program)
        if not channel:
            return
        if said.out is not None or said.err is not None:
            channel.take(frames.data_of(said.out or said.err or ""), is_stderr=said.out is None)
        elif said.exit is not None:
            channel.finish(said.exit)
            del node.channels[said.program]

    def _greet(self, node: _Node, name: str) -> None:
        """The node says one of its names; whose it is, is settled by the first that is known."""
        if len(node.names) < NAMES:
            node.names.append(name)
        host = self._site.called.get(name) or self._site.called.get(short(name))
        if node.host or not host:
            return
        node.host = host
        if host in self._here:
            self._lose(host, f"two nodes call themselves {name}")
        self._here[host] = node
        self._news.notify_all()

    def _lose(self, host: str, why: str) -> None:
        if not host:
            return
        self._gone.setdefault(host, why)
        for channel in list(self._here[host].channels.values()) if host in self._here else ():
            channel.finish(error=self._closed(host, why))
        self._news.notify_all()

    def _closed(self, host: str, why: str) -> TransportError:
        remedy = f"see what this says: {self._site.try_out(host)}"
        return TransportError(ErrorKind.CLOSED, f"{host}: {why}", remedy)

    def _last_words(self) -> str:
        """The first of the engine's last lines that tell of something bad; else its last one."""
        return self._bad_news() or next(filter(None, reversed(list(self._words))), "")

    def _bad_news(self) -> str:
        return "; ".join([line for line in list(self._words) if _BAD_NEWS.search(line)][:2])
