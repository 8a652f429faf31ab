"""The store that an agent serves, with a torch that takes a listening socket and with one that is too old for that."""

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from agent.network import listen
from worker.meeting import serve_store

HERE = "127.0.0.1"


class Store:
    """What torch does with sockets: the master connects with itself, too."""

    def __init__(self, _: str, port: int, *, master_listen_fd: int, **_more: Any) -> None:
        self._serve(socket.socket(fileno=master_listen_fd), port)

    def _serve(self, master: socket.socket, port: int) -> None:
        self.master, self.port = master, port
        self.client = socket.create_connection((HERE, port))
        self.accepted = [self.master.accept()[0]]

    def close(self) -> None:
        """As at the end of a process that serves: its side is the first."""
        for sock in (*self.accepted, self.master, self.client):
            sock.close()


class OldStore(Store):
    def __init__(self, _: str, port: int, **more: Any) -> None:
        if "master_listen_fd" in more:
            raise TypeError("__init__(): incompatible constructor arguments")
        self._serve(socket.create_server(("", port)), port)


@pytest.fixture(params=[Store, OldStore])
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr("torch.distributed.TCPStore", request.param)
    sock = listen(HERE, [])
    with sock.dup():  # the agent may not have closed its own yet
        store = serve_store(HERE, sock)
    with closing(store):
        assert sock.fileno() == -1
        yield store


def test_ranks_reach_the_store(served: Store) -> None:
    with socket.create_connection((HERE, served.port)):
        served.accepted.append(served.master.accept()[0])


def test_its_port_is_free_as_soon_as_it_has_ended(served: Store) -> None:
    with socket.create_connection((HERE, served.port)):
        served.accepted.append(served.master.accept()[0])
        served.close()
    with socket.socket() as job:
        job.bind(("", served.port))  # without SO_REUSEADDR: TIME-WAIT would refuse it
