"""The collector's look at firewalls, its own login, and its connections to other hosts."""

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.transport.programs import source
from tests.unit.collector import answer, tool

TABLE = "table ip filter {\n\tchain INPUT {\n\t}\n}\n"


def looked(path: str = "") -> dict[str, object]:
    found: dict[str, object] = answer("firewall", path=path)["firewall"]["value"]
    return found


def test_iptables_is_asked_where_nft_shows_its_tables(tmp_path: Path) -> None:
    tool(tmp_path, "nft", f"printf '{TABLE}'\n")
    path = tool(tmp_path, "iptables-nft", 'echo "-P INPUT DROP"; echo "asked: $*" >&2\n')
    found = looked(path)["iptables"]
    assert found == {"iptables-nft": {"out": "-P INPUT DROP\n", "err": "asked: -w -S INPUT\n", "code": 0}}


def test_iptables_is_not_asked_where_it_made_no_table(tmp_path: Path) -> None:
    path = tool(tmp_path, "nft", "echo 'table inet site {'; echo '}'\n")
    found = looked(path)
    assert (found["iptables"], found["nat"]) == ({}, {})


def test_the_login_is_seen_through_sudo() -> None:
    """sudo takes SSH_CONNECTION from its child; here `env -u` does."""
    program = source("collect").encode()
    loader = f"import sys; exec(compile(sys.stdin.buffer.read({len(program)}), 'collect', 'exec'))"
    request = {"marker": "m", "deadlines": {"firewall": 10}, "ports": [], "names": []}
    said = subprocess.run(
        ["sh", "-c", 'env -u SSH_CONNECTION "$@"; exit $?', "sh", sys.executable, "-I", "-c", loader],
        input=program + json.dumps(request).encode(),
        capture_output=True,
        env={**os.environ, "SSH_CONNECTION": "192.0.2.9 50000 192.0.2.1 2222"},
        check=True,
    ).stdout.decode()
    document = json.loads(said.lstrip("\n").split("\n", 1)[1])
    assert document["firewall"]["value"]["ssh_connection"] == "192.0.2.9 50000 192.0.2.1 2222"


def tries(*targets: tuple[str, str], ports: list[int]) -> list[dict[str, object]]:
    request = {"targets": targets, "ports": ports, "ephemeral": False}
    found: list[dict[str, object]] = answer("connects", connects=request)["connects"]["value"]
    return found


def test_a_port_where_nobody_listens_answers_and_a_name_that_is_none_is_told() -> None:
    with socket.socket() as taken:  # bound, and so nobody else's, but not listening
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        told = {one["host"]: one for one in tries(("a", "127.0.0.1"), ("b", "nowhere.invalid"), ports=[port])}
    local = {"address": "127.0.0.1", "port": port, "code": 111, "client": "127.0.0.1", "icmp": None}
    assert told["a"] == {"host": "a", **local}
    assert told["b"] == {"host": "b", "error": "nowhere.invalid does not resolve on that host"}


@pytest.mark.parametrize(("family", "place", "target"), [
    (socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET, "", "127.0.0.1"), (socket.AF_INET6, "::1", "::1"),
    (socket.AF_INET6, "::", "::1"), (socket.AF_INET6, "::", "127.0.0.1"),
])  # fmt: skip
def test_a_port_at_which_a_job_may_be_at_work_is_not_tried(
    family: socket.AddressFamily, place: str, target: str
) -> None:
    both = family == socket.AF_INET6 and place == "::"
    with socket.create_server((place, 0), family=family, dualstack_ipv6=both) as server:
        port = server.getsockname()[1]
        (told,) = tries(("a", target), ports=[port])
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert told == {"host": "a", "address": target, "port": port, "busy": True}


def test_where_no_way_leads_is_told_in_the_kernels_word() -> None:
    (told,) = tries(("a", "255.255.255.255"), ports=[29500])
    assert told["code"] in (errno.ENETUNREACH, errno.EACCES, errno.EINVAL)


def test_no_connection_starts_at_a_port_of_the_job() -> None:
    request = {"targets": [("a", "127.0.0.1")], "ports": [1], "ephemeral": False}
    (told,) = answer("connects", connects=request, ports=[[1, 65535]])["connects"]["value"]
    assert told["error"] == "the connection could not be prepared: no port outside the job's range is free"
