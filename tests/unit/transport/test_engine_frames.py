"""What controller and relays say to each other, without either of them."""

import json
import random
from base64 import b64decode
from collections import defaultdict
from zlib import decompress, decompressobj

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.transport.engine import frames
from preflight.transport.engine.frames import FRAME, NodeOrder

NONCE = "0123456789abcdef"
WELL = {"nonce": NONCE, "node": 3, "seq": 7, "program": "1.0", "out": "aGk="}


def frame(**words: object) -> bytes:
    return json.dumps({**WELL, **words}).encode().ljust(FRAME - 1)


def test_a_frame_is_read() -> None:
    said = frames.read(frame(), NONCE)
    assert said is not None
    assert (said.node, said.seq, said.program, frames.data_of(said.out or "")) == (3, 7, "1.0", b"hi")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"srun: error: node03: task 2: Killed",
        frame()[:-1],
        frame() + b" ",
        frame(nonce="fedcba9876543210"),
        frame(nonce="fedcba9876543210", out=NONCE),
        frame(node=-1),
        frame(node=1 << 24),
        frame(node="3"),
        frame(seq=None),
        frame(out=5),
        frame(exit=300),
        frame()[:200] + frame()[:311],
        (NONCE.encode() + b"\xff\xfe").ljust(FRAME - 1),
    ],
)
def test_lines_that_are_not_frames_of_this_run_are_ignored(line: bytes) -> None:
    assert frames.read(line, NONCE) is None


@pytest.mark.parametrize("text", ["%%%", "aGk", "é"])
def test_invalid_base64_is_empty(text: str) -> None:
    assert frames.data_of(text) == b""


ORDERS = st.lists(
    st.builds(
        NodeOrder,
        st.integers(0, 5),
        st.sampled_from(["0.0", "1.0"]),
        st.sampled_from(
            [frames.LAST, frames.end(3.0), *frames.stdin_orders(b"go\n"), frames.run(("sh", "-c", "true"), "1")]
        ),
    ),
    max_size=40,
)


@given(ORDERS)
def test_each_node_gets_its_own_orders_in_their_order(orders: list[NodeOrder]) -> None:
    wanted: dict[int, list[NodeOrder]] = defaultdict(list)
    for order in orders:
        wanted[order.node].append(order)
    got: dict[int, list[NodeOrder]] = defaultdict(list)
    for line in frames.lines_of(orders):
        assert line.endswith(b"\n")
        said = json.loads(line)
        for program, ranges in said.pop("to").items():
            for first, last in ranges:
                for node in range(first, last + 1):
                    got[node].append(NodeOrder(node, program, json.dumps(said)))
    assert got == wanted


def test_equal_orders_for_all_nodes_share_a_line() -> None:
    words = [frames.run(("sh", "-c", "python3"), "1"), *frames.stdin_orders(b"hello\n")]
    orders = [NodeOrder(node, "1.0", one) for node in range(1000) for one in words]
    lines = [json.loads(line) for line in frames.lines_of(orders)]
    assert [line["to"] for line in lines] == [{"1.0": [[0, 999]]}] * 2
    assert decompress(b64decode(lines[1]["data"])) == b"hello\n"


def unpacked(words: str, text: bytes) -> bytes:
    """As the relay does it."""
    said = json.loads(words)
    _, first, last = said.get("like", ("", 0, 0))
    return decompressobj(zdict=text[first:last]).decompress(b64decode(said["data"]))


def test_much_data_goes_in_pieces() -> None:
    data = bytes(range(256)) * 1000
    pieces = [unpacked(words, b"") for words in frames.stdin_orders(data)]
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) == frames.PIECE


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200))
def test_data_packed_as_a_difference_is_restored(one: bytes, other: bytes, third: bytes) -> None:
    data, text = one * 300 + other, third + one * 300
    assert b"".join(unpacked(words, text) for words in frames.stdin_orders(data, "1 payload", text)) == data


def test_similar_data_for_thousands_of_hosts_is_short() -> None:
    """What differs between hosts is all that counts, wherever it stands, in however long a text."""
    names = json.dumps([f"node{number:04d}" for number in range(4096)])
    one, other = (f'{{"marker": "{marker}", "names": {names}, "own": {own}}}'.encode() for marker, own in ("ab", "cd"))
    words = list(frames.stdin_orders(one, "1 payload", other))
    assert b"".join(unpacked(one_, other) for one_ in words) == one
    assert sum(map(len, words)) < 1500
    assert frames.is_like(one, other)


def test_unrelated_data_is_not_similar() -> None:
    one, other = (random.Random(seed).randbytes(3000) for seed in (1, 2))
    assert not frames.is_like(one, other)
    assert not frames.is_like(one, b"")


def test_a_frame_behind_text_without_a_newline_is_read() -> None:
    said = frames.read(b"Authorized use only " + frame(), NONCE)
    assert said is not None
    assert said.node == 3
