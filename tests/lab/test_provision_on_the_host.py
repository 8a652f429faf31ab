"""`preflight/remote/apply` as the host runs it: a process of its own, its request on stdin, its answer framed."""

import errno
import fcntl
import importlib
import json
import os
import shutil
import signal
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lab.local_host import CHAIN, RESERVED, RULE, RULESET, LocalHost, answer_of, by_phase, change, inside, states

PROGRAM = Path(__file__).parents[2] / "preflight/remote/apply"
NFT = shutil.which("nft") or "/usr/sbin/nft"
pytestmark = pytest.mark.lab


# Files.


def test_a_new_file_is_written_with_its_directory(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "etc/preflight/new.conf"
    assert states(host.apply(change("file", path, None, "a\n"))) == ["done"]
    assert path.read_text() == "a\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(path.parent.iterdir()) == [path]


def test_a_file_keeps_owner_mode_and_every_byte_it_was_told_to_keep(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "sysctl.conf"
    path.write_bytes(b"kept \xff\r\nno newline at the end")
    path.chmod(0o640)
    os.chown(path, 12345, 54321)
    label = b"system_u:object_r:system_conf_t:s0\0"
    os.setxattr(path, "security.selinux", label)
    before = "kept \U0010ffff\r\nno newline at the end"  # as the collector sends it
    assert states(host.apply(change("file", path, before, "new\n" + before))) == ["done"]
    assert path.read_bytes() == b"new\nkept \xff\r\nno newline at the end"
    found = path.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o640, 12345, 54321)
    assert os.getxattr(path, "security.selinux") == label


def test_a_file_that_is_already_right_is_not_written(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("after")
    inode = path.stat().st_ino
    assert states(host.apply(change("file", path, "before", "after"))) == ["already"]
    assert path.stat().st_ino == inode
    assert [event["event"] for event in host.events()] == ["start", "end", "finish"]


def test_a_file_that_somebody_else_changed_is_left_alone_and_stops_the_host(host: LocalHost, tmp_path: Path) -> None:
    path, later = tmp_path / "a.conf", tmp_path / "b.conf"
    path.write_text("somebody's")
    answer = host.apply(change("file", path, "before", "after"), change("file", later, None, "b"))
    assert states(answer) == ["moved", "not-run"]
    assert answer["results"][0]["found"] == "somebody's"
    assert path.read_text() == "somebody's"
    assert not later.exists()


def test_a_link_is_kept_and_what_it_points_to_is_changed(host: LocalHost, tmp_path: Path) -> None:
    target, link = tmp_path / "sysctl.conf", tmp_path / "99-sysctl.conf"
    target.write_text("old")
    link.symlink_to("sysctl.conf")
    assert states(host.apply(change("file", link, "old", "new"))) == ["done"]
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_link_that_leads_elsewhere_is_refused(host: LocalHost, tmp_path: Path) -> None:
    link = tmp_path / "masked.conf"
    link.symlink_to("/dev/null")
    answer = host.apply(change("file", link, "", "new"))
    assert states(answer) == ["failed"]
    assert "is a link to /dev/null; change that by hand" in answer["results"][0]["message"]


def test_a_directory_in_a_files_place_is_refused(host: LocalHost, tmp_path: Path) -> None:
    answer = host.apply(change("file", tmp_path, None, "new"))
    assert states(answer) == ["failed"]
    assert "is not a regular file" in answer["results"][0]["message"]


def test_a_file_that_cannot_be_written_fails_with_the_systems_word(host: LocalHost) -> None:
    answer = host.apply(change("file", "/proc/preflight.conf", None, "new"))
    assert states(answer) == ["failed"]
    assert answer["results"][0]["message"].startswith("/proc/preflight.conf cannot be written: ")


def test_a_removed_file_is_gone(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("old")
    assert states(host.apply(change("file", path, "old", None))) == ["done"]
    assert not path.exists()


def test_every_step_is_in_the_journal_before_and_after(host: LocalHost, tmp_path: Path) -> None:
    host.apply(change("file", tmp_path / "a", None, "1"), change("file", tmp_path / "b", "x", "2"))
    start, begin, done, moved, _finish = host.events()
    assert (start["event"], start["owner"], start["changes"]) == ("start", "a test", 2)
    assert (begin["event"], begin["step"], begin["before"], begin["after"]) == ("begin", 0, None, "1")
    assert (done["event"], done["step"], done["state"]) == ("end", 0, "done")
    assert (moved["event"], moved["step"], moved["state"]) == ("end", 1, "moved")
    assert stat.S_IMODE(host.journal.stat().st_mode) == 0o700


# Kernel settings and nftables, in a network namespace that goes with the test.


def reserved(host: LocalHost) -> str:
    return inside(host, "cat", "/proc/sys/" + RESERVED.replace(".", "/")).strip()


def test_reserved_ports_are_written_and_compared_as_sets(netns: LocalHost) -> None:
    assert states(netns.apply(change("sysctl", RESERVED, "", "30001,30000,60000-60031"))) == ["done"]
    assert reserved(netns) == "30000-30001,60000-60031"
    assert states(netns.apply(change("sysctl", RESERVED, "", "30000,30001,60000-60031"), run="r2")) == ["already"]
    assert states(netns.apply(change("sysctl", RESERVED, "30000-30001,60000-60031", ""), run="r3")) == ["done"]
    assert reserved(netns) == ""


def test_reserved_ports_that_changed_meanwhile_are_left_alone(netns: LocalHost) -> None:
    inside(netns, "sysctl", "-qw", f"{RESERVED}=40000")
    answer = netns.apply(change("sysctl", RESERVED, "", "60000"))
    assert states(answer) == ["moved"]
    assert answer["results"][0]["found"] == "40000"


def test_a_value_longer_than_one_write_takes_fails_and_says_so(netns: LocalHost) -> None:
    answer = netns.apply(change("sysctl", RESERVED, "", ",".join(str(port) for port in range(2, 6000, 2))))
    assert states(answer) == ["failed"]


def test_our_rules_go_in_at_the_top_and_replace_only_ours(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    assert states(netns.apply(change("nft-rules", CHAIN, None, RULE))) == ["done"]
    second = RULE.replace("/16", "/12") + "\n" + RULE.replace("{ 29500, 60000-60031 }", "{ 29501 }")
    assert states(netns.apply(change("nft-rules", CHAIN, RULE, second), run="r2")) == ["done"]
    rules = [line.strip() for line in inside(netns, "nft", "list", "chain", *CHAIN.split()).splitlines()[3:-2]]
    assert rules[0] == RULE.replace("/16", "/12")
    assert rules[1] == RULE.replace("{ 29500, 60000-60031 }", "29501")
    assert len(rules) == 4
    assert states(netns.apply(change("nft-rules", CHAIN, second, None), run="r3")) == ["done"]
    assert "60031" not in inside(netns, "nft", "list", "ruleset")


def test_a_chain_that_is_not_there_fails_in_words(netns: LocalHost) -> None:
    answer = netns.apply(change("nft-rules", CHAIN, None, RULE))
    assert states(answer) == ["failed"]
    assert "nft -a list chain" in answer["results"][0]["message"]


# The dead man's switch.


def test_a_firewall_change_that_nobody_confirms_is_taken_back(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = inside(netns, "nft", "list", "ruleset")
    boot_file = netns.journal.parent / "nftables.nft"
    answer = netns.apply(
        change("file", boot_file, None, RULE, "firewall"),
        change("nft-rules", CHAIN, None, RULE, "firewall"),
        seconds=0.5,
    )
    assert states(answer) == ["done", "done"]
    assert answer["guarded"]
    time.sleep(1)
    assert netns.confirm() == {"verdict": "reverted", "left": [], "results": []}
    assert inside(netns, "nft", "list", "ruleset") == before
    assert not boot_file.exists()


def test_a_deleted_base_chain_comes_back_as_it_was(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = inside(netns, "nft", "list", "ruleset")
    assert states(netns.apply(change("nft-input", CHAIN, "present", None, "firewall"), seconds=1)) == ["done"]
    assert "chain input" not in inside(netns, "nft", "list", "ruleset")
    time.sleep(1.5)
    assert netns.confirm()["verdict"] == "reverted"
    assert inside(netns, "nft", "list", "ruleset") == before


def test_a_confirmed_firewall_change_stays_and_frees_the_lock(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=1)
    assert netns.confirm() == {"verdict": "confirmed", "left": [], "results": []}
    time.sleep(1.5)
    assert RULE in inside(netns, "nft", "list", "ruleset")
    assert states(netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), run="r2")) == ["already"]
    assert netns.confirm("r2")["verdict"] == "confirmed"


def test_a_confirmation_whose_answer_got_lost_can_be_asked_for_again(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    kept = [change("file", netns.journal.parent / "nftables.nft", None, RULE, "firewall")]
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"))
    assert states(netns.confirm(kept=kept)) == ["done"]
    again = netns.confirm(kept=kept)
    assert again["verdict"] == "confirmed"
    assert states(again) == ["already"]


def test_what_nobody_guards_any_more_cannot_be_confirmed(netns: LocalHost) -> None:
    """As after a reboot: everybody gets in, whatever the firewall would have done."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = inside(netns, "nft", "list", "ruleset")
    boot_file = netns.journal.parent / "nftables.nft"
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"))
    for guardian in holders(netns.lock):
        os.kill(guardian, signal.SIGKILL)
    while holders(netns.lock):
        time.sleep(0.01)
    answer = netns.confirm(kept=[change("file", boot_file, None, RULE, "firewall")])
    assert answer["verdict"] == "reverted"
    assert states(answer) == ["not-run"]
    assert inside(netns, "nft", "list", "ruleset") == before
    assert not boot_file.exists()


def holders(path: Path) -> set[int]:
    """The processes that have a file open."""
    held = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if descriptor.readlink() == path:
                held.add(int(descriptor.parts[2]))
    return held


def test_the_guardian_takes_back_what_a_killed_program_had_begun(netns: LocalHost, tmp_path: Path) -> None:
    """nft hangs in the second change: the program is killed there, and its end starts the countdown."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    first = tmp_path / "first.nft"
    fifo = tmp_path / "hangs"
    os.mkfifo(fifo)
    tools = tmp_path / "bin"
    tools.mkdir()
    script(tools / "nft", f'case "$*" in "-f -") echo $$ >{tmp_path}/hanging; exec cat {fifo};; esac; exec {NFT} "$@"')
    netns.path = f"{tools}:{netns.path}"
    process = netns.start(
        {
            "action": "apply",
            "run": "r1",
            "seconds": 0.2,
            "guarded": [
                change("file", first, None, "x", "firewall"),
                change("nft-rules", CHAIN, None, RULE, "firewall"),
            ],
        }
    )
    while not (tmp_path / "hanging").exists():
        time.sleep(0.05)
    assert first.exists()
    process.kill()
    process.wait()
    fifo.write_text("")  # lets the hanging nft end
    time.sleep(1)
    assert not first.exists()


@pytest.mark.parametrize("last", [0, 1], ids=["at once", "in its second step"])
def test_without_a_guardian_no_firewall_change_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """The host has no room for another process."""
    monkeypatch.syspath_prepend(PROGRAM.parent)
    program = importlib.import_module("apply.main")
    forks = iter([os.fork] * last)

    def fork() -> int:
        for real in forks:
            return real()
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    paths = [tmp_path / name for name in ("plain", "first", "second")]
    areas = ["ports", "firewall", "firewall"]
    settings = {"run": "r1", "seconds": 1, **LocalHost(tmp_path).settings()}
    changes = [change("file", path, None, "x", area) for path, area in zip(paths, areas, strict=True)]
    answer = program.apply({**settings, **by_phase(changes)})
    assert states(answer) == ["done", "failed", "not-run"]
    assert answer["guarded"] is False
    assert [path.exists() for path in paths] == [True, False, False]


def test_a_second_run_at_the_same_time_is_told_who_is_first(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=2)  # its guardian waits, and holds the lock
    assert netns.apply(change("sysctl", RESERVED, "", "60000"), run="r2") == {
        "error": "another run is at work on this host (a test); wait until it is done",
        "at_work": "a test",
    }
    assert reserved(netns) == ""
    assert netns.confirm()["verdict"] == "confirmed"


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


def test_a_disk_that_is_full_does_not_keep_the_guardian_from_its_work(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = inside(netns, "nft", "list", "ruleset")
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=0.2)
    time.sleep(1)
    lines = (netns.journal / "r1.jsonl").read_text().splitlines(keepends=True)
    told = sum(len(line) for line in lines[:3])  # start, begin, end; the verdict does not fit any more
    outside, netns.inside = netns.inside, (*netns.inside, "prlimit", f"--fsize={told + 10}")
    answer = netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), run="r2", seconds=0.2)
    assert states(answer) == ["done"]
    time.sleep(1)
    netns.inside = outside
    assert inside(netns, "nft", "list", "ruleset") == before
    assert netns.confirm("r2")["verdict"] == "reverted"


# Devices, with a tool that keeps its state in files.

HCCN_TOOL = r"""
cd {state}
echo "$*" >>calls
busy=$(cat busy)
if [ $busy -gt 0 ]; then echo $((busy - 1)) >busy; echo "hccn_tool is busy, please try again."; exit 11; fi
case "$3 $4" in
"-ip -g") [ -s ip ] && cat ip || {{ echo "Get ipconf failed, because no ip was preset there!" >&2; exit 13; }};;
"-ip -s") if [ -e conflict ]; then echo "The ip address configured is conflicted!" >&2; exit 7; fi
          [ -e deaf ] || printf 'ipaddr:%s\nnetmask:%s\n' "$6" "$8" >ip; echo "Cmd executed successfully!";;
"-gateway -g") [ -s gateway ] && echo "default gateway:$(cat gateway), Iface:eth0" ||
          {{ echo "Get gateway failed, because no gateway was preset there!" >&2; exit 2; }};;
"-gateway -s") echo "$6" >gateway; echo "Cmd executed successfully!";;
"-netdetect -g") echo "netdetect addr: $(cat detect 2>/dev/null || echo 0.0.0.0)";;
"-netdetect -s") echo "$6" >detect; echo "Cmd executed successfully!";;
*) echo "Get invalid major cmd." >&2; exit 3;;
esac
"""


def script(path: Path, text: str) -> None:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


@pytest.fixture
def devices(host: LocalHost, tmp_path: Path) -> Path:
    """The directory of the stand-in's state; the stand-in is on the host's PATH."""
    state = tmp_path / "device"
    state.mkdir()
    (state / "busy").write_text("0")
    tools = tmp_path / "bin"
    tools.mkdir()
    script(tools / "hccn_tool", HCCN_TOOL.format(state=state))
    host.path = f"{tools}:{host.path}"
    return state


def test_address_gateway_and_detect_address_are_set_and_read_back(host: LocalHost, devices: Path) -> None:
    answer = host.apply(
        change("device-address", 0, None, "10.0.0.1/23"),
        change("device-gateway", 0, None, "10.0.0.254"),
        change("device-detect", 0, None, "10.0.0.254"),
    )
    assert states(answer) == ["done", "done", "done"]
    assert "-i 0 -ip -s address 10.0.0.1 netmask 255.255.254.0\n" in (devices / "calls").read_text()


def test_a_busy_tool_is_asked_again(host: LocalHost, devices: Path) -> None:
    (devices / "busy").write_text("3")
    assert states(host.apply(change("device-address", 0, None, "10.0.0.1/24"))) == ["done"]


def test_a_refused_address_fails_in_the_tools_words_and_stops_the_host(host: LocalHost, devices: Path) -> None:
    (devices / "conflict").touch()
    answer = host.apply(
        change("device-address", 0, None, "10.0.0.1/24"), change("device-gateway", 0, None, "10.0.0.254")
    )
    assert states(answer) == ["failed", "not-run"]
    assert "The ip address configured is conflicted!" in answer["results"][0]["message"]


def test_an_address_that_does_not_stick_is_called_so(host: LocalHost, devices: Path) -> None:
    (devices / "deaf").touch()
    answer = host.apply(change("device-address", 0, None, "10.0.0.1/24"))
    assert states(answer) == ["did-not-stick"]
    assert answer["results"][0]["found"] is None


def test_a_device_with_another_address_than_expected_is_left_alone(host: LocalHost, devices: Path) -> None:
    (devices / "ip").write_text("ipaddr:10.9.9.9\nnetmask:255.255.0.0\n")
    answer = host.apply(change("device-address", 0, None, "10.0.0.1/24"))
    assert states(answer) == ["moved"]
    assert answer["results"][0]["found"] == "10.9.9.9/16"


def test_no_change_is_begun_when_nobody_waits_for_it_any_more(host: LocalHost, devices: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "hangs"
    os.mkfifo(fifo)
    real = (tmp_path / "bin/hccn_tool").rename(tmp_path / "bin/real")
    waits = f'case "$*" in *address*) touch {tmp_path}/waiting; cat {fifo};; esac'
    script(tmp_path / "bin/hccn_tool", f'{waits}; exec {real} "$@"')
    changes = [change("device-address", 0, None, "10.0.0.1/24"), change("device-gateway", 0, None, "10.0.0.254")]
    process = host.start({"action": "apply", "run": "r1", "seconds": 1, "plain": changes})
    while not (tmp_path / "waiting").exists():
        time.sleep(0.05)
    assert process.stdout
    process.stdout.close()
    fifo.write_text("")
    process.wait(timeout=10)
    assert [event["event"] for event in host.events()] == ["start", "begin", "end", "abandoned", "finish"]
    assert host.events()[2]["state"] == "done"
    assert not (devices / "gateway").exists()


def test_unsetting_an_address_says_that_no_command_does_it(host: LocalHost, devices: Path) -> None:
    (devices / "ip").write_text("ipaddr:10.0.0.1\nnetmask:255.255.255.0\n")
    answer = host.apply(change("device-address", 0, "10.0.0.1/24", None))
    assert states(answer) == ["failed"]
    assert "hccn_tool cannot unset the ip; device 0 keeps it" in answer["results"][0]["message"]


# What a run came to is read from its journal, whatever happened to the journal.


def test_a_step_whose_end_does_not_fit_into_the_journal_is_taken_back_all_the_same(
    host: LocalHost, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    host.inside = ("prlimit", "--fsize=700")
    assert states(host.apply(change("file", path, "old", "new" * 80))) == ["failed"]
    host.inside = ()
    assert path.read_text() == "new" * 80, "it was written, and the disk was full then"
    assert "was put in order" in host.ask(action="recover", run="r2", patience=0)["recovered"]
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
    assert "was put in order" in host.ask(action="recover", run="r2", patience=0)["recovered"]
    assert [event["event"] for event in journal_of(host)] == ["start", "begin", "end", "finish"]
    assert [back["after"] for back in host.undo_of()] == ["old"]


def journal_of(host: LocalHost) -> list[dict[str, Any]]:
    """The lines that can be read."""
    found = []
    for line in (host.journal / "r1.jsonl").read_text().splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def test_a_confirmation_that_another_run_came_before_writes_nothing(netns: LocalHost) -> None:
    """Its program was killed after the verdict, and somebody else has put the run in order since."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    kept = [change("file", netns.journal.parent / "nftables.nft", None, RULE, "firewall")]
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"))
    (netns.journal / "r1.verdict").symlink_to("confirmed")
    assert "was put in order" in netns.ask(action="recover", run="r2", patience=5)["recovered"]
    answer = netns.confirm(kept=kept)
    assert (answer["verdict"], states(answer)) == ("confirmed", ["failed"])
    assert "run the same command again" in answer["results"][0]["message"]
    assert [event["event"] for event in netns.events()] == ["start", "begin", "end", "finish"]


def test_who_confirms_comes_before_who_waits(netns: LocalHost) -> None:
    """When the guardian gives up the lock, those who wait for it must not take the run for one that was cut off."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    kept = [change("file", netns.journal.parent / "nftables.nft", None, RULE, "firewall")]
    whole = ["start", "begin", "end", "confirmed", "begin", "end", "finish"]
    for number in range(1, 9):
        run = f"r{number}"
        netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), run=run)
        others = [netns.start({"action": "recover", "run": f"other{n}", "patience": 20}) for n in range(2)]
        time.sleep(0.2)
        assert netns.confirm(run, kept=kept)["verdict"] == "confirmed"
        assert [answer_of(other) for other in others] == [{"recovered": ""}] * 2
        assert [event["event"] for event in netns.events(run)] == whole
        for path in kept:
            Path(path["target"]).unlink()
        inside(netns, "nft", "flush", "ruleset")
        inside(netns, "nft", "-f", "-", stdin=RULESET)


def test_a_run_that_is_being_confirmed_is_at_work(netns: LocalHost) -> None:
    """Between its guardian and the program that confirms it nobody holds the host's lock."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=0.1)
    journal = netns.journal / "r1.jsonl"
    with journal.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        (netns.journal / "r1.verdict").symlink_to("confirmed")
        while holders(netns.lock):
            time.sleep(0.01)
        there = journal.read_bytes()
        for request in ({"action": "recover"}, {"action": "apply"}):
            assert netns.ask(run="r2", **request)["at_work"] == "a test"
        assert netns.ask(action="undo-of", run="r1")["at_work"] == "a test"
        assert journal.read_bytes() == there
    assert netns.ask(action="undo-of", run="r1")["at_work"] == ""
    assert "was put in order" in netns.ask(action="recover", run="r2")["recovered"]


def test_a_plan_made_before_the_host_was_put_in_order_is_not_carried_out(host: LocalHost, tmp_path: Path) -> None:
    host.apply(change("file", tmp_path / "a", None, "1"))
    (host.journal / "open").symlink_to("r1")
    (host.journal / "r1.jsonl").write_text("".join((host.journal / "r1.jsonl").read_text().splitlines(True)[:2]))
    answer = host.apply(change("file", tmp_path / "b", None, "1"), run="r2")
    assert "was put in order; the plan was made before that: run the same command again" in answer["error"]
    assert not (tmp_path / "b").exists()
    assert states(host.apply(change("file", tmp_path / "b", None, "1"), run="r2")) == ["done"]


def test_what_a_run_did_is_told_without_touching_a_run_that_is_open(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"))
    answer = netns.ask(action="undo-of", run="r1")
    assert answer["open"] == "r1"
    assert [back["kind"] for back in answer["changes"]] == ["nft-rules"]
    assert RULE in inside(netns, "nft", "list", "ruleset")
    assert netns.confirm()["verdict"] == "confirmed"


def test_a_link_to_a_journal_that_somebody_removed_stops_nobody(host: LocalHost, tmp_path: Path) -> None:
    host.journal.mkdir()
    (host.journal / "open").symlink_to("gone")
    assert states(host.apply(change("file", tmp_path / "a", None, "1"))) == ["done"]


def test_a_chain_of_iptables_comes_back_whole_or_not_at_all(netns: LocalHost) -> None:
    for rule in ("-N guests", "-A INPUT -j guests", "-A INPUT -p tcp --dport 22 -j ACCEPT", "-P INPUT DROP"):
        inside(netns, "iptables-nft", *rule.split())
    before = inside(netns, "iptables-nft", "-S", "INPUT")
    assert states(netns.apply(change("iptables-input", "iptables-nft", "present", None))) == ["done"]
    assert inside(netns, "iptables-nft", "-S", "INPUT") == "-P INPUT ACCEPT\n"
    (back,) = netns.undo_of()
    inside(netns, "iptables-nft", "-X", "guests")
    answer = netns.apply(back, run="r2")
    assert states(answer) == ["failed"]
    assert inside(netns, "iptables-nft", "-S", "INPUT") == "-P INPUT ACCEPT\n"
    inside(netns, "iptables-nft", "-N", "guests")
    assert states(netns.apply(back, run="r3")) == ["done"]
    assert inside(netns, "iptables-nft", "-S", "INPUT") == before


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
