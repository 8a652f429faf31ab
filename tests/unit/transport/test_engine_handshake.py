"""Relays and the side that they call prove to each other that they have the same key: each against impostors."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from preflight.transport.engine.callbacks import Callbacks
from preflight.transport.engine.handshake import CALLED, CALLER, answer, gang_key, proof
from preflight.transport.programs import source

KEY = gang_key("of-this-gang-and-no-other", ("train-0", "train-1"))
OTHERS = gang_key("of-another-gang-altogether", ("train-0", "train-1"))
NONCE = b"0123456789abcdef" * 2


def test_a_key_depends_on_the_token_and_the_gang() -> None:
    assert len({KEY, OTHERS, gang_key("of-this-gang-and-no-other", ("train-0", "train-2"))}) == 3


# The relay's side: who is called may be anybody.


def relay(port: int, text: str = source("relay")) -> "subprocess.Popen[bytes]":
    words = {"PREFLIGHT_CALL": f"127.0.0.1:{port}", "PREFLIGHT_KEY": KEY, "PREFLIGHT_NONCE": "n", "RANK": "0"}
    return subprocess.Popen(
        (sys.executable, "-I", "-c", text),
        env={**os.environ, **words, "PREFLIGHT_RANK_IN": "RANK"},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def called(impostor: Callable[[bytes], bytes], orders: bytes) -> tuple[int, bytes, bytes]:
    """The relay's exit code and stderr, and what it has said after its nonce, where `impostor` answers that."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = relay(listener.getsockname()[1])
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as heard:
            with suppress(OSError):  # it may hang up at any time
                connection.sendall(impostor(heard.readline().strip()) + orders)
                connection.shutdown(socket.SHUT_WR)
            said = b""
            with suppress(OSError):
                said = heard.read()
        stderr = running.communicate()[1]
    return running.returncode, stderr, said


@pytest.mark.parametrize(
    "impostor",
    [
        lambda _: b"",  # obey at once
        lambda nonce: answer(OTHERS, nonce)[0],
        lambda _: answer(KEY, NONCE)[0],  # the true one's, of another call
        lambda nonce: nonce + b" " + proof(OTHERS, CALLED, nonce, nonce) + b"\n",
        lambda nonce: NONCE + b" " + proof(KEY, CALLER, nonce, NONCE) + b"\n",  # a relay's proof
        lambda _: NONCE + b" \n",
    ],
    ids=["orders", "another token", "replayed", "nonce sent back", "another's part", "no proof"],
)
def test_a_relay_obeys_no_listener_without_the_token(impostor: Callable[[bytes], bytes], tmp_path: Path) -> None:
    order = {"to": {"p": [[0, 9]]}, "run": ["touch", str(tmp_path / "obeyed")], "text": "t"}
    code, stderr, said = called(impostor, json.dumps(order).encode() + b"\n")
    assert code == 75
    assert stderr.endswith(b": the other side did not prove that it has this run's token for these hosts\n")
    assert said == b""  # what it would have proved itself by
    assert not list(tmp_path.iterdir())


def test_an_endless_answer_does_not_block_a_relay() -> None:
    soon = source("relay").replace("PATIENCE = 10.0", "PATIENCE = 0.5")
    assert soon != source("relay")
    with socket.create_server(("127.0.0.1", 0)) as listener, relay(listener.getsockname()[1], soon) as running:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            for _ in range(97):  # one less than an answer has
                connection.sendall(b"0")
                time.sleep(0.1)
                if running.poll() is not None:
                    break
        assert running.wait() == 75


def test_a_relay_obeys_a_listener_with_the_token(tmp_path: Path) -> None:
    order = {"to": {"p": [[0, 9]]}, "run": ["touch", str(tmp_path / "obeyed")], "text": "t"}
    with Listening() as calls, relay(calls.port) as running:
        calls.calls.broadcast(json.dumps(order).encode() + b"\n")
        assert any(b'"exit":0' in line for line in calls.lines)
        calls.calls.close()
        assert running.wait() == 0
    assert list(tmp_path.iterdir())


# The side that is called: who calls may be anybody.


class Listening:
    """`lines`: what those said who are known, until it is closed."""

    def __init__(self) -> None:
        self.calls = Callbacks("shown-by-others", 0, KEY)
        self.port = int(self.calls.addresses(("127.0.0.1",)).rpartition(":")[2])
        self.lines = self.calls.lines()

    def __enter__(self) -> "Listening":
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.close()


@pytest.fixture
def known() -> Iterator[tuple[int, list[bytes]]]:
    """Its port, and the lines of those who are known."""
    heard: list[bytes] = []
    with Listening() as listening:
        thread = threading.Thread(target=lambda: heard.extend(listening.lines))
        thread.start()
        listening.calls.broadcast(b"for those who are known\n")
        yield listening.port, heard
        listening.calls.close()
        thread.join()


def said_to(port: int, shown: Callable[[bytes, bytes], bytes]) -> bytes:
    """What somebody hears after the listener's proof, who calls with NONCE and then says what `shown` makes of the
    other's nonce and proof."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as heard:
        connection.sendall(NONCE + b"\n")
        nonce, shows = heard.readline().split()
        assert shows == proof(KEY, CALLED, NONCE, nonce)
        connection.sendall(shown(nonce, shows) + b"\nhear me\n")
        with suppress(OSError):
            return heard.readline()
        return b""


def test_a_caller_that_proves_the_key_gets_the_data(known: tuple[int, list[bytes]]) -> None:
    port, _ = known
    assert said_to(port, lambda nonce, _: proof(KEY, CALLER, NONCE, nonce)) == b"for those who are known\n"


@pytest.mark.parametrize(
    "shown",
    [
        lambda nonce, _: proof(OTHERS, CALLER, NONCE, nonce),
        lambda _, shows: shows,
        lambda *_: proof(KEY, CALLER, NONCE, NONCE),  # of another call
        lambda *_: b"shown-by-others",
        lambda *_: b"",
    ],
    ids=["another token", "sent back", "replayed", "what engines bring", "nothing"],
)
def test_a_caller_without_proof_gets_no_data(
    shown: Callable[[bytes, bytes], bytes], known: tuple[int, list[bytes]]
) -> None:
    port, heard = known
    assert said_to(port, shown) == b""
    assert heard == []


@pytest.mark.parametrize("nonce", [b"", b"shown-by-others", NONCE + b"0", NONCE.upper(), b"\xff" * 32])
def test_an_invalid_nonce_gets_no_reply(nonce: bytes, known: tuple[int, list[bytes]]) -> None:
    port, heard = known
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answered:
        connection.sendall(nonce + b"\nhear me\n")
        said = b""
        with suppress(OSError):
            said = answered.read()
    assert (said, heard) == (b"", [])
