"""The dead man's switch of `preflight/remote/apply`: firewall changes that are confirmed, or taken back."""

import errno
import fcntl
import importlib
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

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
