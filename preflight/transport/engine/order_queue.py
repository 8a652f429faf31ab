"""What nodes are told over an engine: what many are told alike once, and of what is nearly alike the difference."""

import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from time import monotonic

from preflight.transport.engine import frames
from preflight.transport.engine.frames import NodeOrder

BEAT = 2.0  # seconds between two signs of life to the nodes
GATHER = 0.02  # seconds in which what several nodes are told becomes one line
LONG = 250  # bytes from which on it is looked for what data is like


class OrderQueue:
    """Thread-safe. `tell_all` takes lines for all nodes; where some may come later, it has to keep them for those."""

    def __init__(self) -> None:
        self.tell_all: Callable[[bytes], None] = self.put
        self._orders: queue.SimpleQueue[NodeOrder | bytes | None] = queue.SimpleQueue()
        self._numbers: dict[tuple[str, str], int] = {}  # of what is run: command, source
        self._times: dict[tuple[str, int], int] = defaultdict(int)  # how often each was run on a host
        self._alike: dict[int, tuple[str, bytes]] = {}  # to each what hosts were told lately: as what all nodes have it
        self._count = count()
        self._lock = threading.Lock()

    def named(self, host: str, command: str, text: str) -> tuple[int, str]:
        """The number of what is run, whose source all nodes have been sent by then, and the program's name on the host:
        the same on all hosts that run the same, so that one line tells them all."""
        with self._lock:
            number = self._numbers.setdefault((command, text), len(self._numbers))
            if number not in self._alike:
                self._alike[number] = ("", b"")
                self.tell_all(frames.text_line(f"{number}", text.encode()))
            times = self._times[host, number]
            self._times[host, number] += 1
            return number, f"{number}.{times}"

    def words_for(self, number: int, data: bytes) -> list[str]:
        """Orders that bring `data`. What is long and like what others were told lately takes little; if it is not, the
        next may be like it."""
        if len(data) < LONG:
            return list(frames.more(data))
        with self._lock:
            name, like = self._alike[number]
            if not frames.is_like(data, like):
                name, like = self._alike[number] = (f"{number} {next(self._count)}", data)
                self.tell_all(frames.text_line(name, like))
            return list(frames.more(data, name, like))

    def put(self, order: NodeOrder | bytes) -> None:
        self._orders.put(order)

    def end(self) -> None:
        """Nothing more is to be said than what has been put."""
        self._orders.put(None)

    def lines(self) -> Iterator[bytes]:
        """All that is to be said in a moment, as few lines as may be; a sign of life where there is nothing."""
        while True:
            texts, orders = bytearray(), list[NodeOrder]()
            with suppress(queue.Empty):
                order = self._orders.get(timeout=BEAT)
                until = monotonic() + GATHER
                while order is not None:
                    if isinstance(order, NodeOrder):
                        orders.append(order)
                    else:
                        texts += order
                    order = self._orders.get(timeout=max(0.0, until - monotonic()))
                yield bytes(texts) + b"".join(frames.lines_of(orders))
                return
            yield bytes(texts) + b"".join(frames.lines_of(orders)) or frames.ALIVE
