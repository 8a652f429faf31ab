"""A transport over one engine process: srun or mpirun starts a relay (`preflight/remote/relay.py`) on every node, once,
and carries what all programs on all hosts hear and say.

Two threads, whatever the number of hosts: one reads what comes and hands it to whom it is for (`nodes.py`), and never
waits for anybody; the other writes what hosts are told, and gathers for a moment what many of them are told alike
(`outgoing.py`).
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

START = 120.0  # seconds for the engine to start something: jobs queue, and mpirun logs in everywhere first
FAREWELL = 6.0  # seconds for relays and engine to end after the end of their input
TERM = 3.0  # seconds from SIGTERM to SIGKILL


class Engine:
    """See `preflight.transport.types.Transport`. The engine process begins with the first host that is asked for."""

    def __init__(self, site: EngineSite, hosts: Sequence[Host]) -> None:
        self._site = site
        self._addresses = [host.address for host in hosts]
        self._nonce = site.nonce or secrets.token_hex(16)
        self._nodes = Nodes(site, len(hosts), self._nonce)
        self._process: PipedProcess | None = None
        self._calls: Callbacks | None = None
        self._outgoing = OrderQueue()
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
            raise self._nodes.late(host.name, timeout, "the program") from None
        finally:
            channel.close()
        answer = output.answer(-1 if channel.status is None else channel.status, time.monotonic() - started)
        error = channel.error() or call.error(answer.exit, answer.stdout, answer.stderr)
        if error:
            raise error
        return answer

    def start(self, host: Host, program: Program, *, timeout: float) -> EngineChannel:
        return self._begin(host, program, timeout)[0]

    def begin(self, hosts: Sequence[Host], most: float | None = None) -> None:
        """Start the engine, and wait until these are there, as far as they come: how long that takes is no host's
        fault. `ended` says so where nobody has come in `most` seconds (START)."""
        self._launch()
        self._nodes.wait_for_all([host.name for host in hosts], START if most is None else min(START, most))

    @property
    def ended(self) -> str:
        """Why no host is reached any more, and that is none's fault; empty while one is."""
        return self._nodes.over or self._nodes.all_lost()

    def close(self) -> None:
        """End the engine and all that it started; takes some seconds at most."""
        with self._launching:  # nobody starts it any more
            self._nodes.end(f"{self._site.name} has been ended")
        if self._calls:
            self._calls.close()
        if not self._process:
            return
        self._outgoing.end()
        for patience, or_else in ((FAREWELL, self._process.terminate), (TERM, self._process.kill)):
            try:
                self._process.wait(patience)
            except TimeoutError:
                or_else()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _begin(self, host: Host, program: Program, timeout: float) -> tuple[EngineChannel, Call]:
        """Have the host's relay start the program, and feed it."""
        target = Target(host.name, self._site.name)
        call = Call(target, program, sudo=host.ssh.sudo, password=None)
        waiting_for(f"{self._site.name} to start a relay")
        self._launch()
        node = self._nodes.wait_for(host.name, timeout)
        number, name = self._outgoing.named(host.name, call.command, program.source)
        channel = EngineChannel(
            target,
            lambda words: self._outgoing.put(NodeOrder(node, name, words)),
            lambda data: self._outgoing.words_for(number, data),
            lambda status, stderr: call.error(status, b"", stderr),
        )
        self._nodes.attach(host.name, name, channel)
        self._outgoing.put(NodeOrder(node, name, frames.run(("sh", "-c", call.command), f"{number}")))
        with suppress(TransportError):  # its trouble is told by who reads
            channel.send(program.payload)
        return channel, call

    def _launch(self) -> None:
        """Once."""
        with self._launching:
            if not self._process and not self._nodes.over:
                self._start_process()

    def _start_process(self) -> None:
        words = {"PREFLIGHT_NONCE": self._nonce, "PREFLIGHT_RANK_IN": self._site.rank}
        argv = (*self._site.argv, "python3", "-I", "-c", source("relay"))
        try:
            if self._site.calls:
                self._calls = Callbacks(self._nonce, self._site.port, self._site.key)
                self._outgoing.tell_all = self._calls.keep
                words["PREFLIGHT_CALL"] = self._calls.addresses(self._addresses)
                words["PREFLIGHT_KEY"] = self._site.key
            inherited = {name: value for name, value in os.environ.items() if name not in self._site.without}
            self._process = PipedProcess(argv, {**inherited, **self._site.environment, **words})
        except OSError as error:
            self._nodes.end(f"{self._site.name} could not be started: {error.strerror}")
            return
        streams = [split_lines(data for is_stderr, data in self._process.chunks() if is_stderr)]
        if self._calls:
            streams.append(self._calls.lines())
        for lines in streams:
            threading.Thread(target=self._listen, args=(lines,), name=self._site.name, daemon=True).start()
        threading.Thread(target=self._talk, args=(self._process,), name=self._site.name, daemon=True).start()

    def _listen(self, lines: Iterable[bytes]) -> None:
        why = "ended"
        try:
            for line in lines:
                self._nodes.hear(line)
        except Exception as error:  # a thread that dies in silence would leave all waiting
            why = f"{type(error).__name__}: {error}"
        self._nodes.end(f"{self._site.name} has {why}")

    def _talk(self, process: PipedProcess) -> None:
        with suppress(OSError, ValueError):  # that nobody listens any more is found by who reads
            for lines in self._outgoing.lines():
                (self._calls or process).send(lines)
                self._nodes.miss_the_silent()
        process.close_stdin()
