"""HCCL Test in the probe's place: what is asked of the first host, and what is made of its answer."""

import contextlib
import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preflight.facts.parsers.ascend.hccl_test import HcclTest
from preflight.facts.reading import Found
from preflight.facts.sections.job import Job
from preflight.facts.types import ClusterFacts, HostFacts, Missing
from preflight.model.cluster import Cluster, Host, ProbeSettings
from preflight.model.measure import End, Member, Observation, RankView, TestOutcome, TestResult
from preflight.probe import hccl_test
from preflight.transport.types import Answer, ErrorKind, Program, TransportError
from tests.unit.healthy import HCCL_TEST_PASSED, healthy_cluster, healthy_facts

SOURCE = Path(__file__).parents[3] / "preflight/remote/hccl_test.py"
PROGRAM = runpy.run_path(str(SOURCE))
REQUEST = {
    "test": "/opt/all_reduce_test", "options": ["-p", "8"], "hosts": ["10.1.0.1", "10.1.0.2"], "slots": 8,
    "nic": "eth0", "variables": {"HCCL_SOCKET_IFNAME": "=eth0", "HCCL_WHITELIST_DISABLE": "1"},
}  # fmt: skip


def job(test: str | None = "/opt/hccl_test/bin/all_reduce_test", **variables: str) -> Job:
    return Job("root", 0, (0,), 0, False, variables, hccl_test=Found(test))


class First:
    """A transport to a first host that answers with `words`, or raises them."""

    def __init__(self, words: dict[str, Any] | Exception) -> None:
        self.words = words
        self.request: dict[str, Any] = {}
        self.host = ""
        self.timeout = 0.0

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 0) -> Answer:  # noqa: ARG002
        self.request, self.host, self.timeout = json.loads(program.payload), host.name, timeout
        if isinstance(self.words, Exception):
            raise self.words
        text = json.dumps(self.words)
        return Answer(f"a banner\n{self.request['marker']} {len(text)}\n{text}\n".encode(), b"", 0, 1.0)


def run(
    cluster: Cluster, first: First, found: Mapping[str, Job | Missing] | None = None, sizes: Sequence[int] = ()
) -> Any:
    jobs = found or {host.name: job() for host in cluster.hosts}
    return hccl_test.run(hccl_test.HcclTestPlan(cluster, cluster.hosts, jobs, sizes), first)  # type: ignore[arg-type]


def table(*sizes: int, check: str = "success", microseconds: float = 2000.0) -> str:
    """What HCCL Test prints: its GB are GiB."""
    head = "data_size(Bytes): |   avg_time(us): | alg_bandwidth(GB/s): | check_result:\n"
    return head + "".join(
        f"{size:<18}| {microseconds:>11.2f} | {size / max(microseconds, 1) * 1e6 / 2**30:>13.5f}       | {check}\n"
        for size in sizes
    )


ASKED = tuple(8192 << step for step in range(8))  # up to 1 MiB


def test_all_devices_take_part_and_ranks_are_numbered_host_by_host() -> None:
    first = First({"command": "mpirun …", "output": table(*ASKED), "exit": 0})
    ran = run(healthy_cluster(), first, sizes=(8, 1 << 20))
    assert (first.host, first.request["slots"], len(first.request["hosts"])) == ("node01", 8, 2)
    options = "-p 8 -b 8192 -e 1048576 -f 2 -d fp32 -o sum -c 1"
    assert " ".join(first.request["options"]) == options
    assert (ran.members[9].host, ran.members[9].device, ran.command) == ("node02", 1, "mpirun …")
    assert isinstance(ran.said, HcclTest)
    last = hccl_test.observations(ran)[-1].test
    assert (last.bytes, last.outcome, last.stage) == (1 << 20, TestOutcome.PASS, "values")
    assert last.algbw_GBps
    assert last.algbw_GBps == pytest.approx((1 << 20) / 2000e-6 / 1e9)
    assert last.algbw_GBps != pytest.approx(ran.said.rows[-1].bandwidth, rel=0.05)
    assert last.busbw_GBps == pytest.approx(last.algbw_GBps * 2 * 15 / 16)


@pytest.mark.parametrize(
    ("output", "outcomes"),
    [
        (table(8192, check="NULL"), [TestOutcome.UNCHECKED]),
        (table(8192) + table(16384, check="failed"), [TestOutcome.PASS, TestOutcome.WRONG_DATA]),
        (table(*ASKED) * 16, []),
        (table(*ASKED, 1 << 30), []),
        (table(1 << 20), []),
    ],
    ids=["nothing compared", "wrong", "a table a rank", "a size too many", "not from the first size on"],
)
def test_a_row_of_the_table_says_pass_only_for_what_was_asked_and_compared(
    output: str, outcomes: list[TestOutcome]
) -> None:
    ran = run(healthy_cluster(), First({"output": output}), sizes=(8, 1 << 20))
    assert [seen.test.outcome for seen in hccl_test.observations(ran)] == outcomes
    assert ran.strange_rows == (not outcomes)


def test_a_time_of_nothing_has_no_bandwidth() -> None:
    ran = run(healthy_cluster(), First({"output": table(8192, microseconds=0.0)}), sizes=(8192,))
    (seen,) = hccl_test.observations(ran)
    assert (seen.test.seconds, seen.test.algbw_GBps, seen.test.busbw_GBps) == (None, None, None)


@pytest.mark.parametrize("asked", [(8, 1 << 20), (1,), (1001, 100_003), (3 << 20,), (1 << 20, 3 << 20)])
def test_the_sizes_that_have_to_come_are_those_of_its_options(asked: tuple[int, ...]) -> None:
    first = First({"output": HCCL_TEST_PASSED})
    ran = run(healthy_cluster(), first, sizes=asked)
    options = dict(zip(first.request["options"][::2], first.request["options"][1::2], strict=True))
    size, expected = int(options["-b"]), []
    while size <= int(options["-e"]):  # as HCCL Test goes through them
        expected.append(size)
        size *= int(options["-f"])
    assert list(ran.sizes) == expected
    assert all(size % 4 == 0 and size <= max(max(asked), 4) for size in ran.sizes)


def test_what_the_first_host_says_is_bounded_before_it_is_a_finding() -> None:
    ran = run(healthy_cluster(), First({"error": "x" * 100_000, "command": "y" * 100_000}))
    assert isinstance(ran.said, Missing)
    assert len(ran.said.error) + len(ran.command) < 10_000


def test_it_is_given_more_time_than_hccl_takes_to_give_up() -> None:
    first = First({"output": HCCL_TEST_PASSED})
    cluster = replace(healthy_cluster(), probe=ProbeSettings(backend="hccl", step_deadline=180))
    run(cluster, first, {host.name: job(HCCL_CONNECT_TIMEOUT="600") for host in cluster.hosts})
    assert first.timeout > first.request["seconds"] > 620


def test_devices_that_are_not_the_first_ones_are_named() -> None:
    cluster = healthy_cluster()
    cluster = replace(cluster, hosts=tuple(replace(host, devices=host.devices[4:]) for host in cluster.hosts))
    first = First({"output": HCCL_TEST_PASSED})
    run(cluster, first)
    assert (first.request["slots"], first.request["variables"]["HCCL_TEST_USE_DEVS"]) == (4, "4,5,6,7")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            {"error": "this host cannot log in to 10.1.0.2: Permission denied"},
            "node01: this host cannot log in to 10.1.0.2",
        ),
        ({"output": "Killed\n", "exit": 137}, "HCCL Test printed 'Killed"),
        (TransportError(ErrorKind.TIMEOUT, "node01: nothing after 10 s", "see whether it is up"), "nothing after 10 s"),
        ({"exit": "x"}, "node01: exit should be a whole number or null"),
    ],
)
def test_what_keeps_it_from_running_is_said(words: dict[str, Any] | Exception, error: str) -> None:
    said = run(healthy_cluster(), First(words)).said
    assert isinstance(said, Missing)
    assert error in said.error


def test_where_it_cannot_run_nobody_is_asked() -> None:
    cluster, first = healthy_cluster(), First(AssertionError("asked"))
    both = {host.name: job() for host in cluster.hosts}
    one, other = cluster.hosts
    unlike = replace(cluster, hosts=(one, replace(other, devices=other.devices[:4])))
    contained = replace(cluster, probe=ProbeSettings(wrapper=("docker", "exec", "-i", "job")))
    for shown, found, word in (
        (cluster, both | {"node02": job(None)}, "node02: all_reduce_test is missing. Build it"),
        (cluster, both | {"node02": job("/elsewhere/all_reduce_test")}, "different paths on the hosts"),
        (
            cluster,
            both | {"node02": Missing("no python")},
            "node02: could not inspect the environment of jobs: no python",
        ),
        (unlike, both, "different devices"),
        (contained, both, "containers"),
        (replace(cluster, hosts=()), both, "no host"),
    ):
        said = run(shown, first, found).said
        assert isinstance(said, Missing)
        assert word in said.error


def test_only_when_no_host_has_torch_the_probe_gives_way() -> None:
    test = TestResult("r0-0", "init", "", 0, None, (), TestOutcome.FAIL, "spawned")
    without = RankView(Member("a", 0, 0), "spawned", "ModuleNotFoundError: No module named 'torch'", end=End.LOST)
    assert hccl_test.nobody_has_torch([Observation(test, (without, without))])
    assert not hccl_test.nobody_has_torch([Observation(test, (without, replace(without, error="", end=None)))])
    assert not hccl_test.nobody_has_torch([])


def test_mindspore_without_torch_is_no_fault_and_neither_of_them_is_one() -> None:
    def facts(**packages: str) -> ClusterFacts:
        healthy = healthy_facts(healthy_cluster()).hosts["node01"]
        assert isinstance(healthy, HostFacts)
        return ClusterFacts({"node01": replace(healthy, job=replace(job(), packages=packages))})

    assert hccl_test.only_mindspore(facts(mindspore="2.6.0"))
    assert not hccl_test.only_mindspore(facts(mindspore="2.6.0", torch="2.6.0"))
    assert not hccl_test.only_mindspore(facts())
    assert not hccl_test.only_mindspore(ClusterFacts({}))


def test_open_mpi_is_told_what_to_pass_on_and_mpich_does_by_itself() -> None:
    open_mpi = " ".join(PROGRAM["command"](REQUEST, "/opt/mpi/bin/mpirun", True, "hosts", ["HCCL_X", "PATH"]))
    assert "--hostfile hosts -n 16" in open_mpi
    assert "--prefix /opt/mpi" in open_mpi
    assert "-x HCCL_X -x PATH /opt/all_reduce_test -p 8" in open_mpi
    assert PROGRAM["hostfile_lines"](REQUEST, True) == ["10.1.0.1 slots=8", "10.1.0.2 slots=8"]
    mpich = PROGRAM["command"](REQUEST, "mpirun", False, "hosts", ["HCCL_X"])
    assert mpich == ["mpirun", "-f", "hosts", "-n", "16", "-iface", "eth0", "/opt/all_reduce_test", "-p", "8"]
    assert PROGRAM["hostfile_lines"](REQUEST, False) == ["10.1.0.1:8", "10.1.0.2:8"]


def test_the_line_to_run_by_hand_is_a_shell_s() -> None:
    request = {**REQUEST, "test": "/opt/my tests/all_reduce_test"}
    line = PROGRAM["manual_command"](request, "mpirun", False)
    assert line.startswith("printf '%s\\n' 10.1.0.1:8 10.1.0.2:8 > hosts; HCCL_SOCKET_IFNAME==eth0 HCCL_WHITELIST")
    assert line.endswith("mpirun -f hosts -n 16 -iface eth0 '/opt/my tests/all_reduce_test' -p 8")


def test_one_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    begin, alive = time.monotonic(), tmp_path / "alive"
    stubborn = f"trap '' TERM; (while :; do touch {alive}; sleep 0.1; done) & echo started; wait; sleep 600"
    PROGRAM["run"].__globals__["FAREWELL"] = 0.3
    assert PROGRAM["run"](["sh", "-c", stubborn], 0.5) == ("started\n", None)
    assert time.monotonic() - begin < 30
    alive.unlink()
    time.sleep(0.5)
    assert not alive.exists()


FAKE_MPIRUN = """#!/bin/sh
[ "$1" = --version ] && { echo HYDRA; exit; }
trap '' TERM
setsid sh -c 'touch "$0/one"; exec sleep 3600' "$PLACE" &
touch "$PLACE/two"
wait
"""


@pytest.mark.parametrize("how", ["asked", "nobody listens"])
def test_when_its_session_ends_nothing_is_left_not_even_a_rank_in_a_session_of_its_own(
    tmp_path: Path, how: str
) -> None:
    (tmp_path / "mpirun").write_text(FAKE_MPIRUN)
    (tmp_path / "mpirun").chmod(0o755)
    request = json.dumps({**REQUEST, "hosts": ["127.0.0.1"], "marker": "m", "seconds": 600, "variables": {}})
    words = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PLACE": str(tmp_path), "TMPDIR": str(tmp_path)}
    program = [sys.executable, str(SOURCE)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **words}) as run_:
        assert run_.stdin
        assert run_.stdout
        run_.stdin.write(request.encode())
        run_.stdin.close()
        while not ((tmp_path / "one").exists() and (tmp_path / "two").exists()):
            time.sleep(0.05)
        if how == "asked":
            run_.terminate()
        run_.stdout.close()
        assert run_.wait(60) == 1
    assert not with_in_environment(f"PLACE={tmp_path}")
    assert not list(tmp_path.glob("preflight-*"))


def with_in_environment(word: str) -> list[str]:
    """The processes that were started with it, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"{word}\0".encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
    return found


def test_endless_output_is_cut() -> None:
    text, code = PROGRAM["run"](["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"], 60)
    assert (len(text), code) == (PROGRAM["LIMIT"], 0)
