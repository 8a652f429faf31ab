"""stdin, stdout and stderr of a program behind a channel of paramiko, moved by one thread.

paramiko itself offers waiting calls for one stream at a time. Whoever writes all before it reads waits forever for a
program that does the same.
"""

import contextlib
import threading
from collections.abc import Iterator

from paramiko import Channel

from preflight.transport.streams import Chunk

_READ = 1 << 18  # bytes at a time
_WRITE = 1 << 15  # bytes at a time: what a message of ssh holds
_LOOK_AGAIN = 0.02  # seconds between two looks whether the other side takes more, while it takes nothing


class _Bell(threading.Event):
    """Rung by paramiko's buffers when data or the end arrives; only the reader silences it.

    `Channel.fileno` does a similar thing with a pipe a channel: two more open files, and a wake-up gets lost when
    stdout is emptied while stderr is filled.
    """

    def clear(self) -> None:
        """What paramiko calls when one of the two buffers is empty."""

    def silence(self) -> None:
        super().clear()


class Pipes:
    """stdin, stdout and stderr of a program behind `channel`."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._bell = _Bell()
        self._food = b""
        self._eaten = 0
        channel.in_buffer.set_event(self._bell)
        channel.in_stderr_buffer.set_event(self._bell)

    def send(self, data: bytes) -> None:
        """Write all of `data`; raises OSError, EOFError or SSHException if nobody reads any more."""
        self.channel.sendall(data)

    def feed(self, data: bytes) -> None:
        """Have `chunks` write `data` to stdin and then close it."""
        self._food = data
        if not data:
            self._end()

    def chunks(self) -> Iterator[Chunk]:
        """What arrives until the end of both streams; what is to be fed is written meanwhile."""
        while True:
            self._bell.silence()
            at_end = self.channel.closed or self.channel.eof_received  # looked at first: data arrives before the end
            wrote = self._write_some()
            if self.channel.recv_ready():
                yield False, self.channel.recv(_READ)
            elif self.channel.recv_stderr_ready():
                yield True, self.channel.recv_stderr(_READ)
            elif at_end:
                return
            elif not wrote:
                # That the other side takes more again rings no bell.
                self._bell.wait(_LOOK_AGAIN if self._food else None)

    def _write_some(self) -> bool:
        """Write as much as is taken without waiting; whether that was anything.

        A program that ends without reading all of it has its reasons; they are in its exit code and stderr.
        """
        if not self._food or not self.channel.send_ready():
            return False
        try:
            count = self.channel.send(self._food[self._eaten : self._eaten + _WRITE])
        except OSError:
            count = 0
        self._eaten += count
        if not count or self._eaten >= len(self._food):
            self._food = b""
            self._end()
        return True

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self.channel.shutdown_write()
