"""What agents say, read from lines of a host's output: hostile data, so each is validated, bounded, or ignored."""

from typing import Annotated

import msgspec
from msgspec import Meta

from preflight.model.measure import STAGES, End

LONGEST = 64 << 10  # bytes of one line

_Text = Annotated[str, Meta(max_length=8000)]
_Word = Annotated[str, Meta(max_length=100)]
_Stage = Annotated[str, Meta(pattern=rf"^({'|'.join(STAGES)})\Z")]
_Count = Annotated[int, Meta(ge=0)]
_Port = Annotated[int, Meta(ge=1, le=65535)]


class Event(msgspec.Struct, tag_field="at", frozen=True):
    nonce: _Word


class Ready(Event, tag="ready", frozen=True):
    """The agent has imported torch; `address` is where its host's ranks are reached, `store` where ranks can meet.

    `variables`: those of the jobs' environment that say how long the backend waits.
    """

    torch: _Word
    nic: _Word
    address: _Word
    store: _Port
    cores: _Count
    variables: Annotated[dict[_Word, _Word], Meta(max_length=10)] = {}


class Failed(Event, tag="failed", frozen=True):
    """The agent could not get ready and has ended; `stage` is the last one it reached."""

    stage: _Stage
    error: _Text


class Reached(Event, tag="stage", frozen=True):
    group: _Word
    rank: _Count
    stage: _Stage
    seconds: Annotated[float, Meta(ge=0)] = 0.0


class Entered(Event, tag="enter", frozen=True):
    """The rank begins test number `test` of its group."""

    group: _Word
    rank: _Count
    test: _Count


class Result(Event, tag="result", frozen=True):
    group: _Word
    rank: _Count
    test: _Count
    seconds: Annotated[list[Annotated[float, Meta(ge=0)]], Meta(min_length=1, max_length=1000)]
    wrong: _Count
    first: _Text
    suspect: _Count | None


class Ended(Event, tag="end", frozen=True):
    group: _Word
    rank: _Count
    end: End
    error: _Text
    state: _Word
    printed: _Text


class Settled(Event, tag="settled", frozen=True):
    """The devices that the host was asked to wait for are free, but for `held`; `error`: some could not be looked at,
    and were given time instead."""

    held: Annotated[list[_Count], Meta(max_length=1000)]
    error: _Text


Message = Ready | Failed | Reached | Entered | Result | Ended | Settled
RankMessage = Reached | Entered | Result | Ended

_decoder = msgspec.json.Decoder(Message)


def read(line: bytes, nonce: str) -> Message | None:
    """The event of a line; None for anything else that a host may print, an event of another run included."""
    if len(line) > LONGEST or nonce.encode() not in line:
        return None
    try:
        message = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return message if message.nonce == nonce else None
