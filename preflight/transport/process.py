"""A program behind a local process: the system's ssh, or a shell on this machine.

One loop moves stdin, stdout and stderr, so that neither side waits for the other, and every wait has an end.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from preflight.transport import attempt, errors
from preflight.transport.errors import Target
from preflight.transport.streams import STDERR_TAIL, BoundedOutput, Chunk, Tail, split_lines
from preflight.transport.sudo import SudoDialogue
from preflight.transport.types import Answer, TransportError

_EXIT_CODE = 1.0  # seconds that a program's exit code may come after the end of its output
_FAREWELL = 1.5  # seconds that a program has to end its tools
_NONE = 0  # the signal that only asks whether a process is there
_READ = 1 << 16  # bytes at a time: what a pipe holds


class PipedProcess:
    """A process with pipes, in a group of its own: Ctrl-C on the terminal does not reach it, `kill` reaches all of it.

    Raises OSError where `argv` cannot be started.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._popen = subprocess.Popen(
            argv,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.deadline: float | None = None  # of time.monotonic(): when `chunks` gives up
        self._food = memoryview(b"")

    def chunks(self) -> Iterator[Chunk]:
        """What arrives until the end of both streams; what is to be fed is written meanwhile.

        Raises TimeoutError when `deadline` has passed.
        """
        stdin, stdout, stderr = self._popen.stdin, self._popen.stdout, self._popen.stderr
        assert stdin and stdout and stderr  # noqa: S101  (for the type checker: all three are pipes)
        with selectors.DefaultSelector() as selector, stdout, stderr:
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            while any(key.fileobj is not stdin for key in selector.get_map().values()):
                if self._food and stdin not in selector.get_map():
                    os.set_blocking(stdin.fileno(), False)
                    selector.register(stdin, selectors.EVENT_WRITE)
                patience = None if self.deadline is None else self.deadline - time.monotonic()
                ready = selector.select(patience) if patience is None or patience > 0 else []
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    if key.fileobj is stdin:
                        self._food = self._food[_write_some(stdin.fileno(), self._food) :]
                        if not self._food:
                            selector.unregister(stdin)
                            stdin.close()
                        continue
                    data = os.read(key.fd, _READ)
                    if data:
                        yield key.fileobj is stderr, data
                    else:
                        selector.unregister(key.fileobj)

    def feed(self, data: bytes) -> None:
        """Have `chunks` write `data` to stdin and then close it."""
        self._food = memoryview(data)
        if not data:
            self.close_stdin()

    def send(self, data: bytes) -> None:
        """Write all of `data`; raises OSError if nobody reads any more."""
        stdin = self._popen.stdin
        if stdin is None or stdin.closed:
            raise BrokenPipeError("its stdin is closed")
        left = memoryview(data)
        while left:
            left = left[os.write(stdin.fileno(), left) :]

    def close_stdin(self) -> None:
        if self._popen.stdin:
            self._popen.stdin.close()

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal; raises TimeoutError."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None

    def kill(self) -> None:
        """End the whole group; idempotent. A program that was told to end has a moment to end the tools that it has
        started, which are in sessions of their own. What sudo started for another user cannot be killed and is left."""
        if not self.running:
            return
        self._signal(signal.SIGTERM)
        until = time.monotonic() + _FAREWELL
        while self._signal(_NONE) and time.monotonic() < until:
            self._popen.poll()  # a zombie is still of the group
            time.sleep(0.002)
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the whole group to end."""
        if self.running:
            self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> bool:
        """Signal the group; return whether there is a process in it that takes signals of this user."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)
            return True
        return False


def _write_some(stdin: int, data: memoryview) -> int:
    """How much is done with: all of it where the program has stopped reading, which is its own business."""
    try:
        return os.write(stdin, data[:_READ])
    except BrokenPipeError:
        return len(data)


def run(
    process: PipedProcess, data: bytes, *, started: float, timeout: float, limit: int, talk: SudoDialogue | None = None
) -> Answer:
    """Feed `data` to the process and read its output, to the end or to `limit`. `talk`: what has to be said before.

    Raises TimeoutError, and what `talk` raises.
    """
    output = BoundedOutput(limit)
    process.deadline = started + timeout
    chunks = process.chunks()
    try:
        with attempt.current().breakable(process.kill):
            early = talk.become(chunks, process.send, process.deadline) if talk else ()
            process.feed(data)
            for is_stderr, chunk in chain(early, chunks):
                output.add(is_stderr, chunk)
                if output.too_much:
                    return output.answer(-1, time.monotonic() - started)
            status = process.wait(max(0.0, process.deadline - time.monotonic()))
    finally:
        process.kill()
    return output.answer(status, time.monotonic() - started)


class ProcessChannel:
    """See `preflight.transport.types.Channel`.

    `grace`: seconds that the program has after `close` to end by itself, having seen the end of its stdin. `explain`:
    from exit code and stderr to why the program never ran.
    """

    def __init__(
        self,
        process: PipedProcess,
        target: Target,
        *,
        grace: float,
        explain: Callable[[int, bytes], TransportError | None],
    ) -> None:
        self._process = process
        self._chunks = process.chunks()
        self._early: tuple[Chunk, ...] = ()
        self._place = target
        self._grace = grace
        self._explain = explain
        self._stderr = Tail(STDERR_TAIL)
        self._sending = threading.Lock()
        self._closed = False

    def begin(self, data: bytes, talk: SudoDialogue | None = None, deadline: float | None = None) -> None:
        """Send the program its source, after what has to be said before; raises what `talk` raises.

        Where it cannot be started, sending may fail already; `trouble` then knows why.
        """
        if talk and deadline is not None:
            self._process.deadline = deadline
            with attempt.current().breakable(self._process.kill):
                self._early = talk.become(self._chunks, self._process.send, deadline)
            self._process.deadline = None
        if talk is None or talk.through:
            with contextlib.suppress(TransportError):
                self.send(data)

    def send(self, data: bytes) -> None:
        try:
            with self._sending:
                self._process.send(data)
        except (OSError, ValueError) as error:
            raise errors.closed(self._place, errors.one_line(str(error))) from None

    def lines(self) -> Iterator[bytes]:
        return split_lines(self._stdout())

    def _stdout(self) -> Iterator[bytes]:
        for is_stderr, data in chain(self._early, self._chunks):
            if is_stderr:
                self._stderr.add(data)
            else:
                yield data

    def stderr_tail(self) -> bytes:
        return bytes(self._stderr)

    def error(self) -> TransportError | None:
        if self._closed:
            return None
        try:
            return self._explain(self._process.wait(_EXIT_CODE), self.stderr_tail())
        except TimeoutError:
            return None

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._grace and self._sending.acquire(timeout=self._grace):
            self._process.close_stdin()
            self._sending.release()
            late = threading.Timer(self._grace, self._process.kill)
            late.daemon = True
            late.start()
        else:
            self._process.kill()
            with contextlib.suppress(TimeoutError):
                self._process.wait(1.0)
