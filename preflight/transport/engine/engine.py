"""A transport over one engine process: srun or mpirun starts a relay (`preflight/remote/relay.py`) on every node, once,
and carries what all programs on all hosts hear and say.

Two threads, whatever the number of hosts: one reads what comes and hands it to whom it is for, and never waits for
anybody; the other writes what hosts are told, and gathers for a moment what many of them are told alike.
"""

import os
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

from preflight.model.cluster import Host
from preflight.transport import attempt, troubles
from preflight.transport.attempt import waiting_for
from preflight.transport.bootstrap import Call
from preflight.transport.engine import frames
from preflight.transport.engine.calls import Calls
from preflight.transport.engine.channel import EngineChannel
from preflight.transport.engine.frames import Order, Said
from preflight.transport.engine.names import short
from preflight.transport.engine.outgoing import Outgoing
from preflight.transport.process import Process
from preflight.transport.programs import source
from preflight.transport.streams import Output, split_lines
from preflight.transport.troubles import Place
from preflight.transport.types import Answer, Program, TransportError, Trouble

SILENCE = 20.0  # seconds without a sign of life of a node, which gives one every 5, after which it is gone
LOOK = 0.5  # seconds between two looks who is silent
FAREWELL = 6.0  # seconds for relays and engine to end after the end of their input
NAMES = 100  # of one node
TERM = 3.0  # seconds from SIGTERM to SIGKILL
_BAD_NEWS = re.compile(
    r"error|fail|unable|unreach|refused|denied|no route|no way|timed out|not found|not reply|killed|abort|lost|invalid",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Site:
    """How a site starts a program on all hosts. `argv`: what stands in front of the program's, one task a node; `rank`:
    the variable that numbers the tasks; `called`: a node's own names → host; `lost`: from a line that the engine prints
    to the hosts that are lost, and why; `try_out`: a command, for a person, that shows whether a host is reached;
    `without`: variables that it must not see; `calls`: its relays call back."""

    name: str
    argv: Sequence[str]
    rank: str
    called: Mapping[str, str]
    try_out: Callable[[str], str]
    lost: Callable[[str], Sequence[tuple[str, str]]] = lambda _: ()
    environment: Mapping[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()
    calls: bool = False


@dataclass
class _Node:
    """A relay. `host`: the inventory's name, once it is known."""

    number: int
    heard: float
    seq: int = 0
    host: str = ""
    names: list[str] = field(default_factory=list)
    channels: dict[str, EngineChannel] = field(default_factory=dict)


class Engine:
    """See `preflight.transport.types.Transport`. The engine process begins with the first host that is asked for."""

    def __init__(self, site: Site, hosts: Sequence[Host]) -> None:
        self._site = site
        self._addresses = [host.address for host in hosts]
        self._nonce = secrets.token_hex(16)
        self._process: Process | None = None
        self._calls: Calls | None = None
        self._nodes: dict[int, _Node] = {}
        self._here: dict[str, _Node] = {}  # host → its node
        self._gone: dict[str, str] = {}  # host → why
        self._over = ""  # why the engine has ended
        self._words: deque[str] = deque(maxlen=30)
        self._outgoing = Outgoing()
        self._looked = 0.0  # when it was looked who is silent
        self._news = threading.Condition()

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        started = time.monotonic()
        channel, call = self._begin(host, program, timeout)
        channel.end_input()
        waiting_for("the program")
        output = Output(limit)
        try:
            with attempt.current().breakable(channel.close):
                for is_stderr, data in channel.chunks(started + timeout):
                    output.add(is_stderr, data)
                    if output.too_much:
                        return output.answer(-1, time.monotonic() - started)
        except TimeoutError:
            raise self._late(host.name, timeout, "the program") from None
        finally:
            channel.close()
        answer = output.answer(-1 if channel.status is None else channel.status, time.monotonic() - started)
        error = channel.trouble() or call.error(answer.exit, answer.stdout, answer.stderr)
        if error:
            raise error
        return answer

    def start(self, host: Host, program: Program, *, timeout: float) -> EngineChannel:
        return self._begin(host, program, timeout)[0]

    @property
    def ended(self) -> str:
        """Why there is no engine any more; empty while there is one."""
        return self._over

    def close(self) -> None:
        """End the engine and all that it started; takes some seconds at most."""
        if self._calls:
            self._calls.close()
        if not self._process:
            return
        self._over = self._over or f"{self._site.name} has been ended"
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
        place = Place(host.name, self._site.name)
        call = Call(place, program, sudo=host.ssh.sudo, password=None)
        node = self._await(host.name, timeout)
        number, name = self._outgoing.named(host.name, call.command, program.source)
        with self._news:
            channel = node.channels[name] = EngineChannel(
                place,
                lambda words: self._outgoing.put(Order(node.number, name, words)),
                lambda data: self._outgoing.words_for(number, data),
                lambda status, stderr: call.error(status, b"", stderr),
            )
            if host.name in self._gone:  # since a moment ago
                self._lose(host.name, self._gone[host.name])
        self._outgoing.put(Order(node.number, name, frames.run(("sh", "-c", call.command), f"{number}")))
        with suppress(TransportError):  # its trouble is told by who reads
            channel.send(program.payload)
        return channel, call

    def _await(self, host: str, timeout: float) -> _Node:
        """The host's relay, as soon as it has said that it is there. Raises TransportError."""
        until = time.monotonic() + timeout
        waiting_for(f"{self._site.name} to start a relay")
        with self._news:
            if not self._process and not self._over:
                self._launch()
            while not (self._over or host in self._here or host in self._gone):
                if not self._news.wait(max(0.0, until - time.monotonic())):
                    raise self._late(host, timeout, "its relay to start")
            if self._over or host in self._gone:
                raise self._closed(host, self._gone.get(host, self._over))
            return self._here[host]

    def _launch(self) -> None:
        words = {"PREFLIGHT_NONCE": self._nonce, "PREFLIGHT_RANK_IN": self._site.rank}
        if self._site.calls:
            self._calls = Calls(self._nonce)
            self._outgoing.tell_all = self._calls.keep
            words["PREFLIGHT_CALL"] = self._calls.addresses(self._addresses)
        argv = (*self._site.argv, "python3", "-I", "-c", source("relay"))
        try:
            inherited = {name: value for name, value in os.environ.items() if name not in self._site.without}
            self._process = Process(argv, {**inherited, **self._site.environment, **words})
        except OSError as error:
            self._over = f"{self._site.name} could not be started: {error.strerror}"
            return
        for work in (self._listen, self._talk, *([self._take_calls] if self._calls else [])):
            threading.Thread(target=work, args=(self._process,), name=self._site.name, daemon=True).start()

    # What comes.

    def _listen(self, process: Process) -> None:
        why = "ended"
        try:
            for line in split_lines(data for is_stderr, data in process.chunks() if is_stderr):
                self._hear(line)
        except Exception as error:  # a thread that dies in silence would leave all waiting
            why = f"{type(error).__name__}: {error}"
        self._end(": ".join(filter(None, (f"{self._site.name} has {why}", self._last_words()))))

    def _take_calls(self, _: Process) -> None:
        assert self._calls  # noqa: S101  (for the type checker: who starts this thread has looked)
        for line in self._calls.lines():
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        said = frames.read(line, self._nonce)
        if said is None:
            words = troubles.one_line(line)
            with self._news:
                self._words.append(words)
                for host, why in self._site.lost(words):
                    self._lose(host, why)
        elif said.node < len(self._addresses):
            with self._news:
                self._take(said, self._nodes.setdefault(said.node, _Node(said.node, 0.0)))
            self._miss_the_silent()

    def _take(self, said: Said, node: _Node) -> None:
        node.heard = time.monotonic()
        if said.seq != node.seq:
            self._lose(node.host, f"{self._site.name} lost a part of what was said there")
        node.seq = said.seq + 1
        if said.here is not None:
            self._greet(node, said.here)
        channel = node.channels.get(said.program)
        if not channel:
            return
        if said.out is not None or said.err is not None:
            channel.take(frames.data_of(said.out or said.err or ""), is_stderr=said.out is None)
        elif said.exit is not None:
            channel.finish(said.exit)
            del node.channels[said.program]

    def _greet(self, node: _Node, name: str) -> None:
        """The node says one of its names; whose it is, is settled by the first that is known."""
        if len(node.names) < NAMES:
            node.names.append(name)
        host = self._site.called.get(name) or self._site.called.get(short(name))
        if node.host or not host:
            return
        node.host = host
        if host in self._here:
            self._lose(host, f"two nodes call themselves {name}")
        self._here[host] = node
        self._news.notify_all()

    def _lose(self, host: str, why: str) -> None:
        if not host:
            return
        self._gone.setdefault(host, why)
        for channel in list(self._here[host].channels.values()) if host in self._here else ():
            channel.finish(error=self._closed(host, why))
        self._news.notify_all()

    def _end(self, why: str) -> None:
        with self._news:
            self._over = self._over or why
            for host in self._here:
                self._lose(host, self._over)
            self._news.notify_all()

    # What goes.

    def _talk(self, process: Process) -> None:
        with suppress(OSError, ValueError):  # that nobody listens any more is found by who reads
            for lines in self._outgoing.lines():
                (self._calls or process).send(lines)
                self._miss_the_silent()
        process.close_stdin()

    def _miss_the_silent(self) -> None:
        """Asked by both threads: an engine that waits for a node to listen stops the one that writes."""
        now = time.monotonic()
        if now < self._looked + LOOK:
            return
        self._looked = now
        with self._news:
            for host, node in self._here.items():
                if host not in self._gone and now - node.heard > SILENCE:
                    self._lose(host, f"nothing has been heard from there for {SILENCE:.0f} s")

    # Words.

    def _closed(self, host: str, why: str) -> TransportError:
        remedy = f"see what this says: {self._site.try_out(host)}"
        return TransportError(Trouble.CLOSED, f"{host}: {why}", remedy)

    def _late(self, host: str, seconds: float, what: str) -> TransportError:
        nodes = list(self._nodes.values())
        strangers = [node.names[0] for node in nodes if not node.host and node.names[-1:] == [""]]
        seen = f"; there are nodes that the inventory does not name: {', '.join(strangers[:4])}" if strangers else ""
        said = self._last_words()
        return TransportError(
            Trouble.TIMEOUT,
            f"{host}: nothing after {seconds:.0f} s from {self._site.name} while waiting for {what}{seen}"
            + (f" ({said})" if said and host not in self._here else ""),
            f"see what this says: {self._site.try_out(host)}",
        )

    def _last_words(self) -> str:
        """The first of the engine's last lines that tell of something bad; else its last one."""
        words = [line for line in list(self._words) if line]
        bad = [line for line in words if _BAD_NEWS.search(line)]
        return "; ".join(bad[:2] or words[-1:])
