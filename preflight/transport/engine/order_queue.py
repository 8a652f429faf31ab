"""Queue of orders to the nodes of an engine. Equal orders share a line; similar data is sent as a difference."""

import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from time import monotonic

from preflight.transport.engine import frames
from preflight.transport.engine.frames import NodeOrder

BEAT = 2.0  # seconds between two heartbeats to the nodes
GATHER = 0.02  # seconds in which the orders of several nodes are collected into lines
LONG = 250  # bytes of data from which on a difference is tried


class OrderQueue:
    """Queue of orders. Thread-safe.

    `broadcast` takes lines for all nodes. If nodes may start later, it must keep the lines for them.
    A number stands for a command with its source. Its dictionary is the data last sent to it, by the name on the nodes.
    """

    def __init__(self) -> None:
        self.broadcast: Callable[[bytes], None] = self.put
        self._orders: queue.SimpleQueue[NodeOrder | bytes | None] = queue.SimpleQueue()
        self._numbers: dict[tuple[str, str], int] = {}  # by command and source
        self._runs: dict[tuple[str, int], int] = defaultdict(int)  # runs so far, by host and number
        self._dictionaries: dict[int, tuple[str, bytes]] = {}  # by number: name, data
        self._count = count()
        self._lock = threading.Lock()

    def register(self, host: str, command: str, source: str) -> tuple[int, str]:
        """Return the number of the command and source, and the program's name on the host.

        The name is the same on all hosts that run the same program for the same time, so that they share orders.
        All nodes receive the source once.
        """
        with self._lock:
            number = self._numbers.setdefault((command, source), len(self._numbers))
            if number not in self._dictionaries:
                self._dictionaries[number] = ("", b"")
                self.broadcast(frames.text_line(f"{number}", source.encode()))
            run = self._runs[host, number]
            self._runs[host, number] += 1
            return number, f"{number}.{run}"

    def data_orders(self, number: int, data: bytes) -> list[str]:
        """Return orders that carry `data`. Long data becomes a difference, or the dictionary for the next data."""
        if len(data) < LONG:
            return list(frames.stdin_orders(data))
        with self._lock:
            name, like = self._dictionaries[number]
            if not frames.is_like(data, like):
                name, like = self._dictionaries[number] = (f"{number} {next(self._count)}", data)
                self.broadcast(frames.text_line(name, like))
            return list(frames.stdin_orders(data, name, like))

    def put(self, order: NodeOrder | bytes) -> None:
        self._orders.put(order)

    def end(self) -> None:
        """End `lines` after the orders that are in the queue."""
        self._orders.put(None)

    def lines(self) -> Iterator[bytes]:
        """Yield the orders of a moment in as few lines as possible; a heartbeat if there are none."""
        while True:
            texts, orders = bytearray(), list[NodeOrder]()
            with suppress(queue.Empty):
                order = self._orders.get(timeout=BEAT)
                deadline = monotonic() + GATHER
                while order is not None:
                    if isinstance(order, NodeOrder):
                        orders.append(order)
                    else:
                        texts += order
                    order = self._orders.get(timeout=max(0.0, deadline - monotonic()))
                yield bytes(texts) + b"".join(frames.lines_of(orders))
                return
            yield bytes(texts) + b"".join(frames.lines_of(orders)) or frames.ALIVE
