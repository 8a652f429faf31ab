"""Real agents and workers: two hosts of two ranks each, both this machine, over gloo on the loopback interface."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.model.cluster import Cluster, Device, Host, ProbeSettings, Product
from preflight.model.measure import End, Observation, Scope, TestOutcome, kept_waiting
from preflight.probe.hooks import Hooks
from preflight.probe.request import Request
from preflight.probe.run import probe
from preflight.transport.local import LocalTransport
from preflight.transport.types import Channel, ErrorKind, Options, Program, Progress, TransportError
from tests.torch_npu_wheel import fetch

FAULTS = Path(__file__).parent / "probe_faults"
MARK = "PREFLIGHT_TEST_MARK"
EVERYTHING = Request("hccl", (8, 1 << 16), (Scope.ALL, Scope.PAIR))
TOGETHER = replace(EVERYTHING, quick=True)


def processes(mark: str) -> list[int]:
    """Those that were started with `mark` in their environment, and their forks, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"{MARK}={mark}\0".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def cluster(
    mark: str,
    fault: str = "none -1",
    *,
    deadline: float = 20.0,
    python: str = sys.executable,
    packages: str | Path = FAULTS,
    **variables: str,
) -> Cluster:
    devices = (Device(0), Device(1))
    hosts = (Host("node01", "127.0.0.1", devices=devices), Host("node02", "127.0.0.1", devices=devices))
    words = {"PYTHONPATH": str(packages), "FAULT": fault, MARK: mark, "TMPDIR": f"/tmp/{mark}", **variables}
    words["PATH"] = f"{FAULTS}:{os.environ['PATH']}"  # the hccn_tool there
    setup = "; ".join(f"export {name}={shlex.quote(value)}" for name, value in words.items())
    settings = ProbeSettings(python, setup, backend="hccl", step_deadline=deadline, sizes=(8, 1 << 16))
    return Cluster("test", Product.ATLAS_A1, hosts, probe=settings)


@pytest.fixture
def mark() -> Iterator[str]:
    """A name for the processes of one test, and for the directory below /tmp where they leave their records; afterwards
    none of them may be left."""
    name = f"preflight-test-{os.getpid()}-{time.monotonic_ns()}"
    Path(f"/tmp/{name}").mkdir()
    yield name
    left = gone_within(5, name)
    shutil.rmtree(f"/tmp/{name}")
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def gone_within(seconds: float, mark: str) -> list[int]:
    until = time.monotonic() + seconds
    while processes(mark) and time.monotonic() < until:
        time.sleep(0.05)
    return processes(mark)


def run(
    cluster: Cluster, progress: Callable[[Progress], None] | None = None, request: Request = TOGETHER
) -> tuple[Observation, ...]:
    transport = LocalTransport(Options())
    try:
        hooks = Hooks(progress=progress) if progress else Hooks()
        return probe(cluster, cluster.hosts, transport, request, hooks).observations
    finally:
        transport.close()


def world(observations: tuple[Observation, ...]) -> list[Observation]:
    return [seen for seen in observations if seen.test.scope is Scope.ALL]


def pairs(observations: tuple[Observation, ...]) -> list[Observation]:
    return [seen for seen in observations if seen.test.scope is Scope.PAIR]


def failing(observations: list[Observation]) -> Observation:
    return next(seen for seen in observations if seen.test.outcome in (TestOutcome.FAIL, TestOutcome.HANG))


def test_a_healthy_cluster_passes_every_test(mark: str) -> None:
    observations = run(cluster(mark), request=EVERYTHING)
    assert {seen.test.outcome for seen in observations} == {TestOutcome.PASS}
    assert {seen.test.stage for seen in observations} == {"closed"}
    assert {seen.test.op for seen in world(observations)} == {
        "init", "all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "gather", "scatter", "all_to_all",
        "send_recv", "barrier", "training_step",
    }  # fmt: skip
    assert [len(seen.test.members) for seen in pairs(observations) if seen.test.op == "init"] == [2, 2]


def test_hosts_and_devices_that_are_ruled_out_when_the_agents_are_ready_are_in_no_test(mark: str) -> None:
    two = cluster(mark)
    hooks = Hooks(begin=lambda present: present[:1], without=lambda: {("node01", 1)})
    with contextlib.closing(LocalTransport(Options())) as transport:
        observations = probe(two, two.hosts, transport, replace(TOGETHER, scopes=(Scope.DEVICE,)), hooks).observations
    members = {(member.host, member.device) for seen in observations for member in seen.test.members}
    assert members == {("node01", 0)}


@pytest.mark.parametrize(("fault", "end"), [("die 2", End.KILLED), ("exit 2", End.EXITED)])
def test_a_rank_that_dies_midway_is_named_and_the_pairs_go_on(mark: str, fault: str, end: End) -> None:
    observations = run(cluster(mark, fault))
    (view,) = kept_waiting(failing(world(observations)))
    assert (view.member.host, view.member.device, view.end, view.stage) == ("node02", 0, end, "warm-up")
    assert {seen.test.outcome for seen in pairs(observations)} == {TestOutcome.PASS}


def test_a_rank_that_stands_still_is_named_within_its_deadline(mark: str) -> None:
    begin = time.monotonic()
    observations = run(cluster(mark, "stop 1", deadline=3.0))
    assert time.monotonic() - begin < 3 + 5 + 10
    (view,) = kept_waiting(failing(world(observations)))
    assert (view.member.host, view.member.device, view.state) == ("node01", 1, "T")
    assert {seen.test.outcome for seen in pairs(observations)} == {TestOutcome.PASS}


def test_devices_of_killed_workers_are_waited_for_before_the_next_round(mark: str, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    shown: list[Progress] = []
    observations = run(cluster(mark, "stop 1", deadline=3.0, HCCN_LOG=str(log), HCCP_CALLS="4"), shown.append)
    calls = log.read_text().splitlines()
    assert {calls.count("-i 0 -process -g"), calls.count("-i 1 -process -g")} <= {
        5,
        6,
    }  # each host asks until it is free
    phases = list(dict.fromkeys(progress.phase for progress in shown))
    assert phases.index("device release") == phases.index("probe round 2, 4 ranks, tests") + 1
    assert "killed workers to leave their devices" in {progress.waiting_for for progress in shown}
    assert {seen.test.outcome for seen in pairs(observations)} == {TestOutcome.PASS}


def test_where_all_workers_left_by_themselves_no_device_is_asked_about(mark: str, tmp_path: Path) -> None:
    run(cluster(mark, HCCN_LOG=str(tmp_path / "calls")))
    assert not (tmp_path / "calls").exists()


def test_devices_of_the_last_round_s_workers_are_waited_for_too(mark: str) -> None:
    """Whoever comes next, a job or another probe, would be told that one is still there (EJ0001)."""
    shown: list[Progress] = []
    request = replace(TOGETHER, scopes=(Scope.ALL,))
    observations = run(cluster(mark, "stop 0", deadline=3.0), shown.append, request)
    assert failing(world(observations)).test.outcome is TestOutcome.HANG
    assert shown[-1].waiting_for == "killed workers to leave their devices"


def test_a_call_of_hccn_tool_that_hangs_does_not_outlive_the_probe(mark: str) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.phase == "device release" and "sleep" in map(name, processes(mark)):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(cluster(mark, "die 2", HCCN_HANGS="1"), interrupt)
    assert gone_within(5, mark) == []


def test_a_variable_that_is_no_text_hides_no_host(mark: str) -> None:
    assert {seen.test.outcome for seen in run(cluster(mark, HCCL_DFS_CONFIG="\udcff"))} == {TestOutcome.PASS}


def test_jobs_that_give_hccl_more_time_get_it_from_the_probe_too(mark: str) -> None:
    """A deadline of 3 s would end a rank that stands still for 4."""
    observations = run(cluster(mark, "pause 1", deadline=3.0, HCCL_CONNECT_TIMEOUT="240"))
    assert {seen.test.outcome for seen in observations} == {TestOutcome.PASS}


def test_a_rank_that_never_gets_its_backend_is_named_with_its_stage(mark: str) -> None:
    observations = run(cluster(mark, "hang-at-import 3", deadline=3.0))
    seen = failing(world(observations))
    assert seen.test.op == "init"
    (view,) = kept_waiting(seen)
    assert (view.member.host, view.member.device, view.stage) == ("node02", 1, "torch")
    same_round = [other for other in world(observations) if other.test.round == seen.test.round]
    assert {other.test.outcome for other in same_round[1:]} == {TestOutcome.NOT_RUN}


def test_a_device_that_does_not_open_is_named_with_its_own_words(mark: str) -> None:
    (view,) = kept_waiting(failing(world(run(cluster(mark, "no-device 0")))))
    assert (view.member.rank, view.stage) == (0, "backend")
    assert "device 0 is held by another process" in view.error


def test_the_vendor_s_own_torch_npu_ends_at_the_backend_where_cann_is_not_there(mark: str) -> None:
    """Real workers import the real package, which is as far as it comes here."""
    seen = pairs(run(cluster(mark, packages=fetch().parent)))[0]
    assert {(view.stage, view.end) for view in seen.ranks} == {("torch", End.ERROR)}
    assert all("libhccl.so: cannot open shared object file" in view.error for view in seen.ranks)


def test_data_that_a_rank_adds_twice_is_found_everywhere_and_names_that_rank(mark: str) -> None:
    wrong = [seen for seen in run(cluster(mark, "twice 2")) if seen.test.outcome is TestOutcome.WRONG_DATA]
    assert {seen.test.op for seen in wrong} == {"all_reduce"}
    assert {view.suspect_rank for seen in wrong for view in seen.ranks} == {2}
    assert {view.wrong_values for seen in wrong for view in seen.ranks} == {1 << 14}


def test_a_value_that_one_rank_spoils_for_itself_is_seen_by_that_rank_alone(mark: str) -> None:
    (wrong,) = [seen for seen in run(cluster(mark, "flip 1")) if seen.test.outcome is TestOutcome.WRONG_DATA]
    (view,) = [view for view in wrong.ranks if view.wrong_values]
    assert (view.member.rank, view.wrong_values, view.suspect_rank) == (1, 1, None)
    assert view.first_wrong == "index 3 of 16384: found 21.0, expected 20.0"


def test_a_host_that_loses_its_agent_midway_is_named_and_not_tested_any_more(mark: str) -> None:
    observations = run(cluster(mark, "kill-agent 2"))
    assert {view.member.host for view in kept_waiting(failing(world(observations)))} == {"node02"}
    assert {seen.test.outcome for seen in pairs(observations)} == {TestOutcome.PASS}
    lost_in = failing(world(observations)).test.round
    assert {member.host for seen in observations if seen.test.round > lost_in for member in seen.test.members} <= {
        "node01"
    }


def test_a_host_that_loses_its_agent_while_others_are_awaited_is_left_out(mark: str) -> None:
    two = cluster(mark)

    class OneDiesWaiting(LocalTransport):
        def start(self, host: Host, program: Program, *, timeout: float) -> Channel:  # type: ignore[override]
            if host.name == "node02":
                program = replace(program, source=program.source.replace("agent.serve()", "os._exit(1)"))
            else:
                program = replace(program, setup=program.setup + "; sleep 4")
            return super().start(host, program, timeout=timeout)

    observations = probe(two, two.hosts, OneDiesWaiting(Options()), TOGETHER).observations
    named = kept_waiting(observations[0])
    assert [(view.member.host, view.stage) for view in named] == [("node02", "torch")] * 2
    assert {member.host for seen in observations[1:] for member in seen.test.members} == {"node01"}
    assert {(seen.test.outcome, view.error) for seen in observations[1:] for view in seen.ranks} == {
        (TestOutcome.PASS, "")
    }


def test_a_python_that_is_not_there_is_named_with_the_transports_sentence(mark: str) -> None:
    observations = run(cluster(mark, python="/nowhere/python3"))
    errors = {view.error for view in observations[0].ranks}
    assert len(errors) == 2
    assert all("/nowhere/python3" in error and "agent" not in error for error in errors)


def test_what_workers_print_is_neither_a_result_nor_in_the_way(mark: str) -> None:
    assert {seen.test.outcome for seen in run(cluster(mark, "noise -1"))} == {TestOutcome.PASS}


def test_a_process_that_a_worker_left_behind_is_ended_with_its_group(mark: str) -> None:
    assert {seen.test.outcome for seen in run(cluster(mark, "orphan 0"))} == {TestOutcome.PASS}


def test_a_host_without_torch_is_named_and_the_other_goes_on(mark: str) -> None:
    two = cluster(mark)

    class OneWithoutTorch(LocalTransport):
        def start(self, host: Host, program: Program, *, timeout: float) -> Channel:  # type: ignore[override]
            if host.name == "node02":
                program = Program(program.source.replace(r"import torch\n", r"import no_torch\n"), program.payload)
            return super().start(host, program, timeout=timeout)

    observations = probe(two, two.hosts, OneWithoutTorch(Options()), TOGETHER).observations
    called = observations[0]
    assert [(view.member.host, view.stage) for view in kept_waiting(called)] == [("node02", "python")] * 2
    assert "No module named 'no_torch'" in called.ranks[2].error
    assert {seen.test.outcome for seen in observations[1:]} == {TestOutcome.PASS}
    assert {member.host for seen in observations[1:] for member in seen.test.members} == {"node01"}


def test_a_host_that_is_not_reached_is_named_with_the_transports_sentence(mark: str) -> None:
    two = cluster(mark)

    class OneDead(LocalTransport):
        def start(self, host: Host, program: Program, *, timeout: float) -> Channel:  # type: ignore[override]
            if host.name == "node01":
                raise TransportError(ErrorKind.TIMEOUT, "node01: nothing after 10 s", "see whether it is up")
            return super().start(host, program, timeout=timeout)

    observations = probe(two, two.hosts, OneDead(Options()), TOGETHER).observations
    assert {view.error for view in kept_waiting(observations[0])} == {"node01: nothing after 10 s"}
    assert {seen.test.outcome for seen in observations[1:]} == {TestOutcome.PASS}


CONTROLLER = """
import sys
sys.path.insert(0, {tests!r})
from test_agents import cluster, run
run(cluster({mark!r}, {fault!r}, deadline=300.0, packages={packages!r}))
"""


@contextlib.contextmanager
def controller(mark: str, fault: str, packages: Path = FAULTS) -> Iterator[subprocess.Popen[bytes]]:
    """A probe in a process of its own."""
    code = CONTROLLER.format(tests=str(Path(__file__).parent), mark=mark, fault=fault, packages=str(packages))
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_when_the_controller_ends_nothing_is_left_on_the_hosts_after_five_seconds(
    mark: str, how: signal.Signals
) -> None:
    with controller(mark, "stop 1") as process:
        wait_until(lambda: any("T" in state(pid) for pid in processes(mark)))
        process.send_signal(how)
        process.wait(5)
        assert gone_within(5, mark) == []


def test_when_the_controller_dies_while_hosts_import_torch_nothing_is_left_either(mark: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import time; time.sleep(600)")
    with controller(mark, "none -1", tmp_path) as process:
        wait_until(lambda: [name(pid) for pid in processes(mark)] == ["preflight-agent"] * 2)
        process.kill()
        assert gone_within(5, mark) == []


def name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""
