"""Messages of agents, read from lines of a host's output: hostile data, so each is validated, bounded, or ignored."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from preflight.model.measure import STAGES, End
from preflight.probe import lines

LONGEST = 64 << 10  # bytes of one line

_Text = Annotated[str, Meta(max_length=8000)]
_Word = Annotated[str, Meta(max_length=100)]
_Stage = Annotated[str, Meta(pattern=rf"^({'|'.join(STAGES)})\Z")]
_Count = Annotated[int, Meta(ge=0, le=1 << 62)]
_Seconds = Annotated[float, Meta(ge=0, le=1e9)]  # no infinity, and sums that stay finite
_OCTET = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
Address = Annotated[str, Meta(pattern=rf"^({_OCTET}\.){{3}}{_OCTET}\Z")]  # IPv4
_Port = Annotated[int, Meta(ge=1, le=65535)]


class Event(msgspec.Struct, tag_field="at", frozen=True):
    nonce: _Word


class Running(Event, tag="python", frozen=True):
    """A running Python of an agent, which takes the host next, and then imports torch."""


class Noted(Event, tag="note", frozen=True):
    """Message about the host for the user."""

    text: _Text


class Ready(Event, tag="ready", frozen=True):
    """An agent that has imported torch.

    `address` is where its host's ranks are reached, `store` the port where ranks can meet. `variables`: those of the
    jobs' environment that set the backend's timeouts.
    """

    torch: _Word
    nic: _Word
    address: Address
    store: _Port
    cores: _Count
    variables: Annotated[dict[_Word, _Word], Meta(max_length=10)] = {}


class Failed(Event, tag="failed", frozen=True):
    """An agent that could not get ready and has ended.

    `stage` is the last one that it completed. `busy`: nothing is wrong with the host, but another probe uses it.
    """

    stage: _Stage
    error: _Text
    busy: bool = False


class Sends(msgspec.Struct, frozen=True):
    """Transport of the rank's backend, from its own log."""

    network: _Word
    ways: Annotated[list[_Word], Meta(max_length=16)]
    lines: Annotated[list[_Text], Meta(max_length=8)]


class RankEvent(Event, frozen=True):
    group: _Word
    rank: _Count


class Reached(RankEvent, tag="stage", frozen=True):
    stage: _Stage
    seconds: _Seconds = 0.0
    way: Sends | None = None


class Waits(RankEvent, tag="waits", frozen=True):
    """A rank that waits where its group meets.

    It sees `present` ranks there, itself included, and misses `missing` (not all, if they are many). This is no sign of
    progress: it is sent whenever that changes.
    """

    present: _Count
    missing: Annotated[list[_Count], Meta(max_length=64)]


class Entered(RankEvent, tag="enter", frozen=True):
    """The beginning of test number `test` of the rank's group, or of its measurement after warming up."""

    test: _Count
    stage: Literal["warm-up", "iteration"] = "iteration"


class Result(RankEvent, tag="result", frozen=True):
    test: _Count
    seconds: Annotated[list[_Seconds], Meta(max_length=1000)]
    wrong: _Count
    first: _Text
    suspect: _Count | None
    bytes: _Count | None = None  # those that a device alone took, out of the maximum
    on_host: bool = False  # its tensors were in the host's memory
    refused: _Text = ""  # why it was not run, if torch or the backend lacks it


class Killed(RankEvent, tag="killed", frozen=True):
    """SIGKILL from the agent to its worker. `Ended` follows when it is gone. A worker inside a driver may never end."""

    end: Literal["overdue", "stopped"]
    state: _Word
    connecting: Annotated[list[_Word], Meta(max_length=8)] = []


class Ended(RankEvent, tag="end", frozen=True):
    end: End
    error: _Text
    state: _Word
    printed: _Text
    connecting: Annotated[list[_Word], Meta(max_length=8)] = []  # address:port without an answer so far
    logs: Annotated[list[Annotated[str, Meta(max_length=2000)]], Meta(max_length=40)] = []  # of its backend


class Settled(Event, tag="settled", frozen=True):
    """Devices that are free again, after the host was asked to wait for them, except `held`.

    `error`: some could not be checked, and were given time instead.
    """

    held: Annotated[list[_Count], Meta(max_length=1000)]
    error: _Text


Message = Running | Noted | Ready | Failed | Reached | Waits | Entered | Result | Killed | Ended | Settled
RankMessage = Reached | Waits | Entered | Result | Killed | Ended

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def read(line: bytes, nonce: str) -> Message | None:
    """Return the event of a line, or None for other output of the host, which includes events of another run."""
    return lines.read(line, nonce, _decoder, LONGEST)
