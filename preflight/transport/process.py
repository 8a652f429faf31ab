"""Local processes that run a program: the system's ssh, or a shell on this machine.

One loop moves stdin, stdout and stderr, so that neither side waits for the other, and every wait has an end.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import IO

from preflight.transport import attempt, errors
from preflight.transport.bootstrap import Call
from preflight.transport.streams import STDERR_TAIL, BoundedOutput, Chunk, Tail, split_lines
from preflight.transport.types import Answer, TransportError

_EXIT_CODE_TIMEOUT = 1.0  # seconds from the end of a program's output to its exit code
_SIGTERM_TIMEOUT = 1.5  # seconds that a program has to end its tools
_PROBE_SIGNAL = 0  # does nothing, but fails if there is no process
_READ = 1 << 16  # bytes at a time: the capacity of a pipe


class PipedProcess:
    """Process with pipes in a new session: Ctrl-C on the terminal does not reach it, `kill` ends its whole group.

    Raises OSError if `argv` cannot be started.
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
        self.deadline: float | None = None  # of time.monotonic(), for `chunks`
        self._input = memoryview(b"")

    def chunks(self) -> Iterator[Chunk]:
        """Yield the output until the end of both streams. Meanwhile write the data of `feed`.

        Raises TimeoutError when `deadline` has passed.
        """
        stdin, stdout, stderr = self._popen.stdin, self._popen.stdout, self._popen.stderr
        if not (stdin and stdout and stderr):
            raise ValueError("a process without pipes")
        with selectors.DefaultSelector() as selector, stdout, stderr:
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            while any(key.fileobj is not stdin for key in selector.get_map().values()):
                for key in self._ready(selector, stdin):
                    if key.fileobj is stdin:
                        self._write_some(selector, stdin)
                    elif data := os.read(key.fd, _READ):
                        yield key.fileobj is stderr, data
                    else:
                        selector.unregister(key.fileobj)

    def _ready(self, selector: selectors.BaseSelector, stdin: IO[bytes]) -> list[selectors.SelectorKey]:
        """Wait for streams that can be read or written. Raises TimeoutError when `deadline` has passed."""
        if self._input and stdin not in selector.get_map():
            os.set_blocking(stdin.fileno(), False)
            selector.register(stdin, selectors.EVENT_WRITE)
        timeout = None if self.deadline is None else self.deadline - time.monotonic()
        ready = selector.select(timeout) if timeout is None or timeout > 0 else []
        if not ready:
            raise TimeoutError
        return [key for key, _ in ready]

    def _write_some(self, selector: selectors.BaseSelector, stdin: IO[bytes]) -> None:
        """Write a part of the input to stdin; close stdin after the last part, or if the program no longer reads."""
        try:
            self._input = self._input[os.write(stdin.fileno(), self._input[:_READ]) :]
        except BrokenPipeError:
            self._input = memoryview(b"")
        if not self._input:
            selector.unregister(stdin)
            stdin.close()

    def feed(self, data: bytes) -> None:
        """Have `chunks` write `data` to stdin and then close it."""
        self._input = memoryview(data)
        if not data:
            self.close_stdin()

    def send(self, data: bytes) -> None:
        """Write all of `data`. Raises OSError if the program no longer reads."""
        stdin = self._popen.stdin
        if stdin is None or stdin.closed:
            raise BrokenPipeError("its stdin is closed")
        unsent = memoryview(data)
        while unsent:
            unsent = unsent[os.write(stdin.fileno(), unsent) :]

    def close_stdin(self) -> None:
        if self._popen.stdin:
            self._popen.stdin.close()

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal. Raises TimeoutError."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None

    def kill(self) -> None:
        """End the whole group. Idempotent.

        After SIGTERM a program has a moment to end its tools, which are in other sessions.
        Processes that sudo started for another user cannot be killed and stay.
        """
        if not self.running:
            return
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + _SIGTERM_TIMEOUT
        while self._signal(_PROBE_SIGNAL) and time.monotonic() < deadline:
            self._popen.poll()  # a zombie still counts for the group
            time.sleep(0.002)
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM to the whole group."""
        if self.running:
            self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> bool:
        """Signal the group. Return true if it has a process that takes signals of this user."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)
            return True
        return False


def run(process: PipedProcess, call: Call, *, started: float, timeout: float, limit: int) -> Answer:
    """Send the call's program to the process and read its output, to the end or to `limit`.

    Raises TimeoutError, and TransportError if sudo refuses the password.
    """
    output = BoundedOutput(limit)
    process.deadline = started + timeout
    chunks = process.chunks()
    try:
        with attempt.current().breakable(process.kill):
            early = call.dialogue.become(chunks, process.send, process.deadline) if call.dialogue else ()
            process.feed(call.data)
            for is_stderr, chunk in chain(early, chunks):
                output.add(is_stderr, chunk)
                if output.too_much:
                    return output.answer(-1, time.monotonic() - started)
            status = process.wait(max(0.0, process.deadline - time.monotonic()))
    finally:
        process.kill()
    return output.answer(status, time.monotonic() - started)


class ProcessChannel:
    """`Channel` to a local process. `grace`: seconds from the end of its stdin in `close` to its end by force."""

    def __init__(self, process: PipedProcess, call: Call, *, grace: float) -> None:
        self._process = process
        self._call = call
        self._chunks = process.chunks()
        self._early: tuple[Chunk, ...] = ()
        self._grace = grace
        self._stderr = Tail(STDERR_TAIL)
        self._sending = threading.Lock()
        self._closed = False

    def begin(self, deadline: float) -> None:
        """Answer sudo's prompt, then send the program its source. Raises TimeoutError and TransportError.

        If the program cannot be started, sending may fail already; `error` then knows the reason.
        """
        dialogue = self._call.dialogue
        if dialogue:
            self._process.deadline = deadline
            with attempt.current().breakable(self._process.kill):
                self._early = dialogue.become(self._chunks, self._process.send, deadline)
            self._process.deadline = None
        if dialogue is None or dialogue.python_ready:
            with contextlib.suppress(TransportError):
                self.send(self._call.data)

    def send(self, data: bytes) -> None:
        try:
            with self._sending:
                self._process.send(data)
        except (OSError, ValueError) as error:
            raise errors.closed(self._call.target, errors.one_line(str(error))) from None

    def lines(self) -> Iterator[bytes]:
        return split_lines(self._stderr.take_from(chain(self._early, self._chunks)))

    def stderr_tail(self) -> bytes:
        return bytes(self._stderr)

    def error(self) -> TransportError | None:
        if self._closed:
            return None
        try:
            return self._call.error(self._process.wait(_EXIT_CODE_TIMEOUT), b"", self.stderr_tail())
        except TimeoutError:
            return None

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._grace and self._sending.acquire(timeout=self._grace):
            self._process.close_stdin()
            self._sending.release()
            killer = threading.Timer(self._grace, self._process.kill)
            killer.daemon = True
            killer.start()
        else:
            self._process.kill()
            with contextlib.suppress(TimeoutError):
                self._process.wait(1.0)
