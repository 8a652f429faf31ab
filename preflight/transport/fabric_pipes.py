"""stdin, stdout and stderr of a program on a channel of paramiko, moved by one thread.

paramiko offers blocking calls for one stream at a time. A client that writes all its data before it reads blocks
forever if the program does the same.
"""

import contextlib
import threading
from collections.abc import Iterator

from paramiko import Channel

from preflight.transport.streams import Chunk

_READ = 1 << 18  # bytes at a time
_WRITE = 1 << 15  # bytes at a time: the capacity of an ssh message
_POLL = 0.02  # seconds between two tries to write while the window of the other side is full


class _Bell(threading.Event):
    """Event that paramiko's buffers set when data or the end arrives. Only the reader resets it.

    `Channel.fileno` is similar, but uses a pipe for each channel: two more open files. And a wake-up is lost if stdout
    is emptied while stderr is filled.
    """

    def clear(self) -> None:
        """Do nothing: paramiko calls this when one of the two buffers is empty."""

    def silence(self) -> None:
        super().clear()


class Pipes:
    """stdin, stdout and stderr of a program behind `channel`."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._bell = _Bell()
        self._input = b""
        self._written = 0
        channel.in_buffer.set_event(self._bell)
        channel.in_stderr_buffer.set_event(self._bell)

    def send(self, data: bytes) -> None:
        """Write all of `data`. Raises OSError, EOFError or SSHException if the program no longer reads."""
        self.channel.sendall(data)

    def feed(self, data: bytes) -> None:
        """Have `chunks` write `data` to stdin and then close it."""
        self._input = data
        if not data:
            self._end()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the output until the end of both streams. Meanwhile write the data of `feed`."""
        while True:
            self._bell.silence()
            at_end = self.channel.closed or self.channel.eof_received  # read first: data arrives before the end
            wrote = self._write_some()
            if self.channel.recv_ready():
                yield False, self.channel.recv(_READ)
            elif self.channel.recv_stderr_ready():
                yield True, self.channel.recv_stderr(_READ)
            elif at_end:
                return
            elif not wrote:
                # No event signals that the window of the other side opens again.
                self._bell.wait(_POLL if self._input else None)

    def _write_some(self) -> bool:
        """Write as much as possible without waiting. Return true if any data was written.

        A program may end without reading all of it; its exit code and stderr then show the reason.
        """
        if not self._input or not self.channel.send_ready():
            return False
        try:
            count = self.channel.send(self._input[self._written : self._written + _WRITE])
        except OSError:
            count = 0
        self._written += count
        if not count or self._written >= len(self._input):
            self._input = b""
            self._end()
        return True

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self.channel.shutdown_write()
