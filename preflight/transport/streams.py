"""Streams of bytes from a host, kept within bounds."""

from collections.abc import Iterable, Iterator

from preflight.transport.types import Answer

Chunk = tuple[bool, bytes]  # (is it stderr, data)

# All in bytes. The end of a longer line is dropped; a program that writes STDERR_MOST is ended.
LONGEST_LINE = 1 << 20
STDERR_KEPT = 64 << 10
STDERR_MOST = 16 << 20
STDERR_TAIL = 4 << 10


class Tail:
    """Buffer that keeps the last `size` bytes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._data = b""

    def add(self, data: bytes) -> None:
        self._data = (self._data + data)[-self._size :]

    def take_from(self, chunks: Iterable[Chunk]) -> Iterator[bytes]:
        """Add the stderr of the chunks, and yield their stdout."""
        for is_stderr, data in chunks:
            if is_stderr:
                self.add(data)
            else:
                yield data

    def __bytes__(self) -> bytes:
        return self._data


class BoundedOutput:
    """Output of a program: the first `limit` bytes of stdout, the last STDERR_KEPT bytes of stderr."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stdout = bytearray()
        self._stderr = Tail(STDERR_KEPT)
        self._stderr_size = 0

    def add(self, is_stderr: bool, data: bytes) -> None:
        if is_stderr:
            self._stderr.add(data)
            self._stderr_size += len(data)
        else:
            self._stdout += data

    @property
    def too_much(self) -> bool:
        """Return true if the program has to be ended."""
        return len(self._stdout) > self._limit or self._stderr_size > STDERR_MOST

    def answer(self, status: int, seconds: float) -> Answer:
        """Return the answer with the exit code `status`, or -1 for a program that was ended."""
        cut = self.too_much
        return Answer(bytes(self._stdout[: self._limit]), bytes(self._stderr), -1 if cut else status, seconds, cut)


def split_lines(chunks: Iterable[bytes], longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Yield lines without their newline, each at most `longest` bytes. A last line without a newline counts too."""
    line = bytearray()
    for chunk in chunks:
        *line_ends, unfinished = chunk.split(b"\n")
        for part in line_ends:
            line += part[: longest - len(line)]
            yield bytes(line)
            line.clear()
        line += unfinished[: longest - len(line)]
    if line:
        yield bytes(line)
