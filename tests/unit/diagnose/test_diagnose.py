"""What logs are taken for: lines one by one, logs of jobs that failed, and of such that did not."""

import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.checks.engine.registry import all_checks
from preflight.diagnose import told
from preflight.diagnose.catalogue import CODE_TRIGGER, SIGNS, TRIGGERS, recognise
from preflight.diagnose.errors.hccl import LATE
from preflight.diagnose.errors.host import xid
from preflight.diagnose.gather import Gathered
from preflight.diagnose.judge import diagnosis
from preflight.diagnose.line import parse_line, time_of
from preflight.diagnose.paths import about
from preflight.diagnose.reading import read, sources
from preflight.diagnose.types import Diagnosis, Role, Sign, Spot, Who

CASES = Path(__file__).parents[2] / "cases" / "diagnose"
BUSY = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # the machine of the tests may be
LINES = tomllib.loads((CASES / "lines.toml").read_text(encoding="utf-8"))


def looked_at(folder: Path, files: dict[str, str], encoding: str = "utf-8") -> Diagnosis:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding=encoding, newline="")
    gathered = Gathered()
    for source in sources([folder]):
        assert read(source, gathered) is None
    return diagnosis(gathered)


@pytest.mark.parametrize(("id_", "line"), [(id_, line) for id_, lines in LINES.items() for line in lines])
def test_a_line_is_named_rightly(id_: str, line: str) -> None:
    sign = recognise(line)
    assert (sign.id if sign else "") == id_
    if sign and sign.role is not Role.NOISE:
        encoded = line.encode()
        assert CODE_TRIGGER.search(encoded) or any(word in encoded for word in TRIGGERS), (
            "this line would be passed over"
        )


def test_every_sign_and_every_code_of_hccl_has_a_line() -> None:
    noise = {sign.id for sign in SIGNS if sign.role is Role.NOISE}
    wanted = {sign.id for sign in SIGNS if sign.role is not Role.HINT} - noise
    codes = {f"EI{number:04}" for number in range(1, 21)} | {f"EJ{number:04}" for number in range(1, 5)}
    assert (wanted | codes) - set(LINES) == set()


def test_what_a_sign_advises_names_checks_that_exist() -> None:
    known = set(all_checks())
    for sign in (*SIGNS, LATE, *(xid(number) for number in range(1, 180))):
        assert set(sign.checks) <= known, sign.id
        if sign.role is not Role.NOISE:
            assert sign.cause, sign.id
            assert sign.step, sign.id


def ids(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", sorted((CASES / "jobs").glob("*.toml")), ids=ids)
def test_a_job_that_failed(path: Path, tmp_path: Path) -> None:
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    expect = case["expect"]
    found = looked_at(tmp_path, case["files"])
    assert found.is_error
    assert (found.cause.sign.id if found.cause else "") == expect["cause"]
    writers = [told.writer_name(error.who) for error in found.cause.seen] if found.cause else None
    assert writers == expect.get("who")
    assert [group.sign.id for group in found.echoes] == expect.get("echoes", [])
    assert [group.sign.id for group in found.others] == expect.get("others", [])
    counts = [seen.count for group in found.hints for seen in group.seen]
    assert counts == expect.get("hints", counts)
    assert {name for name, _ in found.named} >= set(expect.get("named", []))
    assert list(found.silent) == expect.get("silent", [])
    assert expect.get("note", "") in " ".join(found.notes)
    assert "None" not in str(told.lines(found))


def test_of_those_that_others_name_ranks_that_logged_no_error_come_first(tmp_path: Path) -> None:
    began = "[INFO] HCCL(1{0},python3):2026-03-04-09:57:00.000.000 [a.cc:1] [1{0}]SetupAgent rankNum[4], rank[{0}], "
    waits = "[ERROR] HCCL(1{0},python3):2026-03-04-09:59:00.000.000 [a.cc:1] [2]   |  10.2.0.{1}({1})   |  16666  |"
    ended = (
        "[ERROR] HCCL(1{0},python3):2026-03-04-09:59:00.000.001 [b.cc:1] [2]wait socket establish timeout, rank[{0}]"
    )
    named = {0: 2, 1: 2, 2: 3}  # rank 2 is named by two, and waits for rank 3
    files = {f"r{rank}.log": began.format(rank) + "\n" for rank in range(4)}
    for rank, peer in named.items():
        files[f"r{rank}.log"] += waits.format(rank, peer) + "\n" + ended.format(rank) + "\n"
    found = looked_at(tmp_path, files)
    assert found.named == (("rank 3", 1), ("rank 2", 2))
    assert (found.silent, found.unlogged) == ((3,), ())
    assert "The logs of rank 3 have no error. Check this rank first." in [line for _, _, line in told.lines(found)]


def test_a_job_that_ended_early_for_no_known_reason_is_told_so_with_the_last_lines_of_the_rank_that_failed(
    tmp_path: Path,
) -> None:
    logs = {f"rank{rank}.log": "".join(f"rank {rank}, step {step}\n" for step in range(9)) for rank in range(3)}
    launcher = "srun: error: node02: task 1: Exited with exit code 1\n"
    found = looked_at(tmp_path, {**logs, "slurm-7.out": launcher})
    assert (found.cause, found.unexplained, found.is_error) == (None, True, True)
    assert [(last.who.rank, last.lines) for last in found.last] == [(1, tuple(f"rank 1, step {n}" for n in (6, 7, 8)))]
    lines = [line for _, _, line in told.lines(found)]
    assert "The job ended early, and these logs do not show why." in lines
    assert "rank 1, step 8" in lines


def of_all_ranks(text: str, ranks: int) -> str:
    """Eight of them a host; as it is without ranks."""
    told = (text.format(rank=rank, host=f"node{rank // 8 + 1:02}", device=rank % 8) for rank in range(ranks))
    return "".join(told) if ranks else text


@pytest.mark.parametrize("path", sorted((CASES / "healthy").glob("*.toml")), ids=ids)
def test_healthy_logs_accuse_nobody(path: Path, tmp_path: Path) -> None:
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    files = {name: of_all_ranks(text, case.get("ranks", 0)) for name, text in case["files"].items()}
    found = looked_at(tmp_path, files, case.get("encoding", "utf-8"))
    assert (found.cause, found.others, found.echoes, found.named, found.silent) == (None, (), (), (), ())


def test_an_exception_after_which_the_log_goes_on_is_only_mentioned(tmp_path: Path) -> None:
    text = "ValueError: a sample was left out\n" + "[rank0]: step 1 loss 2.31\n" * 4000
    found = looked_at(tmp_path, {"job.log": text})
    assert not found.is_error
    assert [group.sign.id for group in found.hints] == ["ValueError"]


def test_an_exception_that_others_felt_is_the_cause_however_much_is_logged_after_it(tmp_path: Path) -> None:
    lost = "[rank1]: 2026-03-04 {} RuntimeError: [/x/pair.cc:553] Connection closed by peer [10.1.0.2]:6.\n"
    before = "[rank0]: 2026-03-04 10:00:00 ValueError: x\n" + "[rank2]: a stack\n" * 8000
    found = looked_at(tmp_path / "soon", {"job.log": before + lost.format("10:20:00")})
    assert found.cause
    assert found.cause.sign.id == "ValueError"
    found = looked_at(tmp_path / "hours", {"job.log": before + lost.format("12:20:00")})
    assert found.cause is None
    assert [group.sign.id for group in (*found.echoes, *found.hints)] == ["peer-gone", "ValueError"]


def test_an_exception_of_no_known_rank_is_not_hidden_by_the_wait_of_the_only_rank_that_cann_names(
    tmp_path: Path,
) -> None:
    wait = "[ERROR] HCCL(7,py):2026-03-04-10:05:00.000.000 [a.cc:1] [7]userRank[0] EI0006: Getting socket times out"
    raised = 'Traceback (most recent call last):\n  File "train.py", line 8\n{}: batch 12 is empty\n'
    found = looked_at(tmp_path / "value", {"job.log": raised.format("ValueError") + wait})
    assert found.cause
    assert found.cause.sign.id == "ValueError"
    assert (found.cause.first.who.rank, found.cause.first.who.pid) == (None, None)
    assert [group.sign.id for group in found.echoes] == ["EI0006"]
    assert looked_at(tmp_path / "wrapper", {"job.log": raised.format("RuntimeError") + wait}).cause is None


def test_a_log_of_several_hosts_tells_them_apart(tmp_path: Path) -> None:
    line = "2026-03-04T10:00:0{0}+00:00 node{0} kernel: NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.\n"
    found = looked_at(tmp_path, {"messages": line.format(2) + line.format(1)})
    assert found.cause
    assert [seen.who.host for seen in found.cause.seen] == ["node1", "node2"]


def test_the_same_on_many_ranks_is_told_as_one(tmp_path: Path) -> None:
    line = "[rank{}]: 2026-03-04 10:00:0{} OSError: [Errno 116] Stale file handle: '/data'\n"
    found = looked_at(tmp_path, {"job.log": "".join(line.format(rank, 9 - rank) for rank in range(8))})
    assert found.cause is not None
    assert [seen.who.rank for seen in found.cause.seen] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert "same error: ranks 0-6" in [text for _, _, text in told.lines(found)]


def test_hosts_of_ranks_are_told_where_memory_was_used_up(tmp_path: Path) -> None:
    line = "srun: error: node{0:02}: task {0}: Out Of Memory\n"
    step = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n"
    few = told.lines(looked_at(tmp_path / "few", {"slurm-7.out": step + "".join(map(line.format, range(1, 4)))}))
    assert few[0][2] == "FIRST   job-memory  rank 1 (node01)"  # not the daemon, which does not say where it is
    assert f"same error: rank 2 (node02), rank 3 (node03), {tmp_path}/few/slurm-7.out" in [text for _, _, text in few]
    many = told.lines(looked_at(tmp_path / "many", {"slurm-7.out": "".join(map(line.format, range(1, 10)))}))
    hosts = "node02, node03, node04, node05, node06, node07 and 2 more"
    assert f"same error: ranks 2-9 (ranks on {hosts})" in [text for _, _, text in many]


@pytest.mark.parametrize(
    ("named", "folder", "ours"),
    [
        ("node03", "node03", True),
        ("Node03.cluster", "node03", True),
        ("node03", "node03.cluster", True),
        ("node[03-04]", "node04", True),
        ("10.1.0.3", "node03", True),
        ("node03", "node04", False),
        ("node03", "node030", False),
        ("10.1.0.3", "10.1.0.4", False),
    ],
)
def test_a_kill_at_a_limit_is_the_jobs_on_the_host_that_slurm_names(
    named: str, folder: str, ours: bool, tmp_path: Path
) -> None:
    kernel = "[Wed Mar  4 10:00:00 2026] Memory cgroup out of memory: Killed process 990 (python3) total-vm:1kB\n"
    slurm = f"2026-03-04 10:00:02,000 srun: error: {named}: task 5: Out Of Memory\n"
    found = looked_at(tmp_path, {f"{folder}/dmesg.txt": kernel, "slurm-71.out": slurm})
    assert found.cause
    assert found.cause.sign.id == ("host-memory" if ours else "job-memory")


def test_who_is_named_as_often_as_others_stands_in_one_order(tmp_path: Path) -> None:
    numbers = ", ".join(map(str, range(40, 20, -1)))
    text = f"RuntimeError: [Rank 0]: Ranks {numbers} failed to pass monitoredBarrier in 9000 ms\n"
    found = looked_at(tmp_path, {"job.log": text})
    assert [name for name, _ in found.named] == [f"rank {number}" for number in range(21, 26)]


def test_unknown_errors_are_the_same_by_their_words_alone(tmp_path: Path) -> None:
    text = (
        "[rank0]: 2026-03-04 10:00:01 RuntimeError: row 7 is torn\n"
        "[rank1]: 2026-03-04 10:00:02 RuntimeError: row 9 is torn\n"
        "[rank2]: 2026-03-04 10:00:03 RuntimeError: no such column\n"
    )
    found = looked_at(tmp_path, {"job.log": text})
    assert found.cause
    assert [[seen.who.rank for seen in group.seen] for group in (found.cause, *found.others)] == [[0, 1], [2]]


def test_two_different_errors_stand_in_the_order_of_their_times(tmp_path: Path) -> None:
    text = (
        "[rank4]: 2026-03-04 10:00:07 OSError: [Errno 28] No space left on device\n"
        "[rank2]: 2026-03-04 10:00:05 OSError: [Errno 24] Too many open files\n"
    )
    found = looked_at(tmp_path, {"job.log": text})
    assert found.cause is not None
    assert [found.cause.sign.id, *(group.sign.id for group in found.others)] == ["open-files", "no-space"]


def utc(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float:
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("[ERROR] HCCL(1,t):2026-03-04-05:06:07.250.000 [a.cc:1]", utc(2026, 3, 4, 5, 6, 7) + 0.25),
        ("[ERROR] HCCL(1,):2026-03-04 05:06:07.250.000 [a.cc:1]", utc(2026, 3, 4, 5, 6, 7) + 0.25),
        ("EI0005: 2026-03-04-05:06:07.000.000 The", utc(2026, 3, 4, 5, 6, 7)),
        ("2026-03-04 05:06:07,500 INFO x", utc(2026, 3, 4, 5, 6, 7) + 0.5),
        ("kern  :warn  : 2026-03-04T05:06:07,500000+02:00 x", utc(2026, 3, 4, 3, 6, 7) + 0.5),
        ("2026-03-04T05:06:07Z x", utc(2026, 3, 4, 5, 6, 7)),
        ("[rank0]:[E0304 05:06:07.5 ProcessGroupNCCL.cpp:1]", utc(2025, 3, 4, 5, 6, 7) + 0.5),
        ("[rank0]:[E304 05:06:07.5 ProcessGroupNCCL.cpp:1]", utc(2025, 3, 4, 5, 6, 7) + 0.5),
        ("E1204 05:06:07.5 139 torch/distributed/elastic/x.py:1] y", utc(2025, 12, 4, 5, 6, 7) + 0.5),
        ("[Wed Mar  4 05:06:07 2026] x", utc(2026, 3, 4, 5, 6, 7)),
        ("[Mar 04 2026 05:06:07] [INFO] x", utc(2026, 3, 4, 5, 6, 7)),
        ("Mar  4 05:06:07 node1 kernel: x", utc(2025, 3, 4, 5, 6, 7)),
        ("[470907.282230] x", None),
        ("2026-13-04 05:06:07 x", None),
        ("0000-01-04 05:06:07 x", None),
        ("9999-01-04 05:06:07 x", None),
        ("step 5 loss 2", None),
    ],
)
def test_times(text: str, time: float | None) -> None:
    assert time_of(text, 2025) == time


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("[rank3]: x", Who(rank=3)),
        ("[default3]: x", Who(device="3")),
        ("[1,7]<stderr>:x", Who(rank=7)),
        (" 12: x", Who(rank=12)),
        ("\x1b[31m[rank3]:\x1b[0m x", Who(rank=3)),
        ("[rank3]: node-1.x:41:42 [5] NCCL WARN x", Who(rank=3, host="node-1.x", pid=41, device="5")),
        ("(Worker pid=41, ip=10.0.0.1) x", Who(host="10.0.0.1", pid=41)),
        ("logs/plog-7_1.log:14:[ERROR] HCCL(41,t):2026-03-04-05:06:07.000.000 [a.cc:1] rankSize[8], rankId[2].",
         Who(rank=2, pid=41)),
        ("Mar  4 05:06:07 node1 kernel: NVRM: Xid (PCI:0000:4f:00): 79, x", Who(host="node1", device="0000:4f:00")),
        ("srun: error: node7: task 3: Out Of Memory", Who(rank=3, host="node7")),
        ("srun: error: node[07-08]: tasks 0-15: Killed", Who(host="node[07-08]")),
        ("slurmstepd-node7: error: Detected 1 oom_kill event in StepId=7.0. Some", Who(host="node7")),
        ("mpirun noticed that process rank 3 with PID 41 on node node7 exited on signal 9.", Who(rank=3, host="node7")),
        ("[E0304 05:06:07.5 a.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 6] x", Who(rank=6)),
        ("x", Who()),
    ],
)  # fmt: skip
def test_who_writes(text: str, who: Who) -> None:
    assert parse_line(text, 2025).who == who


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("rank3.log", Who(rank=3)),
        ("node01/rank_12.out", Who(rank=12, host="node01")),
        ("node01/ascend/log/debug/plog/plog-1_2.log", Who(host="node01")),
        ("debug/device-5/device-1_2.log", Who(device="5")),
        ("x/attempt_0/4/stderr.log", Who(host="x", device="4")),
        ("logs/job7_ab12cd_x/attempt_0/3/stderr.log", Who(device="3")),
        ("job7_ab12cd_x/attempt_0/3/stderr.log", Who(device="3")),
        ("nccl.node7.4711.log", Who(host="node7")),
        ("job.log", Who()),
    ],
)
def test_what_a_path_tells(path: str, who: Who) -> None:
    assert about(path) == who


@BUSY
@given(st.one_of(st.text(max_size=300), st.from_regex(r"\[?\d{4}-\d\d-\d\d[-T ]\d\d:\d\d:\d\d[.,]\d+[Z+]?\d*.{0,20}")))
def test_any_text_is_a_line(text: str) -> None:
    line = parse_line(text, 2026)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", line.text)
    sign = recognise(text)
    assert sign is None or isinstance(sign, Sign)


@BUSY
@given(st.lists(st.sampled_from([line for lines in LINES.values() for line in lines]), max_size=30))
def test_who_only_waited_is_never_convicted(lines: list[str]) -> None:
    """Whatever else is logged: a cause has said itself what is wrong there, or between it and another."""
    gathered = Gathered()
    for number, line in enumerate(lines, 1):
        gathered.add(line, spot(number))
    found = diagnosis(gathered)
    for group in (found.cause, *found.others):
        assert group is None or group.sign.role in (Role.OWN, Role.LINK, Role.UNKNOWN)
    assert bool(found.cause) or not found.others


def spot(number: int) -> Spot:
    return Spot("job.log", number, 0, Who(), 2026, lambda: None)


@pytest.mark.parametrize(("waits", "late"), [(60, True), (120, False), (600, False), (None, False)])
def test_who_is_late_is_a_matter_of_how_long_hccl_waits(waits: int | None, late: bool, tmp_path: Path) -> None:
    info = "[INFO] HCCL(6{0},t):2026-03-04-10:0{1}.000.000 [a.cc:1] [6{0}]"
    entry = info + "Entry-HcclCommInitRootInfoInner:ranks[2], rank[{0}], rootinfo: identifier[10.1.0.1%x_60000_0_17]\n"
    told_of = info.format(0, "0:00") + f"[HCCL_ENV] HCCL_CONNECT_TIMEOUT set by environment to [{waits}]s\n"
    text = entry.format(0, "0:00") + entry.format(1, "1:40") + (told_of if waits else "")
    found = looked_at(tmp_path, {"plog-1_1.log": text})
    assert (found.cause.sign.id if found.cause else "") == ("late-rank" if late else "")
