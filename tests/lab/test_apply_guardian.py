"""The dead man's switch of `preflight/remote/apply`: firewall changes that are confirmed, or taken back."""

import errno
import fcntl
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from preflight.lab import kernel
from preflight.provision.this_network import network_id
from tests.lab.local_host import (
    CHAIN,
    RULE,
    RULESET,
    LocalHost,
    answer_of,
    by_phase,
    change,
    holders,
    inside,
    script,
    states,
)

pytestmark = pytest.mark.lab

PROGRAM = Path(__file__).parents[2] / "preflight/remote/apply"
NFT = shutil.which("nft") or "/usr/sbin/nft"
GUARDED = 6  # seconds to the revert: long enough for a busy machine to write down the change first


TAKEN_BACK = {"verdict": "reverted", "left": [], "trying": False, "results": []}
CONFIRMED = {**TAKEN_BACK, "verdict": "confirmed"}


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
    assert netns.confirm() == TAKEN_BACK
    assert inside(netns, "nft", "list", "ruleset") == before
    assert not boot_file.exists()


@pytest.mark.parametrize("phase", ["plain", "kept"])
def test_a_firewall_change_is_guarded_whatever_the_request_calls_it(netns: LocalHost, phase: str) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = inside(netns, "nft", "list", "ruleset")
    rule = change("nft-rules", CHAIN, None, RULE, "ports")
    answer = netns.ask(action="apply", run="r1", seconds=0.5, **{phase: [rule]})
    assert (states(answer), answer["guarded"]) == (["done"], True)
    assert RULE in inside(netns, "nft", "list", "ruleset")
    wait_until(lambda: inside(netns, "nft", "list", "ruleset") == before)
    assert netns.confirm()["verdict"] == "reverted"


def test_a_confirmation_changes_no_live_firewall(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"))
    both = [change("nft-input", CHAIN, "present", None, "firewall")]
    assert "not change the live firewall" in netns.ask(action="confirm", run="r1", kept=both)["error"]
    assert "chain input" in inside(netns, "nft", "list", "ruleset")
    assert netns.confirm() == CONFIRMED


@pytest.mark.parametrize("comment", ["", 'comment "front door";'])
def test_a_deleted_base_chain_comes_back_as_it_was(netns: LocalHost, comment: str) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET.replace("type filter", f"{comment} type filter"))
    before = inside(netns, "nft", "list", "ruleset")
    assert states(netns.apply(change("nft-input", CHAIN, "present", None, "firewall"), seconds=1)) == ["done"]
    assert "chain input" not in inside(netns, "nft", "list", "ruleset")
    time.sleep(1.5)
    assert netns.confirm()["verdict"] == "reverted"
    assert inside(netns, "nft", "list", "ruleset") == before


def test_a_confirmed_firewall_change_stays_and_frees_the_lock(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=1)
    assert netns.confirm() == CONFIRMED
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
    shutil.rmtree(netns.watch)
    answer = netns.confirm(kept=[change("file", boot_file, None, RULE, "firewall")])
    assert answer["verdict"] == "reverted"
    assert states(answer) == ["not-run"]
    assert inside(netns, "nft", "list", "ruleset") == before
    assert not boot_file.exists()


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
    time.sleep(1)
    assert not first.exists()


@pytest.mark.parametrize("last", range(3), ids=["at once", "in its second step", "the second guardian"])
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
    assert str((LocalHost(tmp_path).watch / "r1.verdict").readlink()) == "called-off", "for a guardian that did start"


def wait_for_verdict(host: LocalHost, run: str) -> None:
    """Wait until a run's guardian has decided, and has had a second to write it down."""
    until = time.monotonic() + 60
    while not (host.watch / f"{run}.verdict").is_symlink():
        assert time.monotonic() < until, run
        time.sleep(0.1)
    time.sleep(1)


def wait_for_finish(host: LocalHost) -> None:
    """Wait for the end of the journal of r1. The next run would write the lines that it still lacks."""
    until = time.monotonic() + 60
    while '"finish"' not in (host.journal / "r1.jsonl").read_text():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_disk_that_is_full_does_not_keep_the_guardian_from_its_work(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = inside(netns, "nft", "list", "ruleset")
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=GUARDED)
    wait_for_finish(netns)
    lines = (netns.journal / "r1.jsonl").read_text().splitlines(keepends=True)
    assert [json.loads(line)["event"] for line in lines[:4]] == ["start", "begin", "end", "reverted"]
    size = sum(len(line) for line in lines[:3])  # bytes; the verdict does not fit any more
    outside, netns.inside = netns.inside, (*netns.inside, "prlimit", f"--fsize={size + len(lines[3]) // 2}")
    answer = netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), run="r2", seconds=GUARDED)
    assert states(answer) == ["done"], answer
    wait_for_verdict(netns, "r2")
    netns.inside = outside
    assert inside(netns, "nft", "list", "ruleset") == before
    assert netns.confirm("r2")["verdict"] == "reverted"


def test_what_a_run_did_is_told_without_touching_a_run_that_is_open(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"))
    answer = netns.ask(action="undo-of", run="r1")
    assert answer["open"] == "r1"
    assert [back["kind"] for back in answer["changes"]] == ["nft-rules"]
    assert RULE in inside(netns, "nft", "list", "ruleset")
    assert netns.confirm()["verdict"] == "confirmed"


def test_a_confirmation_that_another_run_came_before_writes_nothing(netns: LocalHost) -> None:
    """Its program was killed after the verdict, and somebody else has put the run in order since."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    kept = [change("file", netns.journal.parent / "nftables.nft", None, RULE, "firewall")]
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"))
    (netns.watch / "r1.verdict").symlink_to("confirmed")
    assert "has been cleaned up" in netns.ask(action="recover", run="r2", patience=5)["recovered"]
    answer = netns.confirm(kept=kept)
    assert (answer["verdict"], states(answer)) == ("confirmed", ["failed"])
    assert "Run the same command again" in answer["results"][0]["message"]
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
        (netns.watch / "r1.verdict").symlink_to("confirmed")
        while holders(netns.lock):
            time.sleep(0.01)
        there = journal.read_bytes()
        for request in ({"action": "recover"}, {"action": "apply"}):
            assert netns.ask(run="r2", **request)["at_work"] == "a test"
        assert netns.ask(action="undo-of", run="r1")["at_work"] == "a test"
        assert journal.read_bytes() == there
    assert netns.ask(action="undo-of", run="r1")["at_work"] == ""
    assert "has been cleaned up" in netns.ask(action="recover", run="r2")["recovered"]


# Nothing that goes wrong keeps a host shut: faults of the guardians, of the tools, and of other programs meanwhile.

SHUT = "-P INPUT DROP"
NAME_RULE = 'tcp dport 9 drop comment "fail2ban"'


def rules_of(host: LocalHost) -> str:
    """The ruleset, without what its rules have counted."""
    return re.sub(r"used \d+ bytes", "used", inside(host, "nft", "list", "ruleset"))


@pytest.mark.parametrize("survivor", [0, 1], ids=["the second", "the first"])
def test_either_guardian_takes_the_changes_back_alone(netns: LocalHost, survivor: int) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=1)
    guardians = sorted(holders(netns.lock))
    assert len(guardians) == 2
    sessions = {os.getsid(guardian) for guardian in guardians}
    assert len(sessions) == 2 and os.getsid(0) not in sessions
    os.kill(guardians[1 - survivor], signal.SIGKILL)
    os.kill(guardians[survivor], signal.SIGHUP)
    assert RULE in rules_of(netns)
    wait_until(lambda: not holders(netns.lock))
    assert rules_of(netns) == before
    assert netns.confirm() == TAKEN_BACK


def test_a_guardian_has_no_limit_of_time_or_memory(netns: LocalHost) -> None:
    """The program that it comes from has both."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"))
    for guardian in holders(netns.lock):
        limits = Path(f"/proc/{guardian}/limits")
        for name in ("cpu time", "address space"):
            wait_until(partial(has_no_limit, limits, name))
    assert netns.confirm() == CONFIRMED


def has_no_limit(limits: Path, name: str) -> bool:
    return re.search(rf"Max {name} +unlimited", limits.read_text()) is not None


def test_chains_are_the_same_whatever_their_rules_have_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PROGRAM.parent)
    same = importlib.import_module("apply.kinds").same_chain
    rule = "quota 25 mbytes used {} bytes counter packets {} bytes 84 accept"
    assert same(rule.format(0, 0)) == same(rule.format(84, 1))
    assert same(rule.format(0, 0)) != same(rule.format(0, 0).replace("accept", "drop"))


def test_a_run_with_one_guardian_left_can_be_confirmed(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=2)
    os.kill(min(holders(netns.lock)), signal.SIGKILL)
    assert netns.confirm() == CONFIRMED
    time.sleep(2.5)
    assert RULE in rules_of(netns)
    assert not (netns.watch / "r1").exists()


def test_a_guardian_that_is_stopped_does_not_keep_the_lock(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=0.5)
    os.kill(min(holders(netns.lock)), signal.SIGSTOP)
    wait_until(lambda: not holders(netns.lock))
    assert rules_of(netns) == before
    assert netns.confirm() == TAKEN_BACK


def test_guardians_that_are_stopped_do_not_keep_a_run_from_being_confirmed(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    kept = [change("file", netns.journal.parent / "nftables.nft", None, RULE, "firewall")]
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"))
    for guardian in holders(netns.lock):
        os.kill(guardian, signal.SIGSTOP)
    answer = netns.confirm(kept=kept)
    assert (answer["verdict"], states(answer)) == ("confirmed", ["done"])
    assert RULE in rules_of(netns)
    assert not holders(netns.lock)


@pytest.mark.parametrize("ours", [(None, RULE), (RULE, None)], ids=["of an added rule", "of a removed rule"])
def test_where_the_chain_is_gone_there_is_nothing_to_take_back(
    netns: LocalHost, ours: tuple[str | None, str | None]
) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    if ours[0]:
        inside(netns, "nft", "insert", "rule", *CHAIN.split(), *RULE.split())
    answer = netns.apply(change("nft-rules", CHAIN, *ours, "firewall"), seconds=0.5)
    assert states(answer) == ["done"]
    inside(netns, "nft", "flush", "ruleset")
    wait_until(lambda: not holders(netns.lock))
    assert netns.confirm() == TAKEN_BACK
    assert netns.undo_of() == []
    (end,) = [event for event in netns.events() if event["event"] == "end" and "undo" in event]
    assert end["message"] == f"nothing is left to undo: there is no chain {CHAIN}"
    assert states(netns.apply(change("nft-rules", CHAIN, *ours, "firewall"), run="r2")) == ["failed"]


def test_a_tool_that_fails_is_called_until_the_host_is_open(netns: LocalHost, tmp_path: Path) -> None:
    """A stand-in for a busy xtables lock or a daemon that restarts: nft refuses to write, three times."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    tools = tmp_path / "bin"
    tools.mkdir()
    fails = f'[ -e {tmp_path}/done ] && echo x >>{tmp_path}/failed && [ "$(wc -l <{tmp_path}/failed)" -le 3 ] && exit 1'
    script(tools / "nft", f'case "$*" in "-f -") {fails};; esac; exec {NFT} "$@"')
    netns.path = f"{tools}:{netns.path}"
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=0.5)
    (tmp_path / "done").touch()
    wait_until(lambda: not holders(netns.lock))
    assert (tmp_path / "failed").read_text().count("x") >= 4
    assert rules_of(netns) == before
    assert netns.confirm() == TAKEN_BACK


@pytest.mark.parametrize(
    ("network", "person", "ends"),
    [("its own", False, "failed"), ("its own", True, "done"), ("another", False, "done")],
)
def test_a_host_that_asks_itself_needs_a_person(netns: LocalHost, network: str, person: bool, ends: str) -> None:
    """Whatever address it has reached itself by: its connections go over lo, and pass every firewall."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    own = f"{boot} {inside(netns, 'readlink', '/proc/self/ns/net').strip()}"
    assert own != network_id()
    caller = own if network == "its own" else network_id()
    changes = [change("nft-rules", CHAIN, None, RULE, "firewall")]
    request = {"action": "apply", "run": "r1", "seconds": 0.5, "guarded": changes}
    answer = netns.ask(**request, caller=caller, person=person)
    assert states(answer) == [ends]
    assert answer.get("own", False) == person
    if ends == "failed":
        assert "preflight runs on this host" in answer["results"][0]["message"]
        assert rules_of(netns) == before
    wait_until(lambda: not holders(netns.lock))
    assert rules_of(netns) == before


@pytest.mark.parametrize("fails", [1, 2, 3, 4])
def test_a_tool_that_fails_once_at_any_call_leaves_the_host_open(netns: LocalHost, tmp_path: Path, fails: int) -> None:
    """The first call is the one that notes what leads back."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    tools = tmp_path / "bin"
    tools.mkdir()
    count = f'echo x >>{tmp_path}/calls; [ "$(wc -l <{tmp_path}/calls)" = {fails} ] && {{ echo busy >&2; exit 4; }}'
    script(tools / "nft", f'{count}; exec {NFT} "$@"')
    netns.path = f"{tools}:{netns.path}"
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=0.5)
    wait_until(lambda: not holders(netns.lock))
    assert (tmp_path / "calls").read_text().count("x") >= fails
    assert rules_of(netns) == before


def test_an_nft_whose_library_is_missing_does_not_make_the_chain_gone(netns: LocalHost, tmp_path: Path) -> None:
    """So it is while a package is being replaced, and its message has the words of nft's about a chain."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    tools = tmp_path / "bin"
    tools.mkdir()
    message = "nft: error while loading shared libraries: libnftables.so.1: cannot open shared object file: "
    fails = f'[ -e {tmp_path}/away ] && {{ echo "{message}No such file or directory" >&2; exit 127; }}'
    script(tools / "nft", f'{fails}; exec {NFT} "$@"')
    netns.path = f"{tools}:{netns.path}"
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=0.5)
    (tmp_path / "away").touch()
    time.sleep(2)
    assert holders(netns.lock)
    (tmp_path / "away").unlink()
    wait_until(lambda: not holders(netns.lock))
    assert rules_of(netns) == before


def test_a_host_that_is_not_open_yet_says_so(netns: LocalHost, tmp_path: Path) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    tools = tmp_path / "bin"
    tools.mkdir()
    script(tools / "nft", f'case "$*" in "-f -") [ -e {tmp_path}/broken ] && exit 1;; esac; exec {NFT} "$@"')
    netns.path = f"{tools}:{netns.path}"
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=0.1)
    (tmp_path / "broken").touch()
    wait_until(lambda: (netns.watch / "r1.verdict").is_symlink())
    answer = netns.ask(action="confirm", run="r1", patience=1)
    assert (answer["verdict"], answer["left"], answer["trying"]) == ("reverted", [CHAIN], True)
    (tmp_path / "broken").unlink()
    wait_until(lambda: not holders(netns.lock))
    assert rules_of(netns) == before
    assert netns.confirm() == TAKEN_BACK


def test_a_program_that_is_stopped_does_not_put_the_deadline_off(netns: LocalHost, tmp_path: Path) -> None:
    """It is stopped while it waits for a tool that hangs: both are killed."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    tools = tmp_path / "bin"
    tools.mkdir()
    hang = f"touch {tmp_path}/once; {NFT} -f -; sleep 1000 & echo $! >{tmp_path}/child; wait"
    hangs = f"[ -e {tmp_path}/once ] || {{ {hang}; }}"
    script(tools / "nft", f'case "$*" in "-f -") {hangs};; esac; exec {NFT} "$@"')
    netns.path = f"{tools}:{netns.path}"
    netns.guarded_seconds = 1
    changes = [change("nft-rules", CHAIN, None, RULE, "firewall")]
    process = netns.start({"action": "apply", "run": "r1", "seconds": 0.5, "guarded": changes})
    wait_until((tmp_path / "child").exists)
    process.send_signal(signal.SIGSTOP)
    assert RULE in rules_of(netns)
    assert process.wait(30) == -signal.SIGKILL
    wait_until(lambda: rules_of(netns) == before)
    assert not is_alive(int((tmp_path / "child").read_text())), "a tool is killed before anything is taken back"
    wait_until(lambda: not holders(netns.lock))


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_confirmation_after_the_deadline_does_not_count(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    netns.guarded_seconds = 0.5
    netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=0.5)
    for guardian in holders(netns.lock):
        os.kill(guardian, signal.SIGKILL)
    time.sleep(1)
    assert netns.confirm() == TAKEN_BACK
    assert rules_of(netns) == before


def test_what_another_program_changed_meanwhile_stays_and_ours_goes(netns: LocalHost) -> None:
    """fail2ban puts a rule into the chain that we have deleted and another one has made again."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    netns.apply(change("nft-input", CHAIN, "present", None, "firewall"), seconds=1)
    again = "add chain inet filter input { type filter hook input priority 0; policy accept; }"
    inside(netns, "nft", "-f", "-", stdin=f"{again}\nadd rule {CHAIN} {NAME_RULE}\n")
    wait_until(lambda: not holders(netns.lock))
    assert netns.confirm() == TAKEN_BACK
    assert [line for line in rules_of(netns).splitlines() if line not in before.splitlines()] == ["\t\t" + NAME_RULE]
    assert set(before.splitlines()) <= set(rules_of(netns).splitlines())


@pytest.mark.parametrize("program", ["iptables-nft", "iptables-legacy"])
def test_a_policy_that_shuts_is_taken_back_beside_the_rule_of_another_program(
    netns: LocalHost, tmp_path: Path, program: str
) -> None:
    """iptables-restore fails three times, and fail2ban has inserted a rule."""
    quota = "-A INPUT -p icmp -m quota --quota 25000000 -j ACCEPT"
    open_rules = f"-P INPUT ACCEPT\n{quota}"
    ban = "-p tcp -m tcp --dport 9 -j f2b-sshd"
    restore = f"{program}-restore"
    failures = tmp_path / "failures"
    failures.touch()
    fails = f"if [ -s {failures} ]; then sed -i 1d {failures}; exit 4; fi"
    tools = tmp_path / "bin"
    tools.mkdir()
    script(tools / restore, f'{fails}\nexec {shutil.which(restore)} "$@"')
    script(tools / program, f'exec {shutil.which(program)} "$@"')
    inside(netns, program, *quota.split())
    netns.path = f"{tools}:{netns.path}"
    shut = change("iptables-input", program, open_rules, SHUT, "firewall")
    assert states(netns.apply(shut, seconds=1)) == ["done"]
    failures.write_text("\n" * 3)
    inside(netns, program, "-N", "f2b-sshd")
    inside(netns, program, "-I", "INPUT", *ban.split())
    wait_until(lambda: not holders(netns.lock))
    assert failures.read_text() == ""
    assert netns.confirm() == TAKEN_BACK
    assert inside(netns, program, "-S", "INPUT").strip() == f"{open_rules}\n-A INPUT {ban}"


def test_a_rule_that_counts_does_not_keep_a_chain_from_being_taken_back(netns: LocalHost) -> None:
    """A rollback of `off` shuts the host by a chain with a quota; by the time it is undone the quota has counted."""
    inside(netns, "nft", "-f", "-", stdin=QUOTA)
    shut = inside(netns, "nft", "list", "chain", *CHAIN.split())
    inside(netns, "nft", "delete", "chain", *CHAIN.split())
    answer = netns.apply(change("nft-input", CHAIN, None, shut, "firewall"), seconds=3)
    assert states(answer) == ["done"]
    inside(netns, "ip", "link", "set", "lo", "up")
    inside(netns, "sh", "-c", "ping -c 2 -i 0.2 -W 1 127.0.0.1 >/dev/null || true")
    assert re.search(r"used [1-9]\d* bytes", inside(netns, "nft", "list", "chain", *CHAIN.split()))
    wait_until(lambda: not holders(netns.lock))
    assert netns.confirm() == TAKEN_BACK
    assert "chain input" not in rules_of(netns)


QUOTA = """
table inet filter {
  chain input {
    type filter hook input priority 0; policy drop;
    icmp type echo-request quota 25 mbytes used 0 bytes accept
  }
}
"""


def test_a_frozen_disk_does_not_keep_the_host_shut(netns: LocalHost, tmp_path: Path) -> None:
    """The journal's file system is frozen as soon as the firewall is changed, and thawed when the host is open."""
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    before = rules_of(netns)
    with frozen_disk(tmp_path) as (place, freeze, thaw):
        netns.journal = place / "journal"
        answer = netns.apply(change("nft-rules", CHAIN, None, RULE, "firewall"), seconds=1)
        assert states(answer) == ["done"]
        freeze()
        try:
            wait_until(lambda: rules_of(netns) == before)
        finally:
            thaw()
        wait_until(lambda: not holders(netns.lock))
        assert netns.confirm() == TAKEN_BACK
        assert "reverted" in [event["event"] for event in netns.events()]


@contextmanager
def frozen_disk(directory: Path) -> Iterator[tuple[Path, Callable[[], None], Callable[[], None]]]:
    """A file system in a file, and what freezes and thaws it."""
    image, place = directory / "disk", directory / "frozen"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)

    def freeze() -> None:
        subprocess.run(["fsfreeze", "--freeze", place], check=True)

    def thaw() -> None:
        subprocess.run(["fsfreeze", "--unfreeze", place], check=False)

    try:
        yield place, freeze, thaw
    finally:
        subprocess.run(["umount", place], check=True)


def test_the_program_ends_itself_and_its_tools_in_time(netns: LocalHost, tmp_path: Path) -> None:
    """A tool that never ends, with a child."""
    tools = tmp_path / "bin"
    tools.mkdir()
    script(tools / "nft", f"sleep 1000 & echo $! >{tmp_path}/child; wait")
    netns.path = f"{tools}:{netns.path}"
    changes = [change("nft-rules", CHAIN, None, RULE)]
    process = netns.start({"action": "compare", "run": "r1", "limit": 1, "guarded": changes})
    assert process.wait(30) == 1
    wait_until(lambda: not Path(f"/proc/{(tmp_path / 'child').read_text().strip()}").exists())


def test_the_program_and_its_tools_take_no_more_memory_than_a_host_can_spare(netns: LocalHost, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    script(tools / "nft", f"exec {sys.executable} -c 'len(bytearray(3 << 30)); print(\"fits\")'")
    netns.path = f"{tools}:{netns.path}"
    answer = netns.ask(action="compare", run="r1", guarded=[change("nft-rules", CHAIN, None, RULE)])
    assert "MemoryError" in answer["results"][0]["message"]


def wait_until(condition: Callable[[], bool]) -> None:
    kernel.wait_until(condition, 40, "it did not come about")
