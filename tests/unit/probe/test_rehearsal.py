"""The port rehearsal: who connects to whom, what is made of it, and real sockets on the loopback interface."""

import io
import json
import os
import queue
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from agent.main import await_go_ahead
from rehearse.listen import Reception, answer, listener
from rehearse.visit import Limits, Visits

from preflight.checks.engine.registry import All, all_checks
from preflight.model.cluster import Cluster, Host, ProbeSettings, Product
from preflight.model.finding import Finding
from preflight.model.ports import PortSet
from preflight.model.rehearsal import Attendance, Blocked, How, Rehearsal, Taken, Visit
from preflight.probe import rehearsal as rounds
from preflight.probe.agents import Agents, ProbeWorkload
from preflight.probe.rehearsal import RehearsalRequest, rehearse
from preflight.probe.rehearsal_plan import MOST_PORTS, OTHERS, listening_ports, note, visits
from preflight.transport.local import LocalTransport
from preflight.transport.types import Channel, Options, Program

PORTS = PortSet.parse("23500,23600-23631")


def cluster(hosts: int, *, product: Product = Product.ATLAS_A1) -> Cluster:
    """Hosts on addresses of the loopback interface that no other process of tests has."""
    net = f"127.{os.getpid() >> 8 & 0x7F | 0x80}.{os.getpid() & 0xFF}"
    members = tuple(Host(f"node{number:04}", f"{net}.{number & 0xFF}") for number in range(1, hosts + 1))
    return Cluster(
        "test", product, members, hccl_ports=PortSet.parse("23600-23631"), job_ports=PortSet.parse("23500"),
        port_names={23500: "master"}, probe=ProbeSettings(sys.executable),
    )  # fmt: skip


def attending(cluster: Cluster) -> list[Attendance]:
    return [
        Attendance(host.name, host.address, listening_ports(cluster), (32768, 60999, 45000)) for host in cluster.hosts
    ]


def run(cluster: Cluster, backend: str = "gloo") -> Rehearsal:
    with closing(LocalTransport(Options())) as transport:
        return rehearse(RehearsalRequest(cluster, cluster.hosts, backend), transport)


# Who connects to whom.


@pytest.mark.parametrize("hosts", [2, 3, 64, 65, 4000])
def test_every_port_of_every_host_is_tried_by_somebody(hosts: int) -> None:
    there = attending(cluster(hosts))
    tried: dict[str, set[int]] = {one.host: set() for one in there}
    for targets in planned(hosts).values():
        for target, ports in targets.items():
            tried[target] |= set(ports)
    everything = {*PORTS, 32768, 60999, 45000}
    whole = [host for host in tried if tried[host] == everything]
    assert len(whole) == hosts if hosts <= 64 else "node0001" in whole
    assert all({23500, 23600, 23631, 32768, 60999} <= ports for ports in tried.values())


def test_of_many_hosts_all_come_to_the_first_and_nobody_to_more_than_a_few_others() -> None:
    assert all("node0001" in targets for host, targets in planned(4000).items() if host != "node0001")
    assert max(len(targets) for targets in planned(4000).values()) <= OTHERS + 1
    assert max(len(targets["node0001"]) for host, targets in planned(4000).items() if host != "node0001") <= 3
    assert "of 15,996,000 connections between hosts" in note(cluster(4000), 4000)
    assert note(cluster(64), 64) == ""


def test_of_very_many_ports_some_are_listened_on_and_the_report_says_so() -> None:
    large = replace(cluster(2), job_ports=PortSet.parse("20000-22999,23500"))
    assert len(listening_ports(large)) == MOST_PORTS
    assert {20000, 22999, 23500, 23600, 23631} <= set(listening_ports(large))
    assert note(large, 2) == "port rehearsal: 128 of the 3,033 job ports were tried"


# What is made of it.


def judged(rehearsal: Rehearsal, cluster: Cluster) -> list[Finding]:
    check = all_checks()["PRB114"]
    return list(check.function(All(check, cluster, cluster.hosts), rehearsal, {}, {}))


@cache
def planned(hosts: int) -> dict[str, dict[str, tuple[int, ...]]]:
    return visits(cluster(hosts), attending(cluster(hosts)))


def blocked(cluster: Cluster, dead: dict[tuple[str, str], set[int]]) -> Rehearsal:
    """`dead`: (source, target), "*" for any, → the ports that do not answer; an empty set: none does."""
    found = []
    for source, targets in planned(len(cluster.hosts)).items():
        for target, ports in targets.items():
            pairs = ((source, target), (source, "*"), ("*", target))
            lost = {port for pair in pairs if pair in dead for port in ports if not dead[pair] or port in dead[pair]}
            ended = (Blocked(tuple(sorted(lost)), How.TIMEOUT),) if lost else ()
            found.append(Visit(source, target, ports, ended))
    return Rehearsal("gloo", tuple(attending(cluster)), tuple(found))


@pytest.mark.parametrize("hosts", [5, 4000])
def test_one_cause_is_one_finding_however_many_hosts_suffer(hosts: int) -> None:
    many = cluster(hosts)
    cases = {
        "node0003: other hosts cannot connect to ephemeral ports 32768,45000,60999":
            {("*", "node0003"): {32768, 45000, 60999}},
        "node0002: other hosts cannot connect to port 23500 (master)": {("*", "node0002"): {23500}},
        "node0004: other hosts cannot connect to any tested port": {("*", "node0004"): set[int]()},
    }  # fmt: skip
    for summary, dead in cases.items():
        (finding,) = judged(blocked(many, dead), many)
        assert (finding.summary, finding.host) == (summary, summary[:8])
    (finding,) = judged(blocked(many, {("node0003", "*"): set()}), many)
    assert finding.summary.startswith("node0003: cannot connect to any of ")
    (finding,) = judged(blocked(many, {("node0003", "*"): set(), ("*", "node0003"): set()}), many)
    assert finding.summary.endswith("other hosts, and no other host can connect to this host")
    (finding,) = judged(blocked(many, {("node0003", "node0001"): set()}), many)
    assert finding.summary == "node0001: connections from node0003 fail. Connections from other hosts succeed"


def test_a_rule_for_one_port_on_all_hosts_reads_as_one_line() -> None:
    many = cluster(20)
    findings = judged(blocked(many, {("*", host.name): {23500} for host in many.hosts}), many)
    assert len(findings) == 20
    assert len({finding.summary.partition(": ")[2] for finding in findings}) == 1  # so that the report folds them


# Real sockets.


def test_hosts_reach_each_other_and_every_port_can_be_bound_at_once_afterwards() -> None:
    three = cluster(3)
    seen = run(three)
    assert [(one.ports, one.taken, one.error) for one in seen.hosts] == [(tuple(PORTS), (), "")] * 3
    assert all(len(one.ephemeral) == 3 for one in seen.hosts)
    assert [visit.blocked for visit in seen.visits] == [()] * 6
    for one in seen.hosts:
        for port in (*one.ports, *one.ephemeral):
            with socket.socket() as sock:  # without SO_REUSEADDR: what is left in TIME-WAIT would be in the way
                sock.bind((one.address, port))


def test_ephemeral_ports_are_left_out_where_only_hccl_is_used() -> None:
    assert [one.ephemeral for one in run(cluster(2), "hccl").hosts] == [(), ()]
    assert all(one.ephemeral for one in run(cluster(2, product=Product.CPU), "gloo").hosts)


def test_a_port_that_somebody_holds_is_named_and_the_others_are_tried() -> None:
    two = cluster(2)
    with closing(listener(two.hosts[1].address, 23600)), socket.socket() as connection:
        connection.bind((two.hosts[1].address, 23601))
        connection.connect((two.hosts[1].address, 23600))
        seen = run(two)
    name = Path("/proc/self/comm").read_text().strip()
    assert seen.hosts[1].taken == (Taken(23600, True, name, os.getpid()), Taken(23601, False, name, os.getpid()))
    assert [visit.blocked for visit in seen.visits] == [(), ()]
    assert {len(visit.ports) for visit in seen.visits} == {36, 34}


def test_a_host_that_takes_no_part_says_why_and_the_others_go_on() -> None:
    three = cluster(3)
    stray = replace(three.hosts[1], address="192.0.2.1", nic="none0")
    seen = run(replace(three, hosts=(three.hosts[0], stray, three.hosts[2])))
    assert "no interface has the name none0" in seen.hosts[1].error
    assert {(visit.source, visit.target) for visit in seen.visits} == {
        ("node0001", "node0003"),
        ("node0003", "node0001"),
    }


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with closing(listener("127.0.0.1", 0)) as sock:
        sock.setblocking(True)
        yield sock


def visited(port: int, patience: float = 0.3) -> list[object]:
    with selectors.DefaultSelector() as selector:
        limits = Limits(patience, time.monotonic() + 5)
        here = Visits(selector, [["node02", "127.0.0.1", [port]]], "w" * 64, [], limits)
        while not here.go_on(time.monotonic()):
            for key, _ in selector.select(0.05):
                key.data(key.fileobj)
        ((_, failed),) = here.outcome()
        return [(one["how"], one["ports"]) for one in failed]


@pytest.mark.parametrize(
    ("said", "how"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "stranger"),
        (answer("w" * 64, "node03", 1), "stranger"),
        (b"", "mute"),
        (answer("w" * 64, "node02", 1)[:10], "stranger"),
    ],
)  # fmt: skip
def test_who_does_not_know_this_run_is_not_taken_for_ours(server: socket.socket, said: bytes, how: str) -> None:
    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(said)
            connection.recv(64)

    threading.Thread(target=serve, daemon=True).start()
    port = server.getsockname()[1]
    assert visited(port) == [(how, [port])]


def test_a_reset_and_a_server_that_never_accepts_are_told_apart(server: socket.socket) -> None:
    port = server.getsockname()[1]
    assert visited(port) == [("mute", [port])]  # connected by the kernel, and no word
    server.close()
    assert visited(port) == [("refused", [port])]


def test_a_stranger_gets_no_answer() -> None:
    with selectors.DefaultSelector() as selector, closing(listener("127.0.0.1", 0)) as sock:
        reception = Reception(selector, [sock], "w" * 64, "node01")
        with socket.create_connection(sock.getsockname()) as client:
            client.sendall(b"GET / HTTP/1.1\r\n" + b"x" * 64)
            client.settimeout(5)
            for _ in range(4):
                for key, _ in selector.select(0.05):
                    key.data(key.fileobj)
            with pytest.raises(ConnectionResetError):
                client.recv(64)
        assert not reception.visitors


def test_a_controller_that_goes_away_leaves_no_listener() -> None:
    two = cluster(2)
    transport = LocalTransport(Options())
    channels: list[Channel] = []

    class Leaving(LocalTransport):
        def start(self, host: Host, program: Program, *, timeout: float) -> Channel:  # type: ignore[override]
            channel = transport.start(host, program, timeout=timeout)
            channels.append(channel)
            return channel

    with closing(Leaving(Options())) as leaving, rounds._Listeners(two, two.hosts, leaving, ephemeral=False) as stage:
        heard: list[object] = []
        while len(heard) < 2:
            heard += stage.receive(5)
        for channel in channels:
            channel.close()
    with socket.socket() as sock:
        sock.bind((two.hosts[0].address, 23500))
    transport.close()


def test_agents_bind_the_ports_only_when_the_rehearsal_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    two, free, sent = cluster(2), threading.Event(), queue.SimpleQueue[bytes]()

    class Silent(LocalTransport):
        def start(self, host: Host, program: Program, *, timeout: float) -> Channel:  # type: ignore[override]
            assert host in two.hosts and timeout > 0 and program.payload
            return self

        def send(self, data: bytes) -> None:
            assert free.is_set()
            sent.put(data)

        def lines(self) -> Iterator[bytes]:
            free.wait()
            yield b""

        def error(self) -> None: ...
        def stderr_tail(self) -> bytes:
            return b""

    with Agents(two, two.hosts[:1], Silent(Options()), ProbeWorkload("gloo"), free.wait) as agents:
        agents.send({"node0001": [{"do": "start"}]})
        free.set()
        assert (sent.get(timeout=5), sent.get(timeout=5)) == (b"go\n", b'{"do": "start"}\n')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'\n\ngo\n{"do": "start"}\n')))
    await_go_ahead()
    assert sys.stdin.buffer.read() == b'{"do": "start"}\n'


def test_what_a_host_invents_does_not_count() -> None:
    two = cluster(2)
    dead = {"ports": [1, 23500], "how": "timeout", "by": "", "error": ""}

    class Liar:
        def __init__(self, nonce: str) -> None:
            self.nonce = nonce
            self.asked, self.ended = threading.Event(), threading.Event()

        def send(self, data: bytes) -> None:
            (self.asked if b"visit" in data else self.ended).set()

        def close(self) -> None: ...
        def error(self) -> None: ...
        def stderr_tail(self) -> bytes:
            return b""

        def lines(self) -> Iterator[bytes]:
            here = {"at": "listening", "address": "10.0.0.1", "ports": [23500], "ephemeral": [], "taken": []}
            holder = {"port": 23500, "listening": True, "process": "nobody"}
            for lie in ({"address": "no address"}, {"ports": [0]}, {"taken": [{**holder, "pid": 0}]}):
                yield json.dumps({**here, **lie, "nonce": self.nonce}).encode()
            yield b'{"at": "failed", "nonce": "of another run", "error": "no"}'
            yield b"motd " + self.nonce.encode()
            yield json.dumps({**here, "nonce": self.nonce}).encode()
            said = [["node0002", [dead]], ["node0001", [dead]], ["node0099", [dead]]]
            self.asked.wait()
            yield json.dumps({"at": "visited", "nonce": self.nonce, "visits": said}).encode()
            self.ended.wait()

    class Lies(LocalTransport):
        def start(self, host: Host, program: Program, *, timeout: float) -> Channel:  # type: ignore[override]
            assert host in two.hosts and timeout > 0
            return Liar(json.loads(program.payload)["nonce"])

    seen = rehearse(RehearsalRequest(two, two.hosts, "hccl"), Lies(Options()))
    assert [(visit.source, visit.target, set(visit.dead)) for visit in seen.visits] == [
        ("node0001", "node0002", {23500}), ("node0002", "node0001", {23500}),
    ]  # fmt: skip


def rehearsed(*vain: tuple[str, str], hosts: str = "abc", port: int = 40000) -> Rehearsal:
    """All hosts visit each other, in vain on `port` where `vain` says so."""
    there = tuple(Attendance(host, ports=(29500,), ephemeral=(40000,)) for host in hosts)
    return Rehearsal("gloo", there, tuple(
        Visit(one, other, (29500, 40000), (Blocked((port,), How.TIMEOUT),) if (one, other) in vain else ())
        for one in hosts for other in hosts if one != other
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("vain", "unreached"),
    [
        ((), ""),
        ((("a", "b"), ("c", "b")), "b"),  # its inbound
        ((("a", "b"), ("c", "b"), ("b", "a"), ("b", "c")), "b"),
        ((("b", "a"), ("b", "c")), "b"),  # its outbound
        ((("a", "b"),), ""),  # a path
        ((("a", "b"), ("b", "c"), ("c", "a")), ""),
    ],
)
def test_unreached_is_who_reaches_nobody_or_whom_nobody_reaches(
    vain: tuple[tuple[str, str], ...], unreached: str
) -> None:
    assert rehearsed(*vain).unreached == set(unreached)


@pytest.mark.parametrize("backend", ["gloo", "nccl", "hccl"])
def test_who_is_not_reached_on_the_ports_where_ranks_meet_is_unreached(backend: str) -> None:
    assert replace(rehearsed(("a", "b"), ("c", "b"), port=29500), backend=backend).unreached == {"b"}


def test_where_nobody_reaches_anybody_all_are_unreached() -> None:
    every = [(one, other) for one in "abc" for other in "abc" if one != other]
    assert rehearsed(*every).unreached == set("abc")


def test_a_port_that_ranks_of_the_backend_do_not_need_cuts_nobody_off() -> None:
    assert replace(rehearsed(("a", "b"), ("c", "b")), backend="hccl").unreached == frozenset()
