"""A whole system that really reboots: what preflight keeps is there afterwards, and what it does not keep is gone."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from preflight.lab import kernel
from tests.lab.booted import BootedHost, booted_host, lab_host, whole_system
from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

JOB_PORT = 29500
RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
LISTEN = f"import socket; s = socket.create_server(('', {JOB_PORT})); s.accept()"
CONNECT = "import socket; socket.create_connection(('{address}', {port}), 1)"


def run(lab: LabHandle, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return preflight(*arguments, "--inventory", lab.inventory, check=False, stdin=subprocess.DEVNULL)


def judged(lab: LabHandle, *checks: str) -> "subprocess.CompletedProcess[str]":
    return run(lab, "check", "--no-probe", *(word for check in checks for word in ("--only", check)))


def reserved(host: BootedHost) -> str:
    return host.place.run("cat", RESERVED).strip()


def boot_id(host: BootedHost) -> str:
    return host.place.run("cat", "/proc/sys/kernel/random/boot_id")


def etc(host: BootedHost) -> dict[str, tuple[bytes, int, int, int]]:
    """Every file in the host's /etc: bytes, mode, owner, group."""
    files = (path for path in (host.place.root / "etc").rglob("*") if path.is_file() and not path.is_symlink())
    looks = ((path, path.stat()) for path in files)
    return {
        str(path.relative_to(host.place.root)): (path.read_bytes(), look.st_mode, look.st_uid, look.st_gid)
        for path, look in looks
    }


def run_id(done: "subprocess.CompletedProcess[str]") -> str:
    match = re.search(r"^run (\S+);", done.stdout, re.MULTILINE)
    assert match, done.stdout
    return match[1]


def lets_in(lab: LabHandle, host: BootedHost) -> bool:
    """Whether the other host reaches a job's port on this one: by a connection, not by what a rule says."""
    host.place.run("systemd-run", "--quiet", "--collect", "--unit=job", "python3", "-c", LISTEN)
    host.place.run("sh", "-c", f"until ss -Htln 'sport = {JOB_PORT}' | grep -q .; do sleep 0.02; done")
    try:
        connect = CONNECT.format(address=lab.addresses[host.place.name], port=JOB_PORT)
        return lab.ssh("node02", f'python3 -c "{connect}"').returncode == 0
    finally:
        host.place.run("sh", "-c", "systemctl stop job 2> /dev/null || true")  # it may have ended with the connection


@pytest.mark.parametrize("firewall", ["nftables", "ufw", "firewalld", "iptables"])
def test_what_was_configured_outlives_a_reboot_and_can_still_be_taken_back(make_lab: MakeLab, firewall: str) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall=firewall)
    with whole_system(lab, "node01") as host:
        assert not lets_in(lab, host)
        fresh, first_boot = etc(host), boot_id(host)
        done = run(lab, "configure", "-y")
        assert done.returncode == 0, done.stdout + done.stderr

        host.reboot()
        assert boot_id(host) != first_boot
        assert reserved(host) == str(JOB_PORT)
        looked = judged(lab, "PRT101", "PRT102", "FWL101", "FWL102")
        assert looked.returncode == 0, looked.stdout + looked.stderr
        assert lets_in(lab, host)

        undone = run(lab, "rollback", run_id(done), "-y", "--allow-disturbing")
        assert undone.returncode == 0, undone.stdout + undone.stderr
        assert etc(host) == fresh
        host.reboot()
        assert reserved(host) == ""
        assert not lets_in(lab, host)


def test_what_is_temporary_is_gone_after_a_reboot(make_lab: MakeLab) -> None:
    """It also shows that a reboot here does take what the kernel holds: no test of this file could fail otherwise."""
    lab = make_lab(hosts=2, devices=0, product="cpu")
    with whole_system(lab, "node01") as host:
        done = run(lab, "configure-ports", "--temporary", "-y")
        assert done.returncode == 0, done.stdout + done.stderr
        assert reserved(host) == str(JOB_PORT)

        host.reboot()
        assert reserved(host) == ""
        done = judged(lab, "PRT101")
        assert done.returncode == 1
        assert "node01: " in done.stdout and "node02: " not in done.stdout, "node02 was not rebooted"


# ---- firewalld, as a service


def test_what_firewalld_has_been_told_outlives_what_an_administrator_tells_it(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="firewalld")
    with whole_system(lab, "node01") as host:
        fresh = etc(host)
        done = run(lab, "configure-firewall", "-y")
        assert done.returncode == 0, done.stdout + done.stderr
        host.place.run("firewall-cmd", "--permanent", "--add-port=1234/tcp")
        host.place.run("firewall-cmd", "--reload")
        assert lets_in(lab, host)
        host.reboot()
        assert lets_in(lab, host)
        looked = judged(lab, "FWL101", "FWL102", "FWL103")
        assert looked.returncode == 0, looked.stdout + looked.stderr
        # Ours is taken back, theirs stays; and so it is after the next boot.
        undone = run(lab, "rollback", run_id(done), "-y")
        assert undone.returncode == 0, undone.stdout + undone.stderr
        assert not lets_in(lab, host)
        host.reboot()
        assert not lets_in(lab, host)
        assert host.place.run("firewall-cmd", "--list-ports").strip() == "1234/tcp"
        assert {path for path, look in etc(host).items() if fresh.get(path) != look} == {
            "etc/firewalld/zones/public.xml", "etc/firewalld/zones/public.xml.old"
        }  # fmt: skip


def test_what_is_permanent_is_taken_back_where_firewalld_has_been_stopped(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="firewalld")
    with whole_system(lab, "node01") as host:
        fresh = etc(host)
        done = run(lab, "configure-firewall", "-y")
        assert done.returncode == 0, done.stdout + done.stderr
        host.place.run("systemctl", "stop", "firewalld")
        undone = run(lab, "rollback", run_id(done), "-y")
        assert undone.returncode == 0, undone.stdout + undone.stderr
        assert etc(host) == fresh
        host.place.run("systemctl", "start", "firewalld")
        assert not lets_in(lab, host)


@pytest.fixture(scope="module")
def unwanted(make_lab: MakeLab) -> Iterator[tuple[LabHandle, BootedHost]]:
    """A host whose firewalld its inventory does not want. (The other one has no systemd to stop it with.)"""
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="firewalld")
    set_in(lab.inventory, 'policy = "allow"', 'policy = "off"')
    with whole_system(lab, "node01") as host:
        yield lab, host


OFF = ("configure-firewall", "-y", "--allow-disturbing", "--limit", "node01")


def set_in(inventory: Path, old: str, new: str) -> None:
    text = inventory.read_text()
    assert old in text
    inventory.write_text(text.replace(old, new))


def firewalld(host: BootedHost) -> str:
    """What systemd says: active or inactive, enabled or disabled."""
    said = (host.place.run("sh", "-c", f"systemctl {word} firewalld || true").strip() for word in ASKED)
    return " ".join(said)


ASKED = ("is-active", "is-enabled")


def test_firewalld_is_started_again_where_nobody_confirms_that_it_is_off(
    unwanted: tuple[LabHandle, BootedHost],
) -> None:
    lab, host = unwanted
    journal = host.place.directory / "files/var/lib/preflight/journal"
    with started(lab, *OFF, "--confirm-within", "2") as process:
        wait_for('"event": "end".*"phase": "guarded"', journal, process)
        process.kill()
    assert firewalld(host) == "inactive enabled"
    kernel.wait_until(lambda: firewalld(host) == "active enabled", 30, "firewalld is not started again")


def test_firewalld_is_stopped_and_started_again_by_a_rollback(unwanted: tuple[LabHandle, BootedHost]) -> None:
    lab, host = unwanted
    zone = host.place.run("firewall-cmd", "--list-all")
    done = run(lab, *OFF)
    assert done.returncode == 0, done.stdout + done.stderr
    assert firewalld(host) == "inactive enabled"
    assert lets_in(lab, host)
    done = run(lab, "rollback", run_id(done), "-y", "--allow-disturbing", "--limit", "node01")
    assert done.returncode == 0, done.stdout + done.stderr
    assert firewalld(host) == "active enabled"
    assert host.place.run("firewall-cmd", "--list-all") == zone


def test_firewalld_that_is_only_stopped_is_back_after_a_reboot(unwanted: tuple[LabHandle, BootedHost]) -> None:
    lab, host = unwanted
    assert run(lab, *OFF).returncode == 0
    host.reboot()
    assert firewalld(host) == "active enabled"
    set_in(lab.inventory, 'policy = "off"', 'policy = "off"\ndisable_at_boot = true')
    assert run(lab, *OFF).returncode == 0
    host.reboot()
    assert firewalld(host) == "inactive disabled"


# ---- the two ways back


def guardians(host: BootedHost) -> list[int]:
    """The processes that hold the host's lock."""
    lock = host.place.root / "run/preflight.lock"
    return [process.pid for process in kernel.processes_in([host.place.netns]) if holds(process.pid, lock)]


def holds(pid: int, path: Path) -> bool:
    try:
        return any(os.path.samestat(file.stat(), path.stat()) for file in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def test_the_timer_and_the_guardian_each_take_the_changes_back_alone(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="nftables")
    with whole_system(lab, "node01") as host:
        before = host.place.run("nft", "list", "ruleset")
        for end in (kill_guardian, stop_timer):
            journal = host.place.directory / "files/var/lib/preflight/journal"
            earlier = set(journal.glob("*.jsonl"))
            arguments = ("configure-firewall", "-y", "--limit", "node01", "--confirm-within", "2")
            with started(lab, *arguments) as process:
                wait_for('"event": "end".*"phase": "guarded"', journal, process, earlier)
                process.kill()
                end(host)
            assert "preflight" in host.place.run("nft", "list", "ruleset")
            kernel.wait_until(lambda: host.place.run("nft", "list", "ruleset") == before, 90, end.__name__)
            kernel.wait_until(lambda: not guardians(host), 10, "the host's lock is still held")
            assert "preflight-guard-" not in host.place.run("systemctl", "list-timers", "--all")


def kill_guardian(host: BootedHost) -> None:
    """Kill the guardian, and the program where it has not ended yet."""
    killed = guardians(host)
    assert len(killed) in (1, 2)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert "preflight-guard-" in host.place.run("systemctl", "list-timers", "--all")


def stop_timer(host: BootedHost) -> None:
    host.place.run("sh", "-c", "systemctl stop 'preflight-guard-*.timer'")
    assert "preflight-guard-" not in host.place.run("systemctl", "list-timers", "--all")
    assert guardians(host)


def test_a_confirmation_cancels_the_timer(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="nftables")
    with whole_system(lab, "node01") as host:
        done = run(lab, "configure-firewall", "-y")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "preflight-guard-" not in host.place.run("systemctl", "list-units", "--all")
        assert [path.name for path in (host.place.root / "run/preflight").iterdir()] == [f"{run_id(done)}.verdict"]


# ---- a host that goes down while it is being changed

WRITTEN = ("etc/sysctl.d/90-preflight.conf", "etc/preflight/nftables.nft", "etc/nftables.conf")


def texts(root: Path) -> list[bytes | None]:
    return [path.read_bytes() if (path := root / name).exists() else None for name in WRITTEN]


CUT_OFF = "Changes made before that are in"


@pytest.mark.parametrize(
    ("moment", "sentence"),
    [
        pytest.param('"event": "begin".*"phase": "plain"', CUT_OFF, id="a file is written"),
        pytest.param(
            '"event": "begin".*"phase": "guarded"', f"{CUT_OFF}|or the host restarted", id="the firewall changes"
        ),
        pytest.param('"event": "confirmed"', "FAIL FWL101", id="the firewall is made permanent"),
    ],
)
def test_a_host_that_is_reset_in_the_middle_is_finished_by_the_next_run(
    make_lab: MakeLab, moment: str, sentence: str
) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="nftables")
    with whole_system(lab, "node01") as host:
        files = host.place.directory / "files"
        before = texts(files)
        with started(lab, "configure", "-y") as process:
            wait_for(moment, files / "var/lib/preflight/journal", process)
            host.pull_the_plug()
            left = texts(files)
            host.boot()  # fails where a unit does, such as a firewall that does not load
            said = " ".join(process.communicate(timeout=120)[0].split())
        wanted = texts(lab_host(lab, "node02").root)
        assert None not in wanted, "the other host was not held up"
        assert all(text in ends for text, *ends in zip(left, before, wanted, strict=True)), "whole or not at all"
        cut_off = left != wanted  # else the next boot had all it needed
        assert process.returncode == int(cut_off), said
        assert len(re.findall(sentence, said)) == int(cut_off), said

        done = run(lab, "configure", "-y")
        assert done.returncode == 0, done.stdout + done.stderr
        assert texts(files) == wanted
        assert not list(files.glob("etc/**/.preflight-*")), "nothing half written is left"


def started(lab: LabHandle, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "preflight", *arguments, "--inventory", str(lab.inventory)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe, nothing, both = subprocess.PIPE, subprocess.DEVNULL, subprocess.STDOUT
    return subprocess.Popen(command, stdin=nothing, stdout=pipe, stderr=both, text=True, env=environment)


def wait_for(pattern: str, journal: Path, process: "subprocess.Popen[str]", earlier: Collection[Path] = ()) -> None:
    """Wait until a line of the host's journal, seen from outside, matches; `earlier` are those of other runs."""
    while not any(re.search(pattern, path.read_text()) for path in {*journal.glob("*.jsonl")}.difference(earlier)):
        assert process.poll() is None, f"it ended before {pattern}: {process.communicate()[0]}"


# ---- the host itself

BOOT_AND_WAIT = """
from pathlib import Path
from tests.lab.booted import whole_system
from tests.lab.conftest import LabHandle
with whole_system(LabHandle(Path({directory!r})), "node01"):
    print("up", flush=True)
    input()
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=lambda end: end.name)
def test_no_host_outlives_its_test(make_lab: MakeLab, end: signal.Signals) -> None:
    lab = make_lab(hosts=1, devices=0, product="cpu", firewall="none")
    netns = lab_host(lab, "node01").netns
    before = traces()
    program = BOOT_AND_WAIT.format(directory=str(lab.dir))
    command = [sys.executable, "-c", program]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=nothing) as test:
        assert test.stdout and test.stdout.readline() == b"up\n"
        assert kernel.processes_in([netns]) and traces() != before
        test.send_signal(end)
    kernel.wait_until(lambda: not kernel.processes_in([netns]), 10, "the host is still there")
    if end == signal.SIGKILL:  # control groups are nobody's; they are empty
        booted_host(lab, "node01").pull_the_plug()
    assert traces() == before


def traces() -> list[str]:
    """What a host could leave on the machine: control groups, mounts, the books of systemd-nspawn."""
    groups = Path("/sys/fs/cgroup").glob("**/*preflight*")
    books = Path("/run/systemd").glob("nspawn/**/*")
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if line.startswith("overlay")]
    return sorted([*map(str, groups), *map(str, books), *mounts])
