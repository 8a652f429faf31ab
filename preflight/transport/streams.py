"""Bytes from a host, kept within bounds."""

from collections.abc import Iterable, Iterator

LONGEST_LINE = 1 << 20  # bytes; what a line has beyond is dropped
STDERR_KEPT = 64 << 10  # bytes of a program's stderr, the last ones
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
