"""PrologSlurmctld of a real slurmctld: the real probe over a job's nodes, by a key that can start nothing else."""

import json
import shlex
import subprocess
from collections.abc import Iterator

import pytest

from preflight.gate import forced_command
from preflight.inventory import parse
from tests.lab.conftest import ROOT, LabHandle, MakeLab
from tests.lab.slurm_cluster import GATE, HEAD, NODES, SlurmCluster, running

pytestmark = pytest.mark.lab

PLACE = "/etc/preflight"
SETTINGS = {
    "preflight": str(ROOT / ".venv/bin/preflight"),
    "inventory": f"{PLACE}/hosts.toml",
    "key": f"{PLACE}/gate_key",
    "seconds": 150,  # where nothing is wrong it takes a fifth of that, on a busy machine all of it
}
# Nothing of it is seen on the node itself: only others do not come through.
DROP = (
    'nft add table inet site; nft add chain inet site in "{ type filter hook input priority 0; }"; '
    "nft add rule inet site in iifname eth0 tcp dport 29500 drop"
)
BLOCKED = "preflight: PRB114 node02: other hosts cannot connect to port 29500 (master)"


@pytest.fixture(scope="module")
def slurm(make_lab: MakeLab) -> Iterator[SlurmCluster]:
    """The controller has preflight, an inventory and a key; the nodes have the gate."""
    lab = make_lab(hosts=5, devices=1, firewall="none")
    inventory = lab.inventory.read_text().replace('backend = "hccl"', 'backend = "gloo"\nsizes = ["8B"]')
    lab.inventory.write_text(inventory)
    scripts = "\n".join(f"{role}={GATE}" for role in ("Prolog", "Epilog", "PrologSlurmctld"))
    with running(lab, scripts) as slurm:
        text = inventory.replace('key = "id_ed25519"\n', "")
        slurm.put(HEAD, f"{PLACE}/hosts.toml", text)
        slurm.put(HEAD, f"{PLACE}/known_hosts", (lab.dir / "known_hosts").read_text())
        lab.ssh(HEAD, f"ssh-keygen -q -t ed25519 -N '' -f {PLACE}/gate_key")
        line = forced_command.authorized_key(lab.ssh(HEAD, f"cat {PLACE}/gate_key.pub").stdout)
        cluster = parse(inventory, lab.inventory)
        for host in cluster.hosts:
            slurm.put(host.name, forced_command.PLACE, forced_command.allowed(cluster, host))
            lab.ssh(host.name, f"echo {shlex.quote(line)} >> ~/.ssh/authorized_keys")
        settings(slurm)
        yield slurm


def settings(slurm: SlurmCluster, **more: object) -> None:
    slurm.put(HEAD, f"{PLACE}/controller.json", json.dumps({**SETTINGS, **more}))


@pytest.fixture(autouse=True)
def all_good(slurm: SlurmCluster) -> Iterator[None]:
    yield
    slurm.lab.ssh("node02", "nft delete table inet site")
    settings(slurm)
    slurm.back_to_work()


def last_word(slurm: SlurmCluster) -> str:
    return str(json.loads(slurm.record(HEAD).splitlines()[-1])["sentence"])


def test_a_node_that_others_do_not_reach_is_drained_and_the_job_runs_on_others(slurm: SlurmCluster) -> None:
    slurm.lab.ssh("node02", DROP)
    job = slurm.submit("--nodelist=node01", nodes=3)
    assert slurm.ended(job)["Restarts"] == "1"
    assert slurm.nodes_of(job) == ["node01", "node03", "node04"]
    assert slurm.reasons() == {"node02": BLOCKED}
    assert last_word(slurm) == "3 nodes passed all tests together"


def test_srun_is_told_and_the_node_is_drained(slurm: SlurmCluster) -> None:
    slurm.lab.ssh("node02", DROP)
    done = subprocess.run(
        slurm.lab.ssh_command(HEAD, "srun --nodes=3 --nodelist=node01,node02 --chdir=/ true"),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "PrologSlurmctld failed, job killed" in done.stderr
    assert slurm.reasons() == {"node02": BLOCKED}


def test_a_job_that_was_requeued_too_often_is_held(slurm: SlurmCluster) -> None:
    """Here at once: the operator allows no requeue."""
    slurm.lab.ssh("node02", DROP)
    text = slurm.lab.ssh(HEAD, f"cat {PLACE}/hosts.toml").stdout
    slurm.put(HEAD, f"{PLACE}/hosts.toml", text + "\n[gate]\nrequeues = 0\n")
    try:
        job = slurm.submit("--nodelist=node01,node02", nodes=2)
        slurm.wait(lambda: slurm.job(job)["Reason"] == "job_requeued_in_held_state", "the job to be held")
    finally:
        slurm.put(HEAD, f"{PLACE}/hosts.toml", text)
    assert f"so it is held. Release it with scontrol release {job}" in last_word(slurm)


BROKEN = {
    "its Python is missing": {"preflight": "/no/such/preflight"},
    "its inventory is missing": {"inventory": "/no/such/hosts.toml"},
    "its key is missing": {"key": "/no/such/key"},
    "its inventory does not know the nodes": {"inventory": "/tmp/others.toml"},
    "hosts refuse its key": {"key": "/tmp/other_key"},
}


@pytest.mark.parametrize("how", BROKEN)
def test_where_preflight_is_broken_nobody_is_drained_and_jobs_run(slurm: SlurmCluster, how: str) -> None:
    slurm.lab.ssh(HEAD, "test -e /tmp/other_key || ssh-keygen -q -t ed25519 -N '' -f /tmp/other_key")
    others = '[cluster]\nname = "x"\nproduct = "cpu"\n[[hosts]]\nname = "other"\naddress = "127.0.0.1"\n'
    slurm.put(HEAD, "/tmp/others.toml", others)
    settings(slurm, **BROKEN[how])
    job = slurm.submit(nodes=2)
    assert slurm.ended(job)["Restarts"] == "0"
    assert slurm.reasons() == {}
    if how == "hosts refuse its key":
        assert "no agent on node01, node02 (" in last_word(slurm)


def by_key(lab: LabHandle, command: str, text: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Over real sshd, from the controller, with the key that is for the probe."""
    options = f"-i {PLACE}/gate_key -o UserKnownHostsFile={PLACE}/known_hosts -o BatchMode=yes"
    return subprocess.run(
        lab.ssh_command(HEAD, f"timeout 60 ssh {options} {lab.addresses['node01']} {command}"),
        input=text, capture_output=True,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["", "id", "'cat /etc/shadow'", "scontrol reconfigure"])
def test_the_key_starts_no_other_command(slurm: SlurmCluster, command: str) -> None:
    done = by_key(slurm.lab, command)
    assert (done.returncode, done.stdout) == (77, b"")
    assert b"preflight-gate: refused: this key only allows preflight's probe" in done.stderr


def test_the_key_forwards_no_port(slurm: SlurmCluster) -> None:
    done = by_key(slurm.lab, "-N -o ExitOnForwardFailure=yes -R 18022:127.0.0.1:22")
    assert done.returncode == 255
    assert b"remote port forwarding failed" in done.stderr


def test_the_key_starts_no_other_text(slurm: SlurmCluster) -> None:
    """The command line is one of those that it may have; a single byte of the program is another."""
    cluster = parse(slurm.lab.inventory.read_text(), slurm.lab.inventory)
    listed = json.loads(forced_command.allowed(cluster, cluster.hosts[0]))["programs"][0]
    text = b"open('/tmp/mine', 'w')\n" + b"#" * (listed["length"] - 23)
    done = by_key(slurm.lab, shlex.quote(listed["command"]), text)
    assert (done.returncode, done.stdout) == (77, b"")
    assert b"the program differs from the one that was installed on this host" in done.stderr
    assert slurm.lab.ssh("node01", "test -e /tmp/mine").returncode == 1


LEFT = "ps -eo args | grep -E 'preflight-[arsw]|preflight-gate|python3 -c' | grep -v grep"
PROOF = "ps -eo pid,args | awk '/[g]ate controller/ {print $1}'"


def nothing_left(slurm: SlurmCluster) -> bool:
    return not any(slurm.lab.ssh(node, LEFT).stdout for node in NODES)


def test_nothing_of_a_probe_is_left_on_its_nodes(slurm: SlurmCluster) -> None:
    slurm.ended(slurm.submit(nodes=2))
    slurm.wait(lambda: nothing_left(slurm), "all to be gone")


def test_a_probe_ends_with_its_job(slurm: SlurmCluster) -> None:
    """Cancelled while its nodes are proved: slurmctld kills the gate. The proof stands still, and cannot end itself."""
    job = slurm.submit("--nodelist=node01,node02", nodes=2)
    slurm.wait(
        lambda: slurm.lab.ssh("node01", "ps -e | grep -E 'preflight-(ports|agent)'").stdout, "the probe to begin"
    )
    assert slurm.lab.ssh(HEAD, f"kill -STOP $({PROOF})").returncode == 0
    slurm.call("scancel", job)
    slurm.wait(lambda: not slurm.lab.ssh(HEAD, PROOF).stdout, "the proof to end")
    slurm.wait(lambda: nothing_left(slurm), "all to be gone")
