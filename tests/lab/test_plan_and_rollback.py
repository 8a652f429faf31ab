"""An operator's way: plan, look at it, apply it, take it back; and what comes in between."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

HOSTS = ("node01", "node02", "node03")
TOUCHED = "/etc/sysctl.conf /etc/sysctl.d /etc/nftables.conf /etc/preflight /etc/hccn.conf"
RESERVED_KEY = "net.ipv4.ip_local_reserved_ports"
RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"


def on(lab: LabHandle, host: str, command: str) -> str:
    done = lab.ssh(host, command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_bytes(lab: LabHandle, host: str, command: str) -> bytes:
    return subprocess.run(lab.ssh_command(host, command), capture_output=True, check=True).stdout


def run(*arguments: str | Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    return preflight(*arguments, check=False, stdin=subprocess.DEVNULL, **options)


def plan(lab: LabHandle, out: Path, *arguments: str) -> dict[str, Any]:
    done = run("plan", "--inventory", lab.inventory, "--out", out, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"next: preflight apply {out}"
    document: dict[str, Any] = json.loads(out.read_text())
    return document


def looks(lab: LabHandle, host: str) -> str:
    """Bytes, mode, owner, attributes of everything that is touched, and what the kernel holds."""
    files = f'find {TOUCHED} -type f 2>/dev/null | sort | xargs sh -c \'stat -c "%n %a %U:%G" "$@"; sha256sum "$@"\' -'
    labels = (
        f"python3 -c 'import os,sys; [print(p, os.listxattr(p)) for p in sys.argv[1:] if os.path.isfile(p)]' {TOUCHED}"
    )
    return on(lab, host, f"{files}; {labels}; cat {RESERVED}; nft list ruleset")


def last_run() -> str:
    listed = json.loads(preflight("history", "-o", "json").stdout)
    return str(listed["runs"][0]["run"])


def history_of(run_id: str) -> Path:
    """What this machine wrote down about a run."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / f"preflight/runs/{run_id}.jsonl"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=3, devices=2, product="atlas-a1")
    for host in HOSTS:
        on(lab, host, "printf '# ours\\nnet.ipv4.ip_local_reserved_ports=40000' >/etc/sysctl.conf")
        on(lab, host, "chmod 640 /etc/sysctl.conf; chown 0:4 /etc/sysctl.conf")
    return lab


@pytest.fixture(scope="module")
def before(lab: LabHandle) -> dict[str, str]:
    return {host: looks(lab, host) for host in HOSTS}


def test_a_plan_changes_nothing_and_only_its_owner_reads_it(
    lab: LabHandle, before: dict[str, str], tmp_path: Path
) -> None:
    document = plan(lab, tmp_path / "plan.json")
    assert document["schema"] == "preflight.plan/1"
    assert {change["host"] for change in document["changes"]} == set(HOSTS)
    assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == 0o600
    assert {host: looks(lab, host) for host in HOSTS} == before


def test_a_plan_of_one_area_has_nothing_else(lab: LabHandle, tmp_path: Path) -> None:
    assert {change["area"] for change in plan(lab, tmp_path / "p.json", "--area", "ports")["changes"]} == {"ports"}


def test_a_stale_plan_is_refused_by_name_and_nothing_is_changed_anywhere(
    lab: LabHandle, before: dict[str, str], tmp_path: Path
) -> None:
    plan(lab, tmp_path / "plan.json")
    on(lab, "node02", f"echo 41000 >{RESERVED}")
    try:
        done = run("apply", tmp_path / "plan.json", "-y")
        assert done.returncode == 1
        assert "is stale. Nothing was changed." in done.stderr
        stale = "expected '' (or '29500,60000-60031' already), found '41000'"
        assert f"node02: net.ipv4.ip_local_reserved_ports: {stale}" in done.stderr
        assert done.stderr.splitlines()[-1].startswith("next: preflight plan --inventory")
    finally:
        on(lab, "node02", f"echo >{RESERVED}")
    assert {host: looks(lab, host) for host in HOSTS} == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a plan: "),
        ("{}", 'not a plan: it has no "schema" of preflight. To write a plan: preflight plan --out plan.json'),
        ('{"schema": "preflight.report/1"}', "this is a report, not a plan. "),
        (
            '{"schema": "preflight.plan/9"}',
            "the schema is 'preflight.plan/9', but this preflight reads preflight.plan/1. To write a plan: ",
        ),
        ('{"schema": "preflight.plan/1"}', 'not a plan: it has no "created"'),
        ("[" * 100000, "not a plan: "),
    ],
)
def test_a_file_that_is_no_plan_contacts_nobody(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    done = run("apply", path, "-y")
    assert done.returncode == 2
    assert says in done.stderr
    assert "no host was contacted" in done.stderr


@pytest.mark.parametrize("path", ["precious.txt", "a-folder", "a-pipe"])
def test_what_is_no_plan_is_not_written_over(lab: LabHandle, tmp_path: Path, path: str) -> None:
    (tmp_path / "precious.txt").write_text("precious\n")
    (tmp_path / "a-folder").mkdir()
    os.mkfifo(tmp_path / "a-pipe")
    done = run("plan", "--inventory", lab.inventory, "--out", tmp_path / path)
    assert done.returncode == 2
    assert f"{path} exists and is not a plan. Choose another file for the plan." in done.stderr
    assert "no host was contacted" in done.stderr
    assert (tmp_path / "precious.txt").read_text() == "precious\n"


def test_an_older_plan_and_an_empty_file_are_written_over(lab: LabHandle, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    out.write_text("")
    out.chmod(0o644)
    first = plan(lab, out, "--area", "ports")
    assert plan(lab, out) != first
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_plan_for_another_cluster_contacts_nobody(lab: LabHandle, tmp_path: Path) -> None:
    document = plan(lab, tmp_path / "plan.json")
    (tmp_path / "plan.json").write_text(json.dumps({**document, "cluster": "elsewhere"}))
    done = run("apply", tmp_path / "plan.json", "-y")
    assert done.returncode == 2
    assert "is for cluster elsewhere" in done.stderr


def test_where_a_journal_cannot_be_written_nothing_is_begun(
    lab: LabHandle, before: dict[str, str], tmp_path: Path
) -> None:
    done = run("configure", "--inventory", lab.inventory, "-y", env={"XDG_STATE_HOME": "/proc"})
    assert done.returncode == 2
    assert "cannot write the journal /proc/preflight/runs" in done.stderr
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", tmp_path], check=True)
    try:
        done = run("configure", "--inventory", lab.inventory, "-y", env={"XDG_STATE_HOME": str(tmp_path)})
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert done.returncode == 2
    assert "/preflight/runs: No space left on device" in done.stderr
    assert done.stderr.splitlines()[-1] == "preflight: no host was contacted."
    on(lab, "node01", "touch /var/lib/preflight")
    try:
        done = run("configure-ports", "--inventory", lab.inventory, "-y", "--limit", "node01")
        assert done.returncode == 1
        assert "/var/lib/preflight" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
    finally:
        on(lab, "node01", "rm /var/lib/preflight")
    assert looks(lab, "node01") == before["node01"]


def test_a_full_disk_leaves_every_file_whole(lab: LabHandle, before: dict[str, str]) -> None:
    """The new file's place is full; /etc/sysctl.conf, which comes first, is changed and taken back by hand."""
    on(lab, "node01", "mkdir -p /etc/preflight; mount -t tmpfs -o size=4k none /etc/preflight; "
                      "head -c 4096 /dev/zero >/etc/preflight/full || true")  # fmt: skip
    try:
        done = run("configure-firewall", "--inventory", lab.inventory, "-y", "--limit", "node01")
        assert done.returncode == 1
        said = " ".join(done.stdout.split())
        assert "/etc/preflight/nftables.nft cannot be written: No space left on device" in said
        assert on(lab, "node01", "ls -A /etc/preflight").split() == ["full"]
    finally:
        on(lab, "node01", "umount /etc/preflight; rmdir /etc/preflight")
    assert run("rollback", last_run(), "-y").returncode == 0
    assert looks(lab, "node01") == before["node01"]


def test_a_read_only_etc_ends_in_a_sentence_and_the_canary_spares_the_others(
    lab: LabHandle, before: dict[str, str]
) -> None:
    on(lab, "node01", "mount --bind /etc /etc && mount -o remount,bind,ro /etc")
    try:
        done = run("configure-ports", "--inventory", lab.inventory, "-y", "--canary", "1")
        said = " ".join(done.stdout.split())
        assert done.returncode == 1
        assert "cannot be written: Read-only file system" in said
        assert "node[02-03]" in said
        assert "not started: the canary node01 failed" in said
    finally:
        on(lab, "node01", "umount /etc")
    assert {host: looks(lab, host) for host in HOSTS} == before


def test_a_machine_with_two_names_is_refused(lab: LabHandle, tmp_path: Path, before: dict[str, str]) -> None:
    text = lab.inventory.read_text()
    twice = tmp_path / "hosts.toml"
    for name in ("id_ed25519", "known_hosts"):
        (tmp_path / name).symlink_to(lab.dir / name)
    address = lab.addresses["node01"]
    twice.write_text(f'{text}\n[[hosts]]\nname = "other"\naddress = "localhost"\n'.replace("localhost", address))
    done = run("configure-ports", "--inventory", twice, "-y")
    if done.returncode == 2:  # the inventory itself finds the address twice
        (lab.dir / "again").write_text(address)
        twice.write_text(f'{text}\n[[hosts]]\nname = "other"\naddress = "{alias(address)}"\n')
        done = run("configure-ports", "--inventory", twice, "-y", "--accept-new")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "node01 and other are the same machine: host name node01, machine id" in done.stderr
    assert looks(lab, "node01") == before["node01"]


def alias(address: str) -> str:
    """The same IPv4 address, written as IPv6 would map it."""
    return f"::ffff:{address}"


def test_a_run_that_is_at_work_is_left_to_it_and_its_owner_named(lab: LabHandle) -> None:
    """Two operators at once: the lock is the kernel's, and the name in it is for people."""
    hold = "printf 'ann@login1, run 7' >/run/preflight.lock; exec flock /run/preflight.lock sleep 30"
    holder = subprocess.Popen(lab.ssh_command("node01", hold), stdout=subprocess.DEVNULL)
    try:
        while "0" in on(lab, "node01", "flock -n /run/preflight.lock true && echo 0 || echo 1"):
            pass
        done = run("configure-ports", "--inventory", lab.inventory, "-y", "--limit", "node01")
        assert done.returncode == 1
        said = " ".join(done.stdout.split())
        assert "another run is active on this host (ann@login1, run 7). Wait until it ends" in said
        assert_left_to_ann(done)
    finally:
        holder.kill()
        holder.wait()
        on(lab, "node01", "pkill -x sleep || true")


def assert_left_to_ann(done: "subprocess.CompletedProcess[str]") -> None:
    """What the other run has done meanwhile is not called fixed, nor is that run called cut off."""
    said = " ".join(done.stdout.split())
    assert done.returncode == 1
    assert "another run (ann@login1, run 7) is changing node01" in said
    assert "fixed" not in said
    assert "cut off" not in said
    assert done.stdout.splitlines()[-1].startswith("next: wait for the other run to end, then run: preflight ")


def test_a_run_that_is_at_work_when_another_one_looks_is_left_to_it(lab: LabHandle) -> None:
    """Its journal is open then; no line is added to it."""
    on(lab, "node01", "mkdir -p /var/lib/preflight/journal")
    journal = "/var/lib/preflight/journal/7.jsonl"
    hold = (
        "printf 'ann@login1, run 7' >/run/preflight.lock; ln -s 7 /var/lib/preflight/journal/open; "
        f'echo \'{{"event": "start", "owner": "ann@login1"}}\' >{journal}; '
        "exec 9<>/run/preflight.lock; flock 9; echo $$; exec sleep 60"
    )
    holder = subprocess.Popen(lab.ssh_command("node01", hold), stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout
        pid = int(holder.stdout.readline())
        soon = ("-y", "--limit", "node01", "--confirm-within", "2")
        assert_left_to_ann(run("configure-ports", "--inventory", lab.inventory, *soon))
        assert_left_to_ann(run("rollback", "7", "--inventory", lab.inventory, *soon))
        for looking in (("plan",), ("configure", "--dry-run")):
            said = " ".join(run(*looking, "--inventory", lab.inventory, "--limit", "node01").stdout.split())
            assert "node01: left out, since another run is active there (ann@login1, run 7)" in said
        assert len(on(lab, "node01", f"cat {journal}").splitlines()) == 1
    finally:
        holder.kill()
        holder.wait()
        on(lab, "node01", f"kill {pid}; rm /var/lib/preflight/journal/open")


def test_what_is_planned_is_what_is_done(lab: LabHandle, tmp_path: Path) -> None:
    document = plan(lab, tmp_path / "plan.json")
    done = run("apply", tmp_path / "plan.json", "-y", "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    applied = json.loads(done.stdout)
    again = run("apply", tmp_path / "plan.json", "-y")
    assert again.returncode == 0
    assert "to undo: " not in again.stdout
    shown, told, _ = again.stdout.partition(f"{len(document['changes'])} changes already in place")
    assert told
    written = [change["after"] for change in document["changes"] if change["kind"] == "file" and change["after"]]
    assert len(written) >= 4
    lines = {line.strip() for line in shown.splitlines()}
    for text in written:  # the whole text, also of lines that stay
        assert {line.replace("\t", " ").strip().lstrip("+") for line in text.splitlines()} <= {
            line.lstrip("+") for line in lines
        }
    listed = run("history", "-n", "2").stdout
    count = len(document["changes"])
    assert f"nothing changed ({count} already in place)" in listed
    assert f"{count} of {count} changes\n" in listed
    assert listed.splitlines()[-1] == f"next: preflight history {last_run()}"
    idle = last_run()
    assert "nothing to undo" in run("rollback", idle, "-y").stdout
    assert last_run() == idle, "a rollback that had nothing to do is no run"
    history_of(idle).unlink()  # for the tests that follow
    assert applied["schema"] == "preflight.run/1"
    wanted = [(change["host"], change["kind"], change["target"], change["after"]) for change in document["changes"]]
    assert [(c["host"], c["kind"], c["target"], c["after"]) for c in applied["changes"]] == wanted
    assert {change["state"] for change in applied["changes"]} == {"done"}
    assert last_run() == applied["run"]


def test_a_second_time_there_is_nothing_to_do_and_nothing_is_written(lab: LabHandle) -> None:
    def written(host: str) -> str:
        return on(lab, host, f"find {TOUCHED} /var/lib/preflight -exec stat -c '%n %i %Y %Z' {{}} +")

    were = {host: written(host) for host in HOSTS}
    runs = preflight("history", "-o", "json").stdout
    done = run("configure", "--inventory", lab.inventory, "-y")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0] == "nothing to change"
    assert run("plan", "--inventory", lab.inventory).stdout.splitlines() == [
        "nothing to change",
        "no host was changed",
        f"next: preflight check --inventory {lab.inventory}",
    ]
    assert {host: written(host) for host in HOSTS} == were
    assert preflight("history", "-o", "json").stdout == runs


def test_history_lists_the_run_and_shows_it() -> None:
    run_id = last_run()
    listed = run("history").stdout
    assert run_id in listed
    assert "changes" in listed
    shown = run("history", run_id).stdout
    assert "/etc/sysctl.conf" in shown or "99-sysctl.conf" in shown
    assert f"to undo: preflight rollback {run_id}" in shown.splitlines()
    assert run("history", "nonsense").returncode == 2


def test_a_rollback_brings_every_file_back_and_says_what_devices_keep(lab: LabHandle, before: dict[str, str]) -> None:
    run_id = last_run()
    done = run("rollback", run_id, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "node[01-03]: devices 0-1 keep 192.168.100.11/24 … 192.168.101.15/24," in done.stdout
    assert looks(lab, "node01") != before["node01"]
    done = run("rollback", run_id, "-y")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {host: looks(lab, host) for host in HOSTS} == before
    assert "until reboot" in done.stdout


def test_a_rollback_leaves_alone_what_somebody_changed_since(lab: LabHandle) -> None:
    done = run("configure", "--inventory", lab.inventory, "-y", "--limit", "node01")
    assert done.returncode in (0, 1), done.stderr
    on(lab, "node01", "echo '# mine now' >>/etc/sysctl.conf")
    mine = on(lab, "node01", "cat /etc/sysctl.conf")
    run_id = last_run()
    done = run("rollback", run_id, "-y")
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "changed in the meantime; expected (-) and found (+): -net.ipv4" in said
    assert "60031# mine now" in said, "the file had no newline at its end"
    assert f"Their old values are on the host in /var/lib/preflight/journal/{run_id}.jsonl" in said
    assert on(lab, "node01", "cat /etc/sysctl.conf") == mine
    assert on(lab, "node01", f"cat {RESERVED}") == "\n", "the rest is taken back all the same"
    assert "preflight" not in on(lab, "node01", "nft list ruleset; cat /etc/nftables.conf; ls /etc")
    on(lab, "node01", "sed -i 's/# mine now/\\n&/' /etc/sysctl.conf")  # the kernel refuses the line as it was


def test_a_run_from_elsewhere_is_taken_back_from_the_hosts_journals(lab: LabHandle, tmp_path: Path) -> None:
    elsewhere = {"XDG_STATE_HOME": str(tmp_path)}
    done = run("configure-ports", "--inventory", lab.inventory, "-y", "--limit", "node03")
    assert done.returncode == 0
    run_id = last_run()
    done = run("rollback", run_id, "-y", env=elsewhere)
    assert done.returncode == 2
    assert "add --inventory" in done.stderr
    done = run("rollback", run_id, "-y", "--inventory", lab.inventory, env=elsewhere)
    assert done.returncode == 0, done.stderr
    assert f"run {run_id} did not change node01, node02" in " ".join(done.stdout.split())
    assert on(lab, "node03", f"cat {RESERVED}") == "\n"


def test_a_busy_device_in_a_plan_is_left_alone_and_its_process_named(lab: LabHandle, tmp_path: Path) -> None:
    on(lab, "node02", "hccn_tool -i 1 -netdetect -s address 192.168.101.99")
    document = plan(lab, tmp_path / "plan.json", "--area", "device-ips")
    assert ("node02", "1") in {(change["host"], change["target"]) for change in document["changes"]}
    hold = (
        "mkdir -p /run/preflight-lab/process/1; exec 9>/run/preflight-lab/process/1/$$; flock 9; echo $$; exec sleep 60"
    )
    job = subprocess.Popen(lab.ssh_command("node02", hold), stdout=subprocess.PIPE, text=True)
    try:
        assert job.stdout
        pid = job.stdout.readline().strip()
        done = run("apply", tmp_path / "plan.json", "-y")
        said = " ".join(done.stdout.split())
        assert f"node02: device 1 is left out: process sleep (pid {pid}" in said
        assert "192.168.101.99" in on(lab, "node02", "hccn_tool -i 1 -netdetect -g")
        done = run("apply", tmp_path / "plan.json", "-y", "--force-busy")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "192.168.101.1\n" in on(lab, "node02", "hccn_tool -i 1 -netdetect -g")
    finally:
        job.kill()
        job.wait()


def test_a_rollback_that_leaves_a_host_out_is_no_success_and_not_called_one(lab: LabHandle, tmp_path: Path) -> None:
    done = run("configure-ports", "--inventory", lab.inventory, "-y", "--limit", "node01,node03")
    assert done.returncode == 0, done.stdout
    run_id = last_run()
    fewer = tmp_path / "hosts.toml"
    text = lab.inventory.read_text().replace("node[01-03]", "node[01-02]")
    fewer.write_text(re.sub(r"(address = .*-)(\d+)\]", lambda found: f"{found[1]}{int(found[2]) - 1}]", text))
    for name in ("id_ed25519", "known_hosts"):
        (tmp_path / name).symlink_to(lab.dir / name)
    done = run("rollback", run_id, "-y", "--inventory", fewer)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "node03: no longer in the inventory, so its changes stay" in done.stdout
    assert "; rolled back" not in run("history", "-n", "2").stdout
    done = run("rollback", run_id, "-y", "--inventory", lab.inventory)
    assert done.returncode == 0, done.stdout + done.stderr
    assert on(lab, "node03", f"cat {RESERVED}") == "\n"
    (line,) = [line for line in run("history", "-n", "4").stdout.splitlines() if line.startswith(run_id)]
    assert line.endswith("; rolled back")


def test_a_run_whose_journals_were_deleted_is_not_said_to_be_taken_back(lab: LabHandle) -> None:
    done = run("configure-ports", "--inventory", lab.inventory, "-y", "--limit", "node03")
    assert done.returncode == 0, done.stdout
    run_id = last_run()
    on(lab, "node03", f"mkdir /tmp/kept; mv /var/lib/preflight/journal/{run_id}.* /tmp/kept")
    shown = run("rollback", run_id, "--dry-run")
    assert shown.returncode == 3
    done = run("rollback", run_id, "-y")
    assert done.returncode == 1
    gone = f"node03: /var/lib/preflight/journal/{run_id}.jsonl is missing. Not undone: "
    for text in (" ".join(shown.stdout.split()), " ".join(done.stdout.split())):
        assert gone in text
        assert RESERVED_KEY in text.partition(gone)[2].partition("!")[0]
    assert f"{run_id}.jsonl on this machine." in " ".join(done.stdout.split())
    assert "; rolled back" not in run("history", "-n", "2").stdout
    on(lab, "node03", "mv /tmp/kept/* /var/lib/preflight/journal")
    assert run("rollback", run_id, "-y").returncode == 0
    assert on(lab, "node03", f"cat {RESERVED}") == "\n"


def test_a_host_without_a_journal_is_named_though_the_others_are_taken_back(lab: LabHandle) -> None:
    done = run("configure-ports", "--inventory", lab.inventory, "-y")
    assert done.returncode == 0, done.stdout
    run_id = last_run()
    on(lab, "node02", "mv /var/lib/preflight /var/lib/away")
    done = run("rollback", run_id, "-y")
    assert done.returncode == 1
    assert f"node02: /var/lib/preflight/journal/{run_id}.jsonl is missing" in " ".join(done.stdout.split())
    assert [on(lab, host, f"cat {RESERVED}") for host in ("node01", "node03")] == ["\n", "\n"]
    assert on(lab, "node02", f"cat {RESERVED}") != "\n"
    assert "; rolled back" not in run("history", "-n", "2").stdout
    on(lab, "node02", "rm -rf /var/lib/preflight; mv /var/lib/away /var/lib/preflight")
    assert run("rollback", run_id, "-y").returncode == 0
    assert on(lab, "node02", f"cat {RESERVED}") == "\n"


def test_a_damaged_line_in_a_journal_hides_no_step_in_silence(lab: LabHandle) -> None:
    done = run("configure-ports", "--inventory", lab.inventory, "-y", "--limit", "node01")
    assert done.returncode == 0, done.stdout
    run_id, journals = last_run(), "/var/lib/preflight/journal"
    on(lab, "node01", f"printf '\\377\\n' > {journals}/00-other.jsonl")  # of another run: no step of this one
    on(lab, "node01", f"cp {journals}/{run_id}.jsonl /tmp/whole; "
                      f"sed -i '/begin/s/{RESERVED_KEY}/\\xff/' {journals}/{run_id}.jsonl")  # fmt: skip
    assert b"\xff" in on_bytes(lab, "node01", f"cat {journals}/{run_id}.jsonl")
    done = run("rollback", run_id, "-y")
    assert done.returncode == 1, done.stdout
    told = " ".join(done.stdout.split())
    assert f"node01: {journals}/{run_id}.jsonl has unreadable lines. Not undone: " in told
    assert on(lab, "node01", f"cat {RESERVED}") != "\n"
    on(lab, "node01", f"cp /tmp/whole {journals}/{run_id}.jsonl")
    assert run("rollback", run_id, "-y").returncode == 0
    assert on(lab, "node01", f"cat {RESERVED}") == "\n"
    on(lab, "node01", f"rm {journals}/00-other.jsonl")


def test_a_run_that_no_host_knows_is_most_likely_a_slip(lab: LabHandle) -> None:
    done = run("rollback", "20200101-000000-abcd", "-y", "--inventory", lab.inventory)
    assert done.returncode == 1
    assert "run 20200101-000000-abcd did not change node01, node02, node03" in done.stdout


def test_a_host_whose_disk_fills_up_is_taken_back_once_there_is_room(lab: LabHandle) -> None:
    """hccn_tool rewrites its file with every step: what the last one left there, no line tells."""
    journals, look = "/var/lib/preflight", "cat /etc/hccn.conf /proc/sys/net/ipv4/ip_local_reserved_ports"
    cut_at = []
    for padding in (1, 150, 300):  # so that the journal's page is full at another place
        for device, subnet in enumerate(("192.168.100", "192.168.101")):
            on(lab, "node02", f"hccn_tool -i {device} -ip -s address {subnet}.81 netmask 255.255.255.0; "
                              f"hccn_tool -i {device} -gateway -s gateway {subnet}.9; "
                              f"hccn_tool -i {device} -netdetect -s address {subnet}.9")  # fmt: skip
        on(
            lab,
            "node02",
            f"printf '# {'-' * padding}\n{RESERVED_KEY}=40000\n' >/etc/sysctl.conf; echo 40000 >{RESERVED}",
        )
        before = on(lab, "node02", look)
        on(lab, "node02", f"mkdir -p {journals}; mount -t tmpfs -o size=4k none {journals}")
        try:
            done = run("configure", "--inventory", lab.inventory, "-y", "--limit", "node02")
            assert done.returncode == 1
            assert ".jsonl cannot be written: " in " ".join(done.stdout.split())
            assert on(lab, "node02", look) != before
            cut_at.append(on(lab, "node02", f"tail -n 1 {journals}/journal/*.jsonl"))
            run_id = last_run()
            assert run("rollback", run_id, "-y").returncode == 1, "there is still no room"
            on(lab, "node02", f"mount -o remount,size=1m {journals}")
            done = run("rollback", run_id, "-y")
            assert done.returncode == 0, done.stdout + done.stderr
            assert on(lab, "node02", look) == before
        finally:
            on(lab, "node02", f"umount {journals}")
    ends = [line for line in cut_at if line.startswith('{"area": "device-ips", "event": "end"')]
    assert ends, "none of them was cut between a step and its end"


def test_a_rollback_that_was_cut_off_goes_on(lab: LabHandle) -> None:
    """Its first steps have made hccn_tool rewrite a file, which is no reason to call that somebody else's change."""
    conf = "/etc/hccn.conf"
    on(lab, "node03", "hccn_tool -i 0 -ip -s address 192.168.100.91 netmask 255.255.255.0")
    on(lab, "node03", "hccn_tool -i 1 -ip -s address 192.168.101.91 netmask 255.255.255.0")
    before = on(lab, "node03", f"cat {conf}")
    done = run("configure-device-ips", "--inventory", lab.inventory, "-y", "--limit", "node03")
    assert done.returncode == 0, done.stdout + done.stderr
    assert on(lab, "node03", f"cat {conf}") != before
    run_id, root = last_run(), Path(f"/proc/{lab.status['hosts'][2]['pid']}/root")
    journals = root / "var/lib/preflight/journal"
    known = set(journals.glob("*.jsonl"))
    process = subprocess.Popen(
        [sys.executable, "-m", "preflight", "rollback", run_id, "-y"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    while not any(b'"end"' in path.read_bytes() for path in set(journals.glob("*.jsonl")) - known):
        assert process.poll() is None
    process.kill()
    process.wait()
    done = run("rollback", run_id, "-y")
    assert done.returncode == 0, done.stdout + done.stderr
    assert on(lab, "node03", f"cat {conf}") == before
