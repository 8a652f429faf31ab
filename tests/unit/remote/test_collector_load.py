"""The collector's section `load`: real processes that want processors, and what a limit leaves a host."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.collector import SOURCE, answer, section

# Everybody is shown, since whoever runs the tests may run more.
ALL = SOURCE.replace("SHOWN = 5 ", "SHOWN = 99999 ").replace("NOTABLE = 0.1 ", "NOTABLE = 0.0001 ")
LOOP = "while :; do :; done"
HIDDEN = "other users' processes are hidden (/proc has the hidepid option), and only root can see them"
BESIDE = "import threading, time; threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()"


@contextmanager
def running(*argv: str) -> Iterator[int]:
    """A process, for a minute at most."""
    with subprocess.Popen(["timeout", "60", *argv], stdout=subprocess.DEVNULL) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (pids := children.read_text(encoding="ascii").split()):
            time.sleep(0.01)
        time.sleep(0.3)
        try:
            yield int(pids[0])
        finally:
            process.terminate()


def others(source: str = ALL) -> dict[int, dict[str, Any]]:
    found = answer("load", source=source)["load"]["value"]
    assert found["others"] >= len(found["busiest"])
    assert found["wanted"] >= sum(one["wanted"] for one in found["busiest"]) - 0.001
    return {one["pid"]: one for one in found["busiest"]}


def test_the_texts_that_these_tests_edit_are_there() -> None:
    assert len(ALL) == len(SOURCE) + 4 + 3


def test_busy_processes_are_counted_also_where_each_gets_little() -> None:
    with running("sh", "-c", LOOP) as one, running("sh", "-c", LOOP) as two, running("sleep", "60") as idle:
        found = others()
    for pid in (one, two):
        assert found[pid]["wanted"] > 0.9, "whatever else runs on this machine"
        assert found[pid]["name"] == "sh"
        assert found[pid]["user"]
    assert idle not in found


def test_threads_count_by_what_they_use_where_the_first_one_sleeps() -> None:
    with running("python3", "-c", f"{BESIDE}; time.sleep(60)") as pid:
        found = others()[pid]
    assert found["wanted"] == found["used"] > 0


def test_a_name_is_no_more_than_a_name() -> None:
    with running("sh", "-c", f"printf 'x) S 1 (\\377' >/proc/$$/comm; {LOOP}") as pid:
        found = others()[pid]
    assert found["name"] == "x) S 1 (\ufffd"
    assert found["wanted"] > 0.9


def test_neither_the_collector_nor_who_started_it_nor_its_tools_are_among_them() -> None:
    busy = ALL.replace("time.sleep(APART)", "sum(range(2 * 10 ** 6))").replace('"limit"', '"me": os.getpid(), "limit"')
    found = answer("load", source=busy)["load"]["value"]
    assert not {found["me"], os.getpid()} & {one["pid"] for one in found["busiest"]}
    mine = section("load", "load", str).__globals__["own"]
    me = os.getpid()
    parents = {1: 0, 7: 1, 50: 7, me: 50, me + 1: me, me + 2: me + 1, 8: 1, 51: 8}
    assert mine(parents) == {7, 50, me, me + 1, me + 2}
    assert mine({me: 50, 50: me}) == {me, 50}, "a circle, as parents that are read one after the other may show"


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (("/proc/1/stat", "/proc/none/stat"), HIDDEN),
        (("APART = 0.1 ", "APART = 9.0 "), "the number of process samples is 1, but 4 are needed"),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_no_small_number(edit: tuple[str, str], error: str) -> None:
    assert answer("load", source=SOURCE.replace(*edit), deadline=2.0)["load"] == {"error": error}


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/\n", {}, None),
        ("0::/init.scope\n", {"init.scope/cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "50000 20000\n"}, 2.5),
        ("0::/\n", {"cpu.max": "1600000 100000\n"}, 16.0),
        ("0::/../../elsewhere\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("3:cpu,cpuacct:/x\n1:cpuset:/y\n0::/\n",
         {"cpu/x/cpu.cfs_quota_us": "10000\n", "cpu/x/cpu.cfs_period_us": "20000\n"}, 0.5),
        ("3:cpu:/docker/1234\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("3:cpu:/docker/1234\n", {"cpu/cpu.cfs_quota_us": "800000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8.0),
        ("0::/a\n", {"a/cpu.max": "0 0 lots\n"}, None),
        (None, {}, None),
    ],
)  # fmt: skip
def test_the_least_that_a_group_leaves_the_first_process_is_the_limit(
    tmp_path: Path, groups: str | None, files: dict[str, str], limit: float | None
) -> None:
    if groups is not None:
        (tmp_path / "groups").write_text(groups)
    for path, text in files.items():
        (tmp_path / "cgroup" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / path).write_text(text)
    places = {'"/proc/1/cgroup"': f'"{tmp_path}/groups"', '"/sys/fs/cgroup"': f'"{tmp_path}/cgroup"'}

    def edit(text: str) -> str:
        for old, new in places.items():
            text = text.replace(old, new)
        return text

    assert section("load", "load", edit).__globals__["limited"]() == limit
