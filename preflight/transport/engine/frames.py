"""Messages between the controller and its relays on the nodes. `preflight/remote/relay.py` has the format. Pure."""

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

FRAME = 512  # bytes of a relay's frame with its newline
PIECE = 1 << 14  # bytes of data in an order
AROUND = 1 << 13  # bytes before and after a piece in its dictionary: with the piece at most zlib's window of 32 KiB
_Data = Annotated[str, Meta(max_length=FRAME)]


class RelayFrame(msgspec.Struct, frozen=True):
    """One frame from a relay."""

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
    """Return the frame of a line; None for other output of an engine.

    A frame is the end of its line: an engine or a login banner may print text without a newline before it.
    """
    line = line[-(FRAME - 1) :]
    if len(line) != FRAME - 1 or nonce.encode() not in line:
        return None
    try:
        frame = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return frame if frame.nonce == nonce else None


def data_of(text: str) -> bytes:
    """Return the decoded data; empty for invalid base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


@dataclass(frozen=True)
class NodeOrder:
    """Order for one node. `text` is JSON that is equal for all nodes with the same order."""

    node: int
    program: str
    text: str


def run(argv: Sequence[str], text: str) -> str:
    return json.dumps({"run": argv, "text": text})


def stdin_orders(data: bytes, name: str = "", like: bytes = b"") -> Iterator[str]:
    """Yield orders with `data` for a program's stdin; short if all nodes have the similar `like` as `name`."""
    for start in range(0, len(data), PIECE):
        piece, first, last = data[start : start + PIECE], max(0, start - AROUND), start + PIECE
        order: dict[str, object] = {"data": _packed(piece, like[first:last])}
        yield json.dumps(order | {"like": [name, first, last]} if like else order)


def is_like(data: bytes, text: bytes) -> bool:
    """Return true if `data` takes less than half the space when packed with `text` as dictionary."""
    return bool(text) and 2 * sum(map(len, stdin_orders(data, "", text))) < sum(map(len, stdin_orders(data)))


def end(seconds: float) -> str:
    return json.dumps({"end": seconds})


LAST = json.dumps({"last": True})
ALIVE = b"{}\n"


def text_line(name: str, text: bytes) -> bytes:
    """Return the line that sends a text to all nodes."""
    return json.dumps({"text": name, "data": _packed(text)}).encode() + b"\n"


def lines_of(orders: Iterable[NodeOrder]) -> Iterator[bytes]:
    """Yield the orders as few lines: equal orders for several nodes share one. Each node's orders keep their order."""
    lines: list[tuple[str, dict[str, list[int]]]] = []  # text, program → nodes
    lines_by_text: dict[str, list[int]] = {}  # text → numbers of its lines
    last_line: dict[int, int] = {}  # node → number of the line with its latest order
    for order in orders:
        previous = last_line.get(order.node, -1)
        numbers = lines_by_text.setdefault(order.text, [])
        number = next((number for number in numbers if number > previous), None)
        if number is None:
            number = len(lines)
            numbers.append(number)
            lines.append((order.text, {}))
        lines[number][1].setdefault(order.program, []).append(order.node)
        last_line[order.node] = number
    for text, programs in lines:
        to = {program: _ranges(nodes) for program, nodes in programs.items()}
        yield f'{{"to":{json.dumps(to, separators=(",", ":"))},{text[1:]}\n'.encode()


def _ranges(nodes: Iterable[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for node in sorted(nodes):
        if ranges and ranges[-1][1] == node - 1:
            ranges[-1][1] = node
        else:
            ranges.append([node, node])
    return ranges


def _packed(data: bytes, like: bytes = b"") -> str:
    packer = zlib.compressobj(zdict=like) if like else zlib.compressobj()
    return base64.b64encode(packer.compress(data) + packer.flush()).decode("ascii")
