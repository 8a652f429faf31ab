"""Channel to one program on one node, as a part of the engine's one stream."""

import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator

from preflight.transport import errors
from preflight.transport.engine import frames
from preflight.transport.errors import Target
from preflight.transport.streams import STDERR_TAIL, Chunk, Tail, split_lines
from preflight.transport.types import TransportError

MOST = 8 << 20  # bytes of unread output; a program that exceeds this is ended, so that it does not block the others
GRACE = 3.0  # seconds from the end of a program's stdin in `close` to its end by force

ExplainExit = Callable[[int, bytes], TransportError | None]  # exit code, stderr → why the program never ran


class EngineChannel:
    """`Channel` through an engine. `order` sends the node an order; `data_orders` makes the orders that carry data."""

    def __init__(
        self,
        target: Target,
        order: Callable[[str], None],
        data_orders: Callable[[bytes], list[str]],
        explain_exit: ExplainExit,
    ) -> None:
        self._target, self._order, self._data_orders, self._explain_exit = target, order, data_orders, explain_exit
        self._stderr = Tail(STDERR_TAIL)
        self._unread: deque[Chunk] = deque()
        self._size = 0
        self._unpack = {is_stderr: zlib.decompressobj() for is_stderr in (False, True)}
        self._changed = threading.Condition()
        self._ended = False
        self._closed = False
        self._error: TransportError | None = None
        self.status: int | None = None  # the exit code of a program that has ended

    # The engine's thread calls these.

    def take(self, packed: bytes, *, is_stderr: bool) -> None:
        """Take a piece of the relay's zlib stream."""
        unpack = self._unpack[is_stderr]
        try:
            data = unpack.decompress(packed, MOST)
        except zlib.error:
            return self._fail("its output is damaged")
        if unpack.unused_data:  # data after the end of the stream would be kept forever
            return self._fail("its output is damaged")
        if not data:
            return None
        with self._changed:
            if self._ended:
                return None
            if is_stderr:
                self._stderr.add(data)
            self._unread.append((is_stderr, data))
            self._size += len(data)
            self._changed.notify_all()
        return (
            self._fail(f"its output is not read fast enough: {MOST >> 20} MiB are waiting")
            if self._size > MOST
            else None
        )

    def _fail(self, reason: str) -> None:
        self._order(frames.end(0))
        self.finish(error=errors.closed(self._target, reason))

    def finish(self, status: int | None = None, error: TransportError | None = None) -> None:
        with self._changed:
            if not self._ended:
                self._ended, self.status, self._error = True, status, error
                self._changed.notify_all()

    # The interface of `Channel`.

    def send(self, data: bytes) -> None:
        if self._ended:
            raise errors.closed(self._target, "the program has ended")
        for order in self._data_orders(data):
            self._order(order)

    def end_input(self) -> None:
        """Close the program's stdin."""
        self._order(frames.LAST)

    def chunks(self, deadline: float | None = None) -> Iterator[Chunk]:
        """Yield the program's output to its end. Raises TimeoutError at `deadline` (time.monotonic())."""
        while True:
            with self._changed:
                while not self._unread and not self._ended:
                    timeout = None if deadline is None else deadline - time.monotonic()
                    if timeout is not None and timeout <= 0:
                        raise TimeoutError
                    self._changed.wait(timeout)
                if not self._unread:
                    return
                chunk = self._unread.popleft()
                self._size -= len(chunk[1])
            yield chunk

    def lines(self) -> Iterator[bytes]:
        return split_lines(data for is_stderr, data in self.chunks() if not is_stderr)

    def stderr_tail(self) -> bytes:
        return bytes(self._stderr)

    def error(self) -> TransportError | None:
        if self._closed:
            return None
        return self._error or (None if self.status is None else self._explain_exit(self.status, self.stderr_tail()))

    def close(self) -> None:
        if not self._ended:
            self._closed = True
            self._order(frames.end(GRACE))
            self.finish()
