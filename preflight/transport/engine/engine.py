"""Transport over one engine process: srun or mpirun starts a relay (`preflight/remote/relay.py`) on every node.

The engine carries stdin and output of all programs on all hosts. Two threads serve any number of hosts: one reads the
stream and passes the output to the channels (`nodes.py`) without ever waiting. The other writes orders, and collects
equal ones for several hosts for a moment (`order_queue.py`).
"""

import os
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType

from preflight.model.cluster import Host
from preflight.transport import attempt
from preflight.transport.attempt import waiting_for
from preflight.transport.bootstrap import Call
from preflight.transport.engine import frames
from preflight.transport.engine.callbacks import Callbacks
from preflight.transport.engine.channel import EngineChannel
from preflight.transport.engine.frames import NodeOrder
from preflight.transport.engine.nodes import Nodes
from preflight.transport.engine.order_queue import OrderQueue
from preflight.transport.engine.site import EngineSite
from preflight.transport.errors import Target
from preflight.transport.process import PipedProcess
from preflight.transport.programs import source
from preflight.transport.streams import BoundedOutput, split_lines
from preflight.transport.types import Answer, Program, TransportError

START = 120.0  # seconds for the engine to start the first relay: jobs queue, and mpirun logs in everywhere first
FAREWELL = 6.0  # seconds for relays and engine to end after the end of their input
TERM = 3.0  # seconds from SIGTERM to SIGKILL


class Engine:
    """`Transport` through an engine. The first program starts the engine process."""

    def __init__(self, site: EngineSite, hosts: Sequence[Host]) -> None:
        self._site = site
        self._addresses = [host.address for host in hosts]
        self._nonce = site.nonce or secrets.token_hex(16)
        self._nodes = Nodes(site, len(hosts), self._nonce)
        self._process: PipedProcess | None = None
        self._callbacks: Callbacks | None = None
        self._orders = OrderQueue()
        self._launching = threading.Lock()

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        started = time.monotonic()
        channel, call = self._begin(host, program, timeout)
        channel.end_input()
        waiting_for("the program")
        output = BoundedOutput(limit)
        try:
            with attempt.current().breakable(channel.close):
                for is_stderr, data in channel.chunks(started + timeout):
                    output.add(is_stderr, data)
                    if output.too_much:
                        return output.answer(-1, time.monotonic() - started)
        except TimeoutError:
            raise self._nodes.timed_out(host.name, timeout, "the program") from None
        finally:
            channel.close()
        answer = output.answer(-1 if channel.status is None else channel.status, time.monotonic() - started)
        error = channel.error() or call.error(answer.exit, answer.stdout, answer.stderr)
        if error:
            raise error
        return answer

    def start(self, host: Host, program: Program, *, timeout: float) -> EngineChannel:
        return self._begin(host, program, timeout)[0]

    def begin(self, hosts: Sequence[Host], limit: float | None = None) -> None:
        """Start the engine and wait for the nodes of these hosts, so that no host is blamed for the engine's start.

        If none has started in `limit` seconds (START at most), `ended` has the reason.
        """
        self._launch()
        self._nodes.wait_for_all([host.name for host in hosts], START if limit is None else min(START, limit))

    @property
    def ended(self) -> str:
        """Return why the engine reaches no host any more; empty while it reaches one."""
        return self._nodes.end_reason or self._nodes.all_lost()

    def close(self) -> None:
        """End the engine and all programs that it started. Takes some seconds at most."""
        with self._launching:  # from here on no thread starts it
            self._nodes.end(f"{self._site.name} was ended")
        if self._callbacks:
            self._callbacks.close()
        if not self._process:
            return
        self._orders.end()
        for timeout, end in ((FAREWELL, self._process.terminate), (TERM, self._process.kill)):
            try:
                self._process.wait(timeout)
            except TimeoutError:
                end()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _begin(self, host: Host, program: Program, timeout: float) -> tuple[EngineChannel, Call]:
        """Have the host's relay start the program, and send its payload."""
        target = Target(host.name, self._site.name)
        call = Call(target, program, sudo=host.ssh.sudo, password=None)
        waiting_for(f"{self._site.name} to start a relay")
        self._launch()
        node = self._nodes.wait_for(host.name, timeout)
        attempt.current().logged_in()  # the relay runs: from now on the host is only waited for
        number, name = self._orders.register(host.name, call.command, program.source)
        channel = EngineChannel(
            target,
            order=lambda text: self._orders.put(NodeOrder(node, name, text)),
            data_orders=lambda data: self._orders.data_orders(number, data),
            explain_exit=lambda status, stderr: call.error(status, b"", stderr),
        )
        self._nodes.attach(host.name, name, channel)
        self._orders.put(NodeOrder(node, name, frames.run(("sh", "-c", call.command), f"{number}")))
        with suppress(TransportError):  # readers of the channel get the error
            channel.send(program.payload)
        return channel, call

    def _launch(self) -> None:
        """Start the engine process unless it runs or has ended."""
        with self._launching:
            if not self._process and not self._nodes.end_reason:
                self._start_process()

    def _start_process(self) -> None:
        own = {"PREFLIGHT_NONCE": self._nonce, "PREFLIGHT_RANK_IN": self._site.rank}
        argv = (*self._site.argv, "python3", "-I", "-c", source("relay"))
        try:
            if self._site.calls:
                self._callbacks = Callbacks(self._nonce, self._site.port, self._site.key)
                self._orders.broadcast = self._callbacks.broadcast
                own["PREFLIGHT_CALL"] = self._callbacks.addresses(self._addresses)
                own["PREFLIGHT_KEY"] = self._site.key
            inherited = {name: value for name, value in os.environ.items() if name not in self._site.without}
            self._process = PipedProcess(argv, {**inherited, **self._site.environment, **own})
        except OSError as error:
            self._nodes.end(f"{self._site.name} could not be started: {error.strerror}")
            return
        streams = [split_lines(data for is_stderr, data in self._process.chunks() if is_stderr)]
        if self._callbacks:
            streams.append(self._callbacks.lines())
        for lines in streams:
            threading.Thread(target=self._read, args=(lines,), name=self._site.name, daemon=True).start()
        threading.Thread(target=self._write, args=(self._process,), name=self._site.name, daemon=True).start()

    def _read(self, lines: Iterable[bytes]) -> None:
        state = "ended"
        try:
            for line in lines:
                self._nodes.read(line)
        except Exception as error:  # without this all callers would wait for a dead thread
            state = f"{type(error).__name__}: {error}"
        self._nodes.end(f"{self._site.name} has {state}")

    def _write(self, process: PipedProcess) -> None:
        with suppress(OSError, ValueError):  # the reading thread reports a broken stream
            for lines in self._orders.lines():
                (self._callbacks or process).send(lines)
                self._nodes.drop_silent()
        process.close_stdin()
