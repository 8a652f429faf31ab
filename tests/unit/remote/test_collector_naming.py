"""The collector's section `naming` over a resolver that is made up, against torch's own rule; logind's files; and what
jobs find left in /dev/shm."""

import mmap
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from preflight.facts.parsers.linux.logind import remove_ipc
from preflight.facts.sections.naming import queries
from preflight.model.cluster import Host
from tests.unit.collector import JOB_VIEW, section

NAMES = {
    "localhost": (["127.0.0.1", "::1"], ""),
    "node01": (["10.1.0.1"], "node01.dc"),
    "node01.dc": (["10.1.0.1"], "node01.dc"),
    "master": (["10.1.0.1"], "node01.dc"),
    "storage01": (["10.9.0.1"], "storage01"),
    "node02": (["10.1.0.2"], "node02.dc"),
    "node02.dc": (["10.1.0.2"], "node02.dc"),
    "debian": (["127.0.1.1"], "debian"),
}


class Resolver:
    """Stands in for the socket module's resolver."""

    def __init__(self, own: str) -> None:
        self.own = own
        self.dead = threading.Event()

    def getaddrinfo(self, name: str, *_: object, **__: object) -> list[Any]:
        if self.dead.is_set() and name not in ("localhost", self.own):
            time.sleep(30)
        try:
            socket.inet_pton(socket.AF_INET, name)
        except OSError:
            if name not in NAMES:
                raise socket.gaierror(-2, "Name or service not known") from None
            addresses, canonical = NAMES[name]
        else:
            addresses, canonical = [name], name
        return [(2, 1, 6, canonical if not at else "", (address, 0)) for at, address in enumerate(addresses)]

    def gethostbyaddr(self, *_: object) -> object:
        if self.dead.is_set():
            time.sleep(30)
        raise socket.gaierror(-2, "Name or service not known")

    def gethostname(self) -> str:
        return self.own

    def getfqdn(self) -> str:
        return NAMES[self.own][1]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    made = Resolver("node01")
    for name in ("getaddrinfo", "gethostbyaddr", "gethostname", "getfqdn"):
        monkeypatch.setattr(socket, name, getattr(made, name))
    return made


def look(endpoints: list[str], seconds: float = 10.0, edit: tuple[str, str] = ("", "")) -> dict[str, Any]:
    request = {"naming": {"peers": ["node02", "node03"], "addresses": ["10.1.0.2"], "endpoints": endpoints}}
    looks = section("naming", "naming", lambda text: text.replace(*edit) if edit[0] else text)
    found: dict[str, Any] = looks(request, time.monotonic() + seconds)
    return found


@pytest.mark.usefixtures("resolver")
def test_a_host_finds_its_names_and_those_of_its_peers() -> None:
    found = look([])
    assert found["localhost"] == ["127.0.0.1", "::1"]
    assert found["full_name"] == {"name": "node01.dc", "peers": [["node02.dc", ["10.1.0.2"]], ["node03.dc", []]]}
    assert found["reverse"][0][1] < 1


ENDPOINTS = ["node01", "node01.dc", "master", "10.1.0.1", "localhost", "127.0.0.1", "storage01", "10.9.0.1", "node02",
             "10.1.0.2", "nobody", "debian"]  # fmt: skip


@pytest.mark.parametrize("own", ["node01", "debian"])
def test_who_is_the_endpoint_is_decided_as_torch_decides_it(resolver: Resolver, own: str) -> None:
    torch = pytest.importorskip("torch.distributed.elastic.rendezvous.utils")
    resolver.own = own
    assert look(ENDPOINTS)["endpoints"] == [[name, torch._matches_machine_hostname(name)] for name in ENDPOINTS]


def test_a_resolver_that_is_dead_costs_its_own_look_ups(resolver: Resolver) -> None:
    resolver.dead.set()
    found = look(["node01", "node02"], edit=("SECONDS = 6.0", "SECONDS = 0.5"))
    assert found["localhost"] == ["127.0.0.1", "::1"]
    assert (found["full_name"], found["reverse"]) == (None, [["10.1.0.2", None]])
    assert found["endpoints"] == [["node01", True], ["node02", None]]


def test_the_first_host_and_the_neighbours_are_looked_up() -> None:
    hosts = [Host(f"n{number}", f"10.1.0.{number}") for number in range(1, 6)]
    assert queries(hosts, "n3") == {
        "peers": ["n1", "n2", "n4"], "addresses": ["10.1.0.1", "10.1.0.2"], "endpoints": ["n1", "10.1.0.1"]
    }  # fmt: skip
    assert queries(hosts[:1], "n1") == {"peers": [], "addresses": [], "endpoints": ["n1", "10.1.0.1"]}
    assert queries([Host("a", "a"), Host("b", "b")], "a")["addresses"] == []


@pytest.mark.parametrize(("files", "distribution", "removes"), [
    (None, "debian", None),
    ([], "debian", True),
    ([], "openEuler", None),
    ([("/etc/systemd/logind.conf", "[Login]\n#RemoveIPC=yes\n")], "rhel", None),
    ([("/etc/systemd/logind.conf", "[Login]\nRemoveIPC=yes\n")], "rhel", True),
    ([("/a", "RemoveIPC=yes\n"), ("/b", "RemoveIPC = no\n")], "debian", False),
    ([("/a", "RemoveIPC=perhaps\n")], "debian", True),
    ([("/a", "RemoveIPC=\nno\n")], "debian", True),
    ([("/a", " RemoveIPC = no \r\n")], "debian", False),
])  # fmt: skip
def test_what_logind_removes_is_what_its_last_file_says(
    files: list[tuple[str, str]] | None, distribution: str, removes: bool | None
) -> None:
    assert remove_ipc(files, distribution) is removes


def test_the_files_of_logind_are_read_in_the_order_in_which_they_count(tmp_path: Path) -> None:
    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")

    look = section("system", "os", lambda text: text.replace('"/usr/lib/systemd', f'"{tmp_path}/usr').replace(
        '"/usr/local/lib/systemd', f'"{tmp_path}/local').replace('"/run/systemd', f'"{tmp_path}/run').replace(
        '"/etc/systemd"', f'"{tmp_path}/etc"'))  # fmt: skip
    assert look({}, 0)["logind"] is None
    (tmp_path / "run/seats").mkdir(parents=True)
    write("usr/logind.conf", "vendor")
    write("etc/logind.conf", "main")
    write("usr/logind.conf.d/50-x.conf", "hidden")
    write("etc/logind.conf.d/50-x.conf", "shown")
    write("usr/logind.conf.d/90-y.conf", "last")
    assert [text for _, text in look({}, 0)["logind"]] == ["main", "shown", "last"]


@pytest.fixture
def file_of_nccl() -> Iterator[int]:
    """A file as NCCL makes it, of 8 MiB that are there."""
    descriptor, path = tempfile.mkstemp(prefix="nccl-test", dir="/dev/shm")
    try:
        os.write(descriptor, b"x" * (8 << 20))
        yield descriptor
    finally:
        os.close(descriptor)
        Path(path).unlink()


def test_files_that_nobody_has_mapped_are_left_over(file_of_nccl: int) -> None:
    scope: dict[str, Any] = {"__name__": "job_view"}
    exec(JOB_VIEW, scope)
    shm = scope["view"]({"npu": False, "deep": None, "called": []})["shm"]
    assert (shm["left"] >= 1, shm["left_bytes"] >= 8 << 20) == (True, True)
    with mmap.mmap(file_of_nccl, 4096):
        held = scope["leftover_segments"]()
    assert held["left"] == shm["left"] - 1
    assert shm["mode"] == Path("/dev/shm").stat().st_mode & 0o7777
