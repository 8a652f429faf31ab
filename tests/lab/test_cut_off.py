"""A run that is cut off, wherever it is: the next one finishes it, or a rollback takes it back, and nothing is lost.

The tests read the journals, as anybody can, and kill as a line appears: the program on the host, the connection to it,
or preflight itself. The product does nothing to help them.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab
from tests.lab.local_host import CHAIN, RESERVED, RULE, RULESET, LocalHost, change, inside, states

pytestmark = pytest.mark.lab


def as_line_appears(journal: Path, number: int, process: "subprocess.Popen[bytes]", delay: float) -> bool:
    """Kill the process `delay` seconds after the journal has so many lines; False if it ended before."""
    while process.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") >= number:
            time.sleep(delay)
            process.kill()
            return True
    return False


# The program on the host, as a process of this machine in a network namespace.

OURS, THEIRS = "net.ipv4.ip_local_reserved_ports = 29500\n", "# théirs\nvm.swappiness = 10"


class Site:
    """A host's files and settings, fresh, and the changes that are to be made there."""

    def __init__(self, host: LocalHost, place: Path) -> None:
        self.host = host
        self.place = place
        place.mkdir()
        host.journal, host.lock, host.watch = place / "journal", place / "lock", place / "watch"
        self.theirs, self.ours, self.boot = place / "sysctl.conf", place / "preflight/ports.conf", place / "boot.nft"
        self.theirs.write_text(THEIRS)
        self.theirs.chmod(0o640)
        os.chown(self.theirs, 12, 34)
        self.boot.write_text("table\n")
        inside(host, "nft", "flush", "ruleset")
        inside(host, "nft", "-f", "-", stdin=RULESET)
        inside(host, "sysctl", "-qw", f"{RESERVED}=40000")
        self.plain = [
            change("file", self.theirs, THEIRS, f"{THEIRS}\n{OURS}"),
            change("file", self.ours, None, OURS),
            change("sysctl", RESERVED, "40000", "29500,40000"),
        ]
        self.guarded = [change("nft-rules", CHAIN, None, RULE, "firewall")]
        self.kept = [change("file", self.boot, "table\n", "table\ninclude\n", "firewall")]

    def state(self) -> dict[str, Any]:
        """Everything that is changed, and what may not be left lying about."""
        looks = {
            str(path.relative_to(self.place)): (path.read_bytes(), path.stat().st_mode, path.stat().st_uid)
            for path in sorted(self.place.rglob("*"))
            if path.is_file() and not {self.host.journal, self.host.watch} & {*path.parents} and path != self.host.lock
        }
        ports = inside(self.host, "sysctl", "-n", RESERVED)
        return {"files": looks, "ports": ports, "rules": inside(self.host, "nft", "list", "ruleset")}

    def begin(self, run: str) -> "subprocess.Popen[bytes]":
        return self.host.start(
            {"action": "apply", "run": run, "seconds": 0.2, "plain": self.plain, "guarded": self.guarded}
        )

    def confirm(self, run: str) -> "subprocess.Popen[bytes]":
        return self.host.start({"action": "confirm", "run": run, "kept": self.kept})

    def to_the_end(self, run: str, **request: Any) -> list[str]:
        """A whole run, its confirmation too; the states of its changes."""
        self.host.ask(action="recover", run=run, patience=20)
        answer = self.host.ask(action="apply", run=run, seconds=5, **request)
        ended = states(answer)
        if answer["guarded"]:
            confirmed = self.host.confirm(run, kept=request.get("kept", ()))
            assert confirmed["verdict"] == "confirmed"
            ended += states(confirmed)
        return ended

    def taken_back(self, run: str, by: str) -> list[str]:
        """A whole run that takes another one back; the states of its changes."""
        self.host.ask(action="recover", run=by, patience=20)
        back = self.host.undo_of(run) or ()
        phases = {"plain": [c for c in back if c["area"] != "firewall"],
                  "guarded": [c for c in back if c["kind"] == "nft-rules"],
                  "kept": [c for c in back if c["area"] == "firewall" and c["kind"] == "file"]}  # fmt: skip
        return self.to_the_end(by, **phases)


# At once, and a little later: in the middle of the step that the line announces, and between its end and the next line.
DELAYS = (0.0, 0.001, 0.003, 0.01)


def killed_at(site: Site, run: str, line: int, delay: float) -> bool:
    """Begin a run and kill its program at that line of the journal, be it the one that applies or the one that
    confirms; False if there is no such line."""
    journal = site.host.journal / f"{run}.jsonl"
    for start in (site.begin, site.confirm):
        process = start(run)
        cut = as_line_appears(journal, line, process, delay)
        process.wait()
        assert process.stdout
        process.stdout.close()
        if cut:
            return True
    return False


@pytest.fixture
def sites(tmp_path: Path, netns: LocalHost) -> Iterator[Callable[[str], Site]]:
    yield lambda name: Site(netns, tmp_path / name)


@pytest.fixture
def reference(sites: Callable[[str], Site]) -> tuple[dict[str, Any], dict[str, Any], int]:
    """How a site is before and after a run that nobody disturbs, and how many lines its journal has."""
    site = sites("reference")
    before = site.state()
    assert site.to_the_end("r1", plain=site.plain, guarded=site.guarded, kept=site.kept) == ["done"] * 5
    return before, site.state(), len(site.host.events())


def test_a_program_killed_at_any_line_is_finished_by_the_next_run(
    sites: Callable[[str], Site], reference: tuple[dict[str, Any], dict[str, Any], int]
) -> None:
    _, after, lines = reference
    cut = 0
    for line, delay in product(range(1, lines + 1), DELAYS):
        site = sites(f"finish{line}-{delay}")
        cut += killed_at(site, "r1", line, delay)
        ended = site.to_the_end("r2", plain=site.plain, guarded=site.guarded, kept=site.kept)
        assert set(ended) <= {"done", "already"}, (line, delay, ended)
        assert site.state() == after, f"killed at line {line} + {delay} s"
    assert cut >= lines, "with a delay, the last lines come too late to be cut off at"


def test_a_program_killed_at_any_line_is_taken_back_whole(
    sites: Callable[[str], Site], reference: tuple[dict[str, Any], dict[str, Any], int]
) -> None:
    before, _, lines = reference
    for line, delay in product(range(1, lines + 1), DELAYS):
        site = sites(f"back{line}-{delay}")
        killed_at(site, "r1", line, delay)
        ended = site.taken_back("r1", "r2")
        assert set(ended) <= {"done", "already"}, (line, delay, ended)
        assert site.state() == before, f"killed at line {line} + {delay} s"


# A disk that fills up, wherever in the journal: from there on nothing can be written down.


def filled_up_at(site: Site, run: str, size: int, *, confirmed: bool) -> None:
    """A run whose journal takes so many bytes; what is changed is smaller."""
    room, site.host.inside = site.host.inside, (*site.host.inside, "prlimit", f"--fsize={size}")
    seconds = 5 if confirmed else 0.1
    answer = site.host.ask(action="apply", run=run, seconds=seconds, plain=site.plain, guarded=site.guarded)
    if answer.get("guarded") and confirmed:
        well = set(states(answer)) == {"done"}
        assert site.host.confirm(run, kept=site.kept if well else [])["verdict"] == "confirmed"
    site.host.inside = room


@pytest.mark.parametrize("confirmed", [True, False], ids=["confirmed", "reverted"])
def test_a_disk_that_fills_up_at_any_line_hides_nothing(
    sites: Callable[[str], Site], reference: tuple[dict[str, Any], dict[str, Any], int], confirmed: bool
) -> None:
    before, after, lines = reference
    site = sites("sizes")
    site.to_the_end("r1", plain=site.plain, guarded=site.guarded, kept=site.kept)
    journal = (site.host.journal / "r1.jsonl").read_bytes().splitlines(keepends=True)
    ends = [sum(map(len, journal[:line])) for line in range(1, lines + 1)]
    for size, taken_back in product([end - part for end in ends for part in (1, 60)], [True, False]):
        site = sites(f"full{size}-{taken_back}")
        filled_up_at(site, "r1", size, confirmed=confirmed)
        told = site.host.ask(action="recover", run="r2", patience=20)
        assert "error" not in told, (size, told)
        if taken_back:
            ended = site.taken_back("r1", "r2")
        else:
            ended = site.to_the_end("r2", plain=site.plain, guarded=site.guarded, kept=site.kept)
        assert set(ended) <= {"done", "already"}, (size, taken_back, ended)
        assert site.state() == (before if taken_back else after), (size, taken_back)


# preflight itself, and the connection, on real hosts.


TOUCHED = "/etc/sysctl.conf /etc/sysctl.d /etc/nftables.conf /etc/preflight"
AS_IT_WAS = """
rm -rf /etc/preflight /etc/sysctl.d/90-preflight.conf
printf 'net.ipv4.ip_local_reserved_ports = 40000\\n' >/etc/sysctl.conf
printf '\\n' >/proc/sys/net/ipv4/ip_local_reserved_ports
sed -i '/preflight/d' /etc/nftables.conf
nft -f /etc/nftables.conf
rm -rf /var/lib/preflight
"""


class Place:
    """One lab host, with a state of its own on the controller's side, so that several can be tried at a time."""

    def __init__(self, lab: LabHandle, number: int, tmp_path: Path) -> None:
        self.lab, self.name = lab, f"node{number:02}"
        self.state_home = tmp_path / self.name
        self.state_home.mkdir()
        status = lab.status["hosts"][number - 1]
        self.root, self.netns = Path(f"/proc/{status['pid']}/root"), status["netns"]

    def reset(self) -> None:
        done = self.lab.ssh(self.name, AS_IT_WAS)
        assert done.returncode == 0, done.stderr
        for path in (self.state_home / "preflight/runs").glob("*"):
            path.unlink()

    def looks(self) -> str:
        files = f"find {TOUCHED} -exec stat -c '%n %a %U %F' {{}} + -type f -exec sha256sum {{}} + | sort"
        settings = "cat /proc/sys/net/ipv4/ip_local_reserved_ports; nft list ruleset"
        return self.lab.ssh(self.name, f"{files}; {settings}").stdout

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "preflight", *arguments, "-y", "--confirm-within", "2", "--limit", self.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(self.state_home)},
        )

    def configure(self) -> "subprocess.Popen[str]":
        return self.start("configure", "--inventory", str(self.lab.inventory))

    def rollback(self, run: str) -> "subprocess.Popen[str]":
        return self.start("rollback", run, "--inventory", str(self.lab.inventory))

    def until_done(self, process: "subprocess.Popen[str]") -> None:
        said, _ = process.communicate(timeout=90)
        assert process.returncode == 0, said

    def own_journals(self) -> list[Path]:
        return sorted((self.state_home / "preflight/runs").glob("*.jsonl"))

    def its_journals(self) -> list[Path]:
        return sorted((self.root / "var/lib/preflight/journal").glob("*.jsonl"))

    def end_connections(self) -> None:
        """Kill what sshd has for each connection: nothing of ours is asked, and no answer comes."""
        for place in Path("/proc").glob("[0-9]*"):
            try:
                ours = (place / "ns/net").stat().st_ino == Path(f"/run/netns/{self.netns}").stat().st_ino
                if ours and (place / "cmdline").read_bytes().startswith(b"sshd: root"):
                    os.kill(int(place.name), signal.SIGKILL)
            except OSError:
                continue  # it has ended by itself


def lines_of(journals: list[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in journals)


VICTIMS = ["preflight, by its own journal", "preflight by the host's journal", "the connection"]


def journals_read(victim: str) -> Callable[[Place], list[Path]]:
    return Place.own_journals if victim == VICTIMS[0] else Place.its_journals


def cut(place: Place, process: "subprocess.Popen[str]", victim: str, line: int, earlier: Collection[Path] = ()) -> bool:
    """Cut the run off as the journal that it writes has so many lines; False if it ended before."""
    while process.poll() is None:
        if lines_of([path for path in journals_read(victim)(place) if path not in earlier]) >= line:
            process.kill() if victim != "the connection" else place.end_connections()
            process.communicate(timeout=90)
            return True
    process.communicate(timeout=90)
    return False


def on_all(places: list[Place], lines: int, cut_at: Callable[[Place, int], bool]) -> int:
    """Try every line of the journal, each host its share of them; how many runs were cut off."""

    def share(number: int) -> int:
        return sum(cut_at(places[number], line) for line in range(1 + number, lines + 1, len(places)))

    with ThreadPoolExecutor(len(places)) as pool:
        return sum(pool.map(share, range(len(places))))


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    return make_lab(hosts=4, devices=0, product="cpu", firewall="nftables")


@pytest.mark.parametrize("victim", VICTIMS)
def test_cut_off_anywhere_the_next_run_finishes_or_undoes_it(lab: LabHandle, tmp_path: Path, victim: str) -> None:
    places = [Place(lab, number, tmp_path) for number in range(1, 5)]
    reference = places[0]
    reference.reset()
    before = reference.looks()
    reference.until_done(reference.configure())
    after = reference.looks()
    assert after != before
    for path in (*reference.own_journals(), *reference.its_journals()):
        assert json.loads(path.read_text().splitlines()[-1])["event"] == "finish"
    lines = lines_of(journals_read(victim)(reference))

    def cut_at(place: Place, line: int) -> bool:
        place.reset()
        was_cut = cut(place, place.configure(), victim, line)
        if line % 2:
            place.until_done(place.configure())
            assert place.looks() == after, f"finished after line {line}"
            return was_cut
        place.until_done(place.rollback(place.own_journals()[-1].stem))
        assert place.looks() == before, f"undone after line {line}"
        return was_cut

    assert on_all(places, lines, cut_at) >= lines - 1


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_rollback_cut_off_anywhere_is_whole_after_the_same_command(
    lab: LabHandle, tmp_path: Path, victim: str
) -> None:
    places = [Place(lab, number, tmp_path) for number in range(1, 5)]
    journals = journals_read(victim)

    def configured(place: Place) -> tuple[str, str, list[Path]]:
        """How the host was before, the run that has changed it, and the journals that there are by then."""
        place.reset()
        before = place.looks()
        place.until_done(place.configure())
        return before, place.own_journals()[-1].stem, journals(place)

    _, run, earlier = configured(places[0])
    places[0].until_done(places[0].rollback(run))
    lines = lines_of([path for path in journals(places[0]) if path not in earlier])

    def cut_at(place: Place, line: int) -> bool:
        before, run, earlier = configured(place)
        was_cut = cut(place, place.rollback(run), victim, line, earlier)
        place.until_done(place.rollback(run))
        assert place.looks() == before, f"taken back after line {line}"
        return was_cut

    assert on_all(places, lines, cut_at) >= lines - 1
