"""A real Slurm whose gate is broken in itself: no node is drained, and what removes the gate refuses while Slurm starts
it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.lab.conftest import MakeLab, preflight
from tests.lab.slurm_cluster import CONF, GATE, HEAD, NODES, PROGRAM, SlurmCluster, running

pytestmark = pytest.mark.lab

ROLES = ("Prolog", "Epilog", "TaskProlog", "PrologSlurmctld", "HealthCheckProgram")
WORD = "preflight-gate: closed"
# What becomes of the program, as a command on its host; `$P` is the program.
BROKEN = {
    "deleted": "rm $P",
    "mode 644": "chmod 644 $P",
    "a syntax error": "echo 'def (' >> $P",
    "cut in half": "truncate -s $(($(stat -c %s $P) / 2)) $P",
    "empty": "truncate -s 0 $P",
    "its interpreter is gone": "sed -i '1s,.*,#!/no/such/python3 -IS,' $P",
    "a directory": "rm $P && mkdir $P",
    "killed": "printf '#!/bin/sh\\nkill -9 $$\\n' > $P",
    "an endless loop": "printf '#!/usr/bin/python3\\nwhile True: pass\\n' > $P",
    "the word with exit code 0": f"printf '#!/bin/sh\\necho {WORD}\\n' > $P",
    "the exit code without the word": "printf '#!/bin/sh\\necho closed\\nexit 1\\n' > $P",
    "a full disk": "rm $P && mount -t tmpfs -o size=4k none /var/lib/preflight && "
    "{ cat /dev/zero > /var/lib/preflight/gate.jsonl || :; } 2>/dev/null",
}


@pytest.fixture(scope="module")
def slurm(make_lab: MakeLab) -> Iterator[SlurmCluster]:
    lab = make_lab(hosts=5, devices=1, firewall="none")
    scripts = "\n".join(f"{role}={GATE}" for role in ROLES)
    with running(lab, f"{scripts}\nHealthCheckInterval=2\nHealthCheckNodeState=IDLE") as slurm:
        # The controller's share of an endless loop is to be waited for, but not for 105 s.
        slurm.put(HEAD, "/etc/preflight/controller.json", '{"seconds": 10}')
        for host in (*NODES, HEAD):
            slurm.lab.ssh(host, f"cp -p {PROGRAM} /root/kept")
        yield slurm


def whole(slurm: SlurmCluster, host: str) -> None:
    slurm.lab.ssh(host, f"umount /var/lib/preflight 2>/dev/null; rm -rf {PROGRAM}; cp -p /root/kept {PROGRAM}")


@pytest.mark.parametrize("how", BROKEN)
def test_a_gate_that_is_broken_in_itself_drains_no_node(slurm: SlurmCluster, how: str) -> None:
    """In all five roles at once: the job's node and the controller have the broken program."""
    for host in ("node01", HEAD):
        slurm.lab.ssh(host, "rm -f /var/lib/preflight/gate.jsonl")
        done = slurm.lab.ssh(host, f"P={PROGRAM}; {BROKEN[how]}")
        assert done.returncode == 0, done.stderr
    try:
        words = ("sbatch", "--parsable", "--chdir=/", "--output=/dev/null", "--nodelist=node01", "--wrap=srun true")
        job = slurm.call(*words).stdout.strip()
        assert slurm.ended(job)["Restarts"] == "0"
        slurm.wait(slurm.all_idle, "the Epilog to be done")
        if how != "a full disk":
            slurm.wait(lambda: '"context": "health"' in slurm.record("node01"), "a health check")
            roles = {role for role in ("prolog", "epilog") if f'"context": "{role}", ' in slurm.record("node01")}
            assert roles == {"prolog", "epilog"}
            assert slurm.record(HEAD).startswith('{"context": "controller", ')
        assert slurm.reasons() == {}
    finally:
        for host in ("node01", HEAD):
            whole(slurm, host)


def install(slurm: SlurmCluster, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return preflight("gate", "install", "-y", "-i", slurm.lab.inventory, *arguments, check=False)


def test_what_removes_the_gate_refuses_while_slurm_starts_it(slurm: SlurmCluster) -> None:
    """Or every node is drained by its next job."""
    for host in NODES:
        slurm.lab.ssh(host, f"rm {GATE}")
    done = install(slurm)
    assert done.returncode == 0, done.stdout + done.stderr
    run = next(line.split()[1].rstrip(";") for line in done.stdout.splitlines() if line.startswith("run "))
    number = slurm.lab.ssh("node01", f"grep -n ^Prolog= {CONF} | cut -d: -f1").stdout.strip()
    for command in (("gate", "install", "--remove", "--force"), ("rollback", run)):
        refused = preflight(*command, "-y", "-i", slurm.lab.inventory, check=False, stdin=subprocess.DEVNULL)
        text = " ".join(refused.stdout.split())
        assert refused.returncode == 1, text
        assert f"First remove {CONF}:{number}: Prolog={GATE}; " in text
        assert "Then run scontrol reconfigure" in text
    for _ in range(4):
        slurm.ended(slurm.submit(nodes=4))
    assert slurm.reasons() == {}


def test_a_reconfigured_controller_is_told_apart_from_a_restarted_one(slurm: SlurmCluster) -> None:
    """Slurm 22.05 takes PrologSlurmctld when slurmctld starts."""
    check = f"gate install slurm --conf {CONF}"
    ours = f"{sys.executable} -m preflight {check}"
    slurm.reconfigure(PrologSlurmctld="")
    restart(slurm)
    slurm.lab.ssh(HEAD, "rm -f /var/lib/preflight/gate.jsonl")
    slurm.reconfigure(PrologSlurmctld=GATE)
    slurm.ended(slurm.submit())
    assert f"PrologSlurmctld         = {GATE}" in slurm.call("scontrol", "show", "config").stdout
    assert slurm.record(HEAD) == "", "it is not called"
    said = slurm.lab.ssh(HEAD, ours)
    assert said.returncode == 1, said.stdout + said.stderr
    assert "systemctl restart slurmctld" in said.stdout
    restart(slurm)
    slurm.ended(slurm.submit())
    assert '"context": "controller"' in slurm.record(HEAD)
    said = slurm.lab.ssh(HEAD, ours)
    assert "called PrologSlurmctld at" in said.stdout
    assert "systemctl restart slurmctld" not in said.stdout


def restart(slurm: SlurmCluster) -> None:
    end = "p=$(cat /run/slurmctld.pid); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.1; done"
    slurm.lab.ssh(HEAD, f"{end}; slurmctld < /dev/null > /run/start 2>&1")
    slurm.wait(slurm.all_idle, "Slurm to be up again")


def test_a_daemon_that_was_not_reconfigured_keeps_the_gate(slurm: SlurmCluster) -> None:
    """After a restart of slurmctld alone slurmd starts its old Prolog, which no file and no controller names."""
    text = slurm.lab.ssh(HEAD, f"cat {CONF}").stdout
    kept = "\n".join(line for line in text.splitlines() if GATE not in line and not line.startswith("HealthCheck"))
    for host in (*NODES, HEAD):
        slurm.put(host, CONF, kept + "\n")
    restart(slurm)
    for host in NODES:
        slurm.lab.ssh(host, "rm -f /var/lib/preflight/gate.jsonl")
    done = install(slurm, "--remove", "--dry-run")
    assert (done.returncode, done.stdout.count(f"remove {GATE}")) == (0, 0), done.stdout
    assert f"{GATE} was kept and lets every job start" in " ".join(done.stdout.split())
    slurm.ended(slurm.submit(nodes=4))
    done = install(slurm, "--remove", "--limit", "node01")
    said = " ".join(done.stdout.split())
    assert (done.returncode, "Slurm may still call the gate" in said) == (1, True), said
    assert "after slurm.conf was changed" in said
    slurm.lab.ssh(HEAD, "kill $(cat /run/slurmctld.pid)")
    done = install(slurm, "--remove", "--limit", "node01")
    assert (done.returncode, "the Slurm controller does not answer" in " ".join(done.stdout.split())) == (1, True)
    for host in (*NODES, HEAD):
        slurm.put(host, CONF, text)
    slurm.lab.ssh(HEAD, "slurmctld < /dev/null > /run/start 2>&1")
    slurm.wait(slurm.all_idle, "Slurm to be up again")
    slurm.call("scontrol", "reconfigure")


def test_without_its_lines_the_gate_goes(slurm: SlurmCluster) -> None:
    slurm.reconfigure(**dict.fromkeys((*ROLES, "HealthCheckInterval"), ""))
    slurm.put("node02", "/root/site-prolog", f"#!/bin/sh\n{GATE} || exit 1\n", "755")
    slurm.reconfigure(Prolog="/root/site-prolog")
    done = install(slurm, "--remove", "--limit", "node02")
    assert (done.returncode, f"/root/site-prolog:2: {GATE} || exit 1" in " ".join(done.stdout.split())) == (1, True)
    slurm.reconfigure(Prolog="")
    for host in (*NODES, HEAD):  # a health check between the change and its taking would count
        slurm.lab.ssh(host, "rm -f /var/lib/preflight/gate.jsonl")
    done = install(slurm, "--remove")
    assert done.returncode == 0, done.stdout + done.stderr
    slurm.ended(slurm.submit(nodes=4))
    assert slurm.reasons() == {}
    for host in NODES:  # nothing on a host tells that slurmd has read the change, so its front is still there
        assert slurm.lab.ssh(host, f"test -e {GATE}; echo $?; test -e {PROGRAM}; echo $?").stdout.split() == ["0", "1"]
        end = "p=$(cat /run/slurmd.pid); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.1; done"
        slurm.lab.ssh(host, f"{end}; slurmd < /dev/null > /run/start 2>&1")
    slurm.wait(slurm.all_idle, "Slurm to be up again")
    done = install(slurm, "--remove")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(slurm.lab.ssh(host, f"ls {GATE}").returncode for host in NODES)
    slurm.ended(slurm.submit(nodes=4))
    assert slurm.reasons() == {}
