"""One run at a time a host, and what it came to is read from its journal, whatever happened to that."""

import json
import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lab.local_host import (
    CHAIN,
    RESERVED,
    RULE,
    RULESET,
    LocalHost,
    answer_of,
    change,
    inside,
    reserved,
    script,
    states,
)

pytestmark = pytest.mark.lab
NFT = shutil.which("nft") or "/usr/sbin/nft"


def test_every_step_is_in_the_journal_before_and_after(host: LocalHost, tmp_path: Path) -> None:
    host.apply(change("file", tmp_path / "a", None, "1"), change("file", tmp_path / "b", "x", "2"))
    start, begin, done, moved, _finish = host.events()
    assert (start["event"], start["owner"], start["changes"]) == ("start", "a test", 2)
    assert (begin["event"], begin["step"], begin["before"], begin["after"]) == ("begin", 0, None, "1")
    assert (done["event"], done["step"], done["state"]) == ("end", 0, "done")
    assert (moved["event"], moved["step"], moved["state"]) == ("end", 1, "moved")
    assert stat.S_IMODE(host.journal.stat().st_mode) == 0o700


DAMAGED = (b"\xff\n", b"\x00\x80", b"[]\n", b"1\n", b'{"event": []}\n', b'{"event": "begin"}\n', b"[" * 100_000)


@pytest.mark.parametrize("line", DAMAGED, ids=range(len(DAMAGED)))
def test_a_line_that_cannot_be_read_stops_no_rollback(host: LocalHost, tmp_path: Path, line: bytes) -> None:
    host.apply(change("file", tmp_path / "a", None, "1"))
    (host.journal / "r0.jsonl").write_bytes(line)
    own = host.journal / "r1.jsonl"
    own.write_bytes(line + (b"" if line.endswith(b"\n") else b"\n") + own.read_bytes())
    answer = host.ask(action="undo-of", run="r1")
    assert [back["target"] for back in answer["changes"]] == [str(tmp_path / "a")]
    assert answer["damaged"] == (0 if line in (b"[]\n", b"1\n", b"[" * 100_000) else 1)
    assert states(host.apply(*answer["changes"], run="r2")) == ["done"]
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("whole", "spoilt"),
    [
        (b'"state": "done"', b'"state": "donf"'),
        (b'"others": []', b'"others": [["fime", "x", null]]'),
        (b'"others": []', b'"others": [["file"]]'),
        (b'"others": []', b'"others": 7'),
        (b'"before": null', b'"before": 7'),
        (b'"found": null', b'"found": 7'),
        (b'"step": 0', b'"step": [0]'),
        (b'"area": "ports"', b'"area": "portz"'),
    ],
)
def test_a_line_that_is_json_and_damaged_stops_no_rollback(
    host: LocalHost, tmp_path: Path, whole: bytes, spoilt: bytes
) -> None:
    host.apply(change("file", tmp_path / "a", None, "1"), change("file", tmp_path / "b", None, "2"))
    own = host.journal / "r1.jsonl"
    assert whole in own.read_bytes()
    own.write_bytes(own.read_bytes().replace(whole, spoilt, 1))
    answer = host.ask(action="undo-of", run="r1")
    assert answer["damaged"] == 1
    assert str(tmp_path / "b") in [back["target"] for back in answer["changes"]]
    (host.journal / "open").symlink_to("r1")
    assert "recovered" in host.ask(action="recover", run="r2", patience=0)
    assert not (host.journal / "open").is_symlink()


def test_a_damaged_line_of_a_step_is_counted_and_a_cut_one_is_not(host: LocalHost, tmp_path: Path) -> None:
    host.apply(change("file", tmp_path / "a", None, "1"), change("file", tmp_path / "b", None, "2"))
    own = host.journal / "r1.jsonl"
    whole = own.read_bytes()
    own.write_bytes(whole.replace(b"begin", b"beg\xffn", 1))
    answer = host.ask(action="undo-of", run="r1")
    assert ([back["target"] for back in answer["changes"]], answer["damaged"]) == ([str(tmp_path / "b")], 1)
    own.write_bytes(whole + whole[:50])
    assert host.ask(action="undo-of", run="r1")["damaged"] == 0


def test_a_second_run_at_the_same_time_is_told_who_is_first(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    netns.apply(
        change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=20
    )  # its guardian waits, and holds the lock
    assert netns.apply(change("sysctl", RESERVED, "", "60000"), run="r2") == {
        "error": "another run is active on this host (a test). Wait until it ends",
        "at_work": "a test",
    }
    assert reserved(netns) == ""
    assert netns.confirm()["verdict"] == "confirmed"


def test_a_tool_that_a_killed_program_leaves_behind_holds_the_lock(netns: LocalHost, tmp_path: Path) -> None:
    """It still writes: who went on before its end would take its step for one that was not made."""
    fifo, hanging, tools, state = (tmp_path / name for name in ("hangs", "hanging", "bin", "state"))
    os.mkfifo(fifo)
    tools.mkdir()
    state.write_text("enabled\n")
    waits = f"touch {hanging}; cat {fifo}; echo disabled >{state}"
    script(tools / "systemctl", f'case "$1" in disable) {waits};; *) exec cat {state};; esac')
    netns.path = f"{tools}:{netns.path}"
    service = change("service-at-boot", "firewalld", "enabled", "disabled")
    process = netns.start({"action": "apply", "run": "r1", "seconds": 1, "kept": [service]})
    while not hanging.exists():
        time.sleep(0.01)
    process.kill()
    process.communicate()
    answer = netns.apply(change("sysctl", RESERVED, "", "60000"), run="r2")
    assert answer.get("at_work") == "a test", answer
    assert reserved(netns) == ""
    next_run = netns.start({"action": "recover", "run": "r3", "patience": 20})
    fifo.write_text("")
    assert "has been cleaned up" in answer_of(next_run)["recovered"]
    assert state.read_text() == "disabled\n"
    assert [back["before"] for back in netns.undo_of()] == ["disabled"]


def test_a_run_that_comes_twice_is_refused(host: LocalHost, tmp_path: Path) -> None:
    host.apply(change("file", tmp_path / "a", None, "1"))
    assert "under two names" in host.apply(change("file", tmp_path / "a", "1", "2"))["error"]
    assert (tmp_path / "a").read_text() == "1"


def test_a_journal_that_cannot_be_written_stops_everything(host: LocalHost, tmp_path: Path) -> None:
    host.journal.write_text("a file where the directory should be")
    assert "error" in host.apply(change("file", tmp_path / "a", None, "1"))
    assert not (tmp_path / "a").exists()


def test_a_journal_that_fills_the_disk_stops_there_and_what_was_done_is_told(host: LocalHost, tmp_path: Path) -> None:
    host.inside = ("prlimit", "--fsize=900")
    files = [tmp_path / name for name in "abcdef"]
    answer = host.apply(*(change("file", file, None, file.name) for file in files))
    done = states(answer).index("failed")
    assert states(answer) == ["done"] * done + ["failed"] + ["not-run"] * (len(files) - done - 1)
    assert done > 0
    assert "r1.jsonl cannot be written" in answer["results"][done]["message"]
    assert [file.name for file in files if file.exists()] in (list("abcdef"[:done]), list("abcdef"[: done + 1]))


def test_a_change_that_does_not_fit_into_the_journal_is_not_made(host: LocalHost, tmp_path: Path) -> None:
    """The disk takes the first half of the line and says so only by the number of bytes."""
    host.inside = ("prlimit", "--fsize=3000")
    answer = host.apply(change("file", tmp_path / "a", None, "x" * 2900))
    assert states(answer) == ["failed"]
    assert "r1.jsonl cannot be written" in answer["results"][0]["message"]
    assert not (tmp_path / "a").exists()


def test_a_step_whose_end_does_not_fit_into_the_journal_is_taken_back_all_the_same(
    host: LocalHost, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    host.inside = ("prlimit", "--fsize=700")
    assert states(host.apply(change("file", path, "old", "new" * 80))) == ["failed"]
    host.inside = ()
    assert path.read_text() == "new" * 80, "it was written, and the disk was full then"
    assert "has been cleaned up" in host.ask(action="recover", run="r2", patience=0)["recovered"]
    (back,) = host.undo_of()
    assert (back["target"], back["after"]) == (str(path), "old")
    assert states(host.apply(back, run="r2")) == ["done"]
    assert path.read_text() == "old"


def test_a_journal_whose_last_line_was_cut_can_be_gone_on_with(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    host.apply(change("file", path, "old", "new"))
    lines = (host.journal / "r1.jsonl").read_bytes().splitlines(keepends=True)
    (host.journal / "r1.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:20])  # the host went down
    (host.journal / "open").symlink_to("r1")
    assert "has been cleaned up" in host.ask(action="recover", run="r2", patience=0)["recovered"]
    assert [event["event"] for event in journal_of(host)] == ["start", "begin", "end", "finish"]
    assert [back["after"] for back in host.undo_of()] == ["old"]


def journal_of(host: LocalHost) -> list[dict[str, Any]]:
    """The lines that can be read."""
    found = []
    for line in (host.journal / "r1.jsonl").read_text().splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def test_a_plan_made_before_the_host_was_put_in_order_is_not_carried_out(host: LocalHost, tmp_path: Path) -> None:
    host.apply(change("file", tmp_path / "a", None, "1"))
    (host.journal / "open").symlink_to("r1")
    (host.journal / "r1.jsonl").write_text("".join((host.journal / "r1.jsonl").read_text().splitlines(True)[:2]))
    answer = host.apply(change("file", tmp_path / "b", None, "1"), run="r2")
    assert "has been cleaned up. The plan is older than that, so run the same command again" in answer["error"]
    assert not (tmp_path / "b").exists()
    assert states(host.apply(change("file", tmp_path / "b", None, "1"), run="r2")) == ["done"]


def test_a_link_to_a_journal_that_somebody_removed_stops_nobody(host: LocalHost, tmp_path: Path) -> None:
    host.journal.mkdir()
    (host.journal / "open").symlink_to("gone")
    assert states(host.apply(change("file", tmp_path / "a", None, "1"))) == ["done"]


def test_a_rollback_goes_past_what_somebody_else_changed_but_not_past_a_failure(
    host: LocalHost, tmp_path: Path
) -> None:
    names = ("a", "b", "c")
    host.apply(*(change("file", tmp_path / name, None, name) for name in names))
    (tmp_path / "b").write_text("somebody's")
    back = host.undo_of()
    answer = host.ask(action="apply", run="r2", seconds=1, plain=back, undoes="r1", go_on=True)
    assert states(answer) == ["done", "moved", "done"]
    assert [name for name in names if (tmp_path / name).exists()] == ["b"]
    assert host.undo_of() == [{**change("file", tmp_path / "b", "b", None)}], "the rest is taken back already"
    broken = [change("file", "/proc/none", None, "x"), change("file", tmp_path / "d", None, "d")]
    assert states(host.ask(action="apply", run="r3", seconds=1, plain=broken, go_on=True)) == ["failed", "not-run"]
