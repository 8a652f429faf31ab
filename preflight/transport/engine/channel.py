"""One program on one node, as the controller sees it: a view on the engine's one stream."""

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

MOST = 8 << 20  # bytes that wait here to be read; who says more is cut off, so that the others are heard
GRACE = 3.0  # seconds a program has after `close` to end by itself, having seen the end of its stdin

Explain = Callable[[int, bytes], TransportError | None]  # exit code, stderr → why the program never ran


class EngineChannel:
    """See `preflight.transport.types.Channel`. `tell` has the node obey an order's words, `words_for` are those that
    bring data."""

    def __init__(
        self, target: Target, tell: Callable[[str], None], words_for: Callable[[bytes], list[str]], explain: Explain
    ) -> None:
        self._place, self._tell, self._words_for, self._explain = target, tell, words_for, explain
        self._stderr = Tail(STDERR_TAIL)
        self._waiting: deque[Chunk] = deque()
        self._size = 0
        self._unpack = {is_stderr: zlib.decompressobj() for is_stderr in (False, True)}
        self._news = threading.Condition()
        self._over = False
        self._closed = False
        self._error: TransportError | None = None
        self.status: int | None = None  # its exit code, once it has ended

    # What the engine has for it, called by the engine's thread.

    def take(self, packed: bytes, *, is_stderr: bool) -> None:
        """A piece of the relay's stream of zlib's."""
        unpack = self._unpack[is_stderr]
        try:
            data = unpack.decompress(packed, MOST)
        except zlib.error:
            return self._cut_off("what came of it is damaged")
        if unpack.unused_data:  # what comes after the stream's end would be kept for ever
            return self._cut_off("what came of it is damaged")
        if not data:
            return None
        with self._news:
            if self._over:
                return None
            if is_stderr:
                self._stderr.add(data)
            self._waiting.append((is_stderr, data))
            self._size += len(data)
            self._news.notify_all()
        return self._cut_off(f"it says more than is read: {MOST >> 20} MiB wait") if self._size > MOST else None

    def _cut_off(self, why: str) -> None:
        self._tell(frames.end(0))
        self.finish(error=errors.closed(self._place, why))

    def finish(self, status: int | None = None, error: TransportError | None = None) -> None:
        with self._news:
            if not self._over:
                self._over, self.status, self._error = True, status, error
                self._news.notify_all()

    # A channel's.

    def send(self, data: bytes) -> None:
        if self._over:
            raise errors.closed(self._place, "the program has ended")
        for words in self._words_for(data):
            self._tell(words)

    def end_input(self) -> None:
        """Nothing more comes on its stdin."""
        self._tell(frames.LAST)

    def chunks(self, deadline: float | None = None) -> Iterator[Chunk]:
        """What the program writes, to its end. Raises TimeoutError at `deadline` of time.monotonic()."""
        while True:
            with self._news:
                while not self._waiting and not self._over:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise TimeoutError
                    self._news.wait(left)
                if not self._waiting:
                    return
                chunk = self._waiting.popleft()
                self._size -= len(chunk[1])
            yield chunk

    def lines(self) -> Iterator[bytes]:
        return split_lines(data for is_stderr, data in self.chunks() if not is_stderr)

    def stderr_tail(self) -> bytes:
        return bytes(self._stderr)

    def error(self) -> TransportError | None:
        if self._closed:
            return None
        return self._error or (None if self.status is None else self._explain(self.status, self.stderr_tail()))

    def close(self) -> None:
        if not self._over:
            self._closed = True
            self._tell(frames.end(GRACE))
            self.finish()
