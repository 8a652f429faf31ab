"""Programs on hosts that speak in lines of JSON: one a host, all started at once, each followed by a thread of its own,
so that one that stands still holds up no other."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from preflight.model.cluster import Host
from preflight.transport.types import Channel, Program, TransportError

FAREWELL = 3.0  # seconds for programs to end what they started, and to free their ports
BATCH = 1000  # messages taken at once: the clock is looked at in between


class Launcher(Protocol):
    """Starts a program on a host. Thread-safe."""

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        """Start `program` and return at once; `timeout` bounds connecting only. Raises TransportError."""


class _Signed(Protocol):
    @property
    def nonce(self) -> str: ...


S = TypeVar("S", bound=_Signed)
M = TypeVar("M")


def read(line: bytes, nonce: str, decoder: "msgspec.json.Decoder[S]", longest: int) -> S | None:
    """What a line says; None for anything else that a host may print, what belongs to another run included."""
    if len(line) > longest or nonce.encode() not in line:
        return None
    try:
        message = decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return message if message.nonce == nonce else None


@dataclass(frozen=True)
class Gone:
    """The program's channel has ended, or never began."""

    why: str


@dataclass(frozen=True)
class Said(Generic[M]):
    host: str
    message: M | Gone


class Speakers(Generic[M]):
    """The programs of one purpose. `read` makes a message of a line, None of what is none; `name` is what they are
    called in a sentence; `connect`: seconds for connecting. `begun` is told of each channel as soon as it is there."""

    def __init__(
        self,
        launcher: Launcher,
        programs: Iterable[tuple[Host, Program]],
        read: Callable[[bytes], M | None],
        name: str,
        connect: float,
        begun: Callable[[str, Channel], object] = lambda _host, _channel: None,
    ) -> None:
        self._launcher, self._read, self._name, self._connect, self._begun = launcher, read, name, connect, begun
        self._said: queue.Queue[Said[M]] = queue.Queue(maxsize=10_000)
        self._channels: dict[str, Channel] = {}
        self._spoken: set[str] = set()  # hosts whose program has said something
        self._lock = threading.Lock()
        self._closing = False
        self._threads = [
            threading.Thread(target=self._follow, args=one, name=one[0].name, daemon=True) for one in programs
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def channel(self, host: str) -> Channel | None:
        return self._channels.get(host)

    def said(self, timeout: float) -> list[Said[M]]:
        """All that hosts have said by now, in order; waits up to `timeout` seconds for the first. At most `BATCH`."""
        said: list[Said[M]] = []
        with suppress(queue.Empty):
            said.append(self._said.get(timeout=timeout))
            while len(said) < BATCH:
                said.append(self._said.get_nowait())
        return said

    def end(self, ask: Callable[[Sequence[str]], object] | None) -> None:
        """Have `ask` tell the hosts to end, and wait a moment for those that have ever said something: the others hold
        nothing, and may hang. Then, or without `ask` at once, drop the connections, which programs understand, too."""
        with self._lock:
            self._closing = True
            channels = dict(self._channels)
        if ask:
            ask(list(channels))
            until = time.monotonic() + FAREWELL
            for thread in self._threads:
                if thread.name in self._spoken:
                    thread.join(max(0.0, until - time.monotonic()))
        for channel in channels.values():
            channel.close()

    def _follow(self, host: Host, program: Program) -> None:
        """A host's thread: connect, then pass on what the program says until its channel ends."""
        why = f"{self._name} has ended"
        try:
            channel = self._launcher.start(host, program, timeout=self._connect)
            with self._lock:
                self._channels[host.name] = channel
                closing = self._closing
            if closing:
                channel.close()
            self._begun(host.name, channel)
            for line in channel.lines():
                message = self._read(line)
                if message is not None:
                    self._spoken.add(host.name)
                    self._said.put(Said(host.name, message))
            error = channel.error()
            last = printed(channel)[-1:]  # where a Python that could not run it says why
            why = error.summary if error else ": ".join([why, *last])
        except TransportError as error:
            why = error.summary
        except Exception as error:  # a thread that dies in silence would leave the run waiting
            why = f"{type(error).__name__}: {error}"
        finally:
            if not self._closing:
                self._said.put(Said(host.name, Gone(why)))


def printed(channel: Channel) -> list[str]:
    """The last lines on a program's stderr."""
    lines = channel.stderr_tail().decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()]
