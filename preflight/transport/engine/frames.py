"""What the controller and its relays on the nodes say to each other (`preflight/remote/relay.py` says how). Pure."""

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

FRAME = 512  # bytes of what a relay says, its newline included
PIECE = 1 << 14  # bytes of data an order carries
AROUND = 1 << 13  # bytes around the same place of a like text; with a piece no more than zlib looks back, 32 KiB
_Data = Annotated[str, Meta(max_length=FRAME)]


class RelayFrame(msgspec.Struct, frozen=True):
    """One frame of a relay."""

    nonce: Annotated[str, Meta(max_length=64)]
    node: Annotated[int, Meta(ge=0, lt=1 << 24)]
    seq: Annotated[int, Meta(ge=0)]
    here: _Data | None = None
    program: _Data = ""
    out: _Data | None = None
    err: _Data | None = None
    exit: Annotated[int, Meta(gt=-256, lt=256)] | None = None


_decoder = msgspec.json.Decoder(RelayFrame)


def read(line: bytes, nonce: str) -> RelayFrame | None:
    """A relay's frame; None for anything else that an engine may print. What it, or a login's banner, prints without
    an end of line stands in front of a frame."""
    line = line[-(FRAME - 1) :]
    if len(line) != FRAME - 1 or nonce.encode() not in line:
        return None
    try:
        said = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return said if said.nonce == nonce else None


def data_of(text: str) -> bytes:
    """What a program wrote; nothing for what is no base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


@dataclass(frozen=True)
class NodeOrder:
    """What a node is to do. `words`: JSON of the rest, alike for all nodes that are to do the same."""

    node: int
    program: str
    words: str


def run(argv: Sequence[str], text: str) -> str:
    return json.dumps({"run": argv, "text": text})


def more(data: bytes, name: str = "", like: bytes = b"") -> Iterator[str]:
    """`data` for a program's stdin; short where it is `like` a text that all nodes have as `name`."""
    for at in range(0, len(data), PIECE):
        piece, first, last = data[at : at + PIECE], max(0, at - AROUND), at + PIECE
        words: dict[str, object] = {"data": _packed(piece, like[first:last])}
        yield json.dumps(words | {"like": [name, first, last]} if like else words)


def is_like(data: bytes, text: bytes) -> bool:
    """Whether `data` takes less than half by being packed like `text`."""
    return bool(text) and 2 * sum(map(len, more(data, "", text))) < sum(map(len, more(data)))


def end(seconds: float) -> str:
    return json.dumps({"end": seconds})


LAST = json.dumps({"last": True})
ALIVE = b"{}\n"


def text_line(name: str, text: bytes) -> bytes:
    """A text, for all nodes."""
    return json.dumps({"text": name, "data": _packed(text)}).encode() + b"\n"


def lines_of(orders: Iterable[NodeOrder]) -> Iterator[bytes]:
    """The orders as lines, as few as may be: what several nodes are to do alike is said once. Each node gets its own
    orders in their order."""
    said: list[tuple[str, dict[str, list[int]]]] = []  # words, program → nodes
    at: dict[str, list[int]] = {}  # words → where they stand in `said`
    last: dict[int, int] = {}  # node → where its latest order stands
    for order in orders:
        before = last.get(order.node, -1)
        places = at.setdefault(order.words, [])
        place = next((one for one in places if one > before), None)
        if place is None:
            place = len(said)
            places.append(place)
            said.append((order.words, {}))
        said[place][1].setdefault(order.program, []).append(order.node)
        last[order.node] = place
    for words, programs in said:
        to = {program: _ranges(nodes) for program, nodes in programs.items()}
        yield f'{{"to":{json.dumps(to, separators=(",", ":"))},{words[1:]}\n'.encode()


def _ranges(nodes: Iterable[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for node in sorted(nodes):
        if found and found[-1][1] == node - 1:
            found[-1][1] = node
        else:
            found.append([node, node])
    return found


def _packed(data: bytes, like: bytes = b"") -> str:
    packer = zlib.compressobj(zdict=like) if like else zlib.compressobj()
    return base64.b64encode(packer.compress(data) + packer.flush()).decode("ascii")
