"""Programs on hosts that speak in lines of JSON, one on each host, all started at once.

A thread follows each program, so that one that stands still holds up no other.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from preflight.model.cluster import Host, ProbeSettings
from preflight.transport.types import Channel, Program, TransportError

FAREWELL = 3.0  # seconds for programs to end what they started, and to free their ports
BATCH = 1000  # messages taken at once; the clock is checked in between


class Launcher(Protocol):
    """A way to start a program on a host. Thread-safe."""

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        """Start `program` and return at once; `timeout` bounds connecting only. Raises TransportError."""


class _Signed(Protocol):
    @property
    def nonce(self) -> str: ...


S = TypeVar("S", bound=_Signed)
M = TypeVar("M")


def job_program(settings: ProbeSettings, text: str, payload: bytes) -> Program:
    """Return a program that runs where jobs run, with their own packages, wherever they come from."""
    return Program(text, payload, settings.python, settings.setup, settings.wrapper, settings.user, isolated=False)


def read(line: bytes, nonce: str, decoder: "msgspec.json.Decoder[S]", longest: int) -> S | None:
    """Return the message of a line, or None for other output of the host, which includes that of another run."""
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
class HostMessage(Generic[M]):
    """A message of a host's program, or the end of its channel."""

    host: str
    message: M | Gone


@dataclass(frozen=True)
class ProgramKind(Generic[M]):
    """Properties that programs of one purpose share.

    `read` makes a message of a line, or None of any other line. `name` is what the programs are called in a sentence.
    `connect`: seconds for connecting.
    """

    read: Callable[[bytes], M | None]
    name: str
    connect: float


class HostPrograms(Generic[M]):
    """Programs of one kind. `on_start` gets each channel as soon as it exists."""

    def __init__(
        self,
        launcher: Launcher,
        programs: Iterable[tuple[Host, Program]],
        kind: ProgramKind[M],
        on_start: Callable[[str, Channel], object] = lambda _host, _channel: None,
    ) -> None:
        self._launcher, self._kind, self._on_start = launcher, kind, on_start
        self._messages: queue.Queue[HostMessage[M]] = queue.Queue(maxsize=10_000)
        self._channels: dict[str, Channel] = {}
        self._senders: set[str] = set()  # hosts that have sent a message
        self._lock = threading.Lock()
        self._closing = False
        self._threads = [
            threading.Thread(target=self._follow, args=program, name=program[0].name, daemon=True)
            for program in programs
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def channel(self, host: str) -> Channel | None:
        return self._channels.get(host)

    def receive(self, timeout: float) -> list[HostMessage[M]]:
        """Return messages of hosts so far, in order, at most `BATCH`. Wait up to `timeout` seconds for the first."""
        messages: list[HostMessage[M]] = []
        with suppress(queue.Empty):
            messages.append(self._messages.get(timeout=timeout))
            while len(messages) < BATCH:
                messages.append(self._messages.get_nowait())
        return messages

    def end(self, ask: Callable[[Sequence[str]], object] | None) -> None:
        """End the programs, and drop their connections, which they understand, too.

        With `ask`, have it tell the hosts to end first, and wait a moment for those that have ever sent a message. The
        others hold nothing, and may hang.
        """
        with self._lock:
            self._closing = True
            channels = dict(self._channels)
        if ask:
            ask(list(channels))
            until = time.monotonic() + FAREWELL
            for thread in self._threads:
                if thread.name in self._senders:
                    thread.join(max(0.0, until - time.monotonic()))
        for channel in channels.values():
            channel.close()

    def _follow(self, host: Host, program: Program) -> None:
        """Connect to a host, then pass on its program's messages until the channel ends. Runs in the host's thread."""
        why = f"{self._kind.name} has ended"
        try:
            channel = self._launcher.start(host, program, timeout=self._kind.connect)
            with self._lock:
                self._channels[host.name] = channel
                closing = self._closing
            if closing:
                channel.close()
            self._on_start(host.name, channel)
            for line in channel.lines():
                message = self._kind.read(line)
                if message is not None:
                    self._senders.add(host.name)
                    self._messages.put(HostMessage(host.name, message))
            error = channel.error()
            last = printed(channel)[-1:]  # if Python could not run it, the reason is there
            why = error.summary if error else ": ".join([why, *last])
        except TransportError as error:
            why = error.summary
        except Exception as error:  # a thread that ends without a message would leave the run waiting
            why = f"{type(error).__name__}: {error}"
        finally:
            if not self._closing:
                self._messages.put(HostMessage(host.name, Gone(why)))


def printed(channel: Channel) -> list[str]:
    """Return the last lines on a program's stderr."""
    lines = channel.stderr_tail().decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()]
