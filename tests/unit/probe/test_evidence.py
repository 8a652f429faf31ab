"""What agents bring home of a rank that did not end well: its backend's own log, and who did not answer it."""

import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from agent.logs import FIRST, LAST, WIDTH, Logs
from agent.sockets import connecting
from worker.roll_call import NAMED, roll_call

PID = 4242


def plog(root: Path, pid: int, *lines: str, kind: str = "debug") -> Path:
    path = root / kind / "plog" / f"plog-{pid}_20260101000000000.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def error(number: int) -> str:
    return (
        f"[ERROR] HCCL({PID},python3):2026-01-01-00:00:00.000.{number:03} [a.cc:{number}] [{PID}][Stage]thing {number}"
    )


@pytest.mark.parametrize("variable", ["ASCEND_PROCESS_LOG_PATH", "HOME"])
def test_of_plog_come_the_errors_of_that_process_and_no_call_traces(tmp_path: Path, variable: str) -> None:
    logs = Logs("hccl", {variable: str(tmp_path)})
    root = tmp_path if variable != "HOME" else tmp_path / "ascend" / "log"
    plog(root, PID, "[INFO] HCCL nothing", error(1), error(1) + "call trace: hcclRet -> 1", error(2))
    plog(root, PID, "[EVENT] HCCL: Some_Title(EI0006): no socket", "[INFO] TLS SWITCH (1)", kind="run")
    plog(root, PID + 1, error(3))
    assert logs.of(PID) == ["[EVENT] HCCL: Some_Title(EI0006): no socket", error(1), error(2)]


def test_a_long_log_gives_its_first_and_its_last_lines_cut_to_a_width(tmp_path: Path) -> None:
    logs = Logs("hccl", {"ASCEND_PROCESS_LOG_PATH": str(tmp_path)})
    plog(tmp_path, PID, *(error(number) + "x" * 5000 for number in range(40)))
    found = logs.of(PID)
    assert [line.partition("a.cc:")[2].partition("]")[0] for line in found] == [
        "0",
        "1",
        "2",
        "35",
        "36",
        "37",
        "38",
        "39",
    ]
    assert (len(found), {len(line) for line in found}) == (FIRST + LAST, {WIDTH})


def test_a_log_of_an_earlier_process_with_that_number_and_what_is_no_file_are_left_out(tmp_path: Path) -> None:
    old = plog(tmp_path, PID, error(1))
    os.utime(old, (time.time() - 3600,) * 2)
    os.mkfifo(tmp_path / "debug" / "plog" / f"plog-{PID}_2.log")
    assert Logs("hccl", {"ASCEND_PROCESS_LOG_PATH": str(tmp_path)}).of(PID) == []


def test_nccl_writes_into_a_folder_of_the_probe_s_own_that_is_removed() -> None:
    logs = Logs("nccl", {})
    variables = logs.environment()
    file = Path(variables["NCCL_DEBUG_FILE"].replace("%p", str(PID)))
    assert file.parent.stat().st_mode & 0o077 == 0
    warning = f"node01:{PID}:{PID} [0] NCCL WARN socketStartConnect: Connect to 10.0.0.2<41231> failed : timed out"
    chosen = f"node01:{PID}:{PID} [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>"
    file.write_text("\n".join([chosen, f"node01:{PID}:{PID} [0] NCCL INFO Channel 00/02 : 0 1", warning]))
    assert logs.of(PID) == [chosen, warning]
    logs.remove()
    assert not file.parent.exists()


def test_by_what_nccl_sends_is_told_in_its_own_words_whatever_stands_between_them() -> None:
    logs = Logs("nccl", {})
    file = Path(logs.environment()["NCCL_DEBUG_FILE"].replace("%p", str(PID)))
    begin = f"node01:{PID}:{PID} [0] NCCL INFO"
    first = [f"{begin} NET/OFI Using aws-ofi-nccl 1.9.1", f"{begin} Using network AWS Libfabric",
             f"{begin} Channel 00/1 : 0[0] -> 1[0] [send] via NET/AWS Libfabric/0/GDRDMA"]  # fmt: skip
    ways = ("1[1] -> 2[2] via P2P/IPC", "3[3] -> 2[2] via SHM/direct/direct")
    last = [*(f"{begin} Channel 01 : {way}" for way in ways), f"{begin} Using network {'x' * 999}"]
    file.write_text("\n".join([*first, "noise " * (1 << 17), *last]))
    way = logs.way(PID)
    assert way["ways"] == ["NET/AWS Libfabric", "P2P", "SHM"]
    assert way["network"] == "x" * 100
    assert [len(line) <= 240 for line in way["lines"]] == [True] * 3
    assert logs.way(1) == {"network": "", "ways": [], "lines": []}
    logs.remove()
    assert Logs("gloo", {}).way(PID) is Logs("hccl", {}).way(PID) is None


def test_what_jobs_say_of_nccl_s_log_is_left_as_it_is(tmp_path: Path) -> None:
    logs = Logs("nccl", {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": f"{tmp_path}/nccl.%h.%p"})
    assert logs.environment() == {}
    host = os.uname().nodename.partition(".")[0]
    (tmp_path / f"nccl.{host}.{PID}").write_text("a:1:1 [0] NCCL WARN Duplicate GPU detected\n")
    assert logs.of(PID) == ["a:1:1 [0] NCCL WARN Duplicate GPU detected"]


def test_gloo_has_no_log() -> None:
    assert (Logs("gloo", {}).environment(), Logs("gloo", {}).of(PID)) == ({}, [])


def test_a_connection_that_nobody_answers_is_named_and_one_that_stands_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        queue = [socket.socket() for _ in range(4)]  # more than its queue takes: the last ones get no answer
        for each in queue:
            each.setblocking(False)
            each.connect_ex(address)
        try:
            assert connecting(os.getpid()) == [f"127.0.0.1:{address[1]}"]
        finally:
            for each in queue:
                each.close()
    assert connecting(os.getpid()) == []


class Store(dict[str, int]):
    """A store's counters; of `comes`, which are ranks, 25 come a look."""

    def __init__(self, *comes: int) -> None:
        self.comes = list(comes)

    def add(self, key: str, number: int) -> int:
        for _ in range(min(25, len(self.comes)) if number == 0 else 0):
            rank = self.comes.pop(0)
            other = f"here/{rank // 60}"
            self[other] = self.get(other, 0) + (1 << rank % 60)
        self[key] = self.get(key, 0) + number
        return self[key]


@pytest.mark.parametrize("size", [1, 2, 60, 61, 200])
def test_the_roll_call_ends_when_all_have_come(size: int) -> None:
    said: list[dict[str, Any]] = []
    roll_call(Store(*range(1, size)), 0, size, 20.0, said.append)
    assert said == []


def test_the_roll_call_says_who_is_missing_and_gives_up_in_time() -> None:
    said: list[dict[str, Any]] = []
    with pytest.raises(TimeoutError, match=r"62 of 64 ranks connected within 0 s. Missing ranks: 2, 63"):
        roll_call(Store(*(rank for rank in range(1, 64) if rank not in (2, 63))), 0, 64, 0.4, said.append)
    assert said[-1] == {"at": "waits", "present": 62, "missing": [2, 63]}


def test_many_that_are_missing_are_not_all_named() -> None:
    said: list[dict[str, Any]] = []
    with pytest.raises(TimeoutError, match=r"1 of 1000 ranks connected within 0 s. Missing ranks: 1, 2, .*, 32 \.\.\."):
        roll_call(Store(), 0, 1000, 0.0, said.append)
    assert (said[0]["present"], len(said[0]["missing"])) == (1, NAMED)
