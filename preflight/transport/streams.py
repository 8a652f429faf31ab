"""Bytes from a host, kept within bounds."""

from collections.abc import Iterable, Iterator

from preflight.transport.types import Answer

Chunk = tuple[bool, bytes]  # (is it stderr, data)

LONGEST_LINE = 1 << 20  # bytes; what a line has beyond is dropped
STDERR_KEPT = 64 << 10  # bytes of a program's stderr, the last ones
STDERR_MOST = 16 << 20  # bytes of stderr after which a program is cut off
STDERR_TAIL = 4 << 10  # bytes of an agent's stderr, the last ones


class Tail:
    """The last `size` bytes of what was added."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._data = b""

    def add(self, data: bytes) -> None:
        self._data = (self._data + data)[-self._size :]

    def __bytes__(self) -> bytes:
        return self._data


class BoundedOutput:
    """What a program prints: the first `limit` bytes of stdout, the last ones of stderr."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stdout = bytearray()
        self._stderr = Tail(STDERR_KEPT)
        self._on_stderr = 0

    def add(self, is_stderr: bool, data: bytes) -> None:
        if is_stderr:
            self._stderr.add(data)
            self._on_stderr += len(data)
        else:
            self._stdout += data

    @property
    def too_much(self) -> bool:
        """Whether the program is to be cut off."""
        return len(self._stdout) > self._limit or self._on_stderr > STDERR_MOST

    def answer(self, status: int, seconds: float) -> Answer:
        """`status`: the program's exit code; does not count where it was cut off."""
        cut = self.too_much
        return Answer(bytes(self._stdout[: self._limit]), bytes(self._stderr), -1 if cut else status, seconds, cut)


def split_lines(chunks: Iterable[bytes], longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Lines without their newline, each at most `longest` bytes; a last one without newline counts too."""
    line = bytearray()
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line += part[: longest - len(line)]
            yield bytes(line)
            line.clear()
        line += rest[: longest - len(line)]
    if line:
        yield bytes(line)
