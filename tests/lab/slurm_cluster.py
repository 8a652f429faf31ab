"""A whole Slurm: slurmctld and four slurmd, each on a lab host of its own, with the gate as its scripts."""

import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.lab.conftest import LabHandle, preflight

HEAD = "node05"
NODES = ("node01", "node02", "node03", "node04")
GATE = "/usr/local/sbin/preflight-gate"
PROGRAM = "/usr/local/lib/preflight/gate"
CONF = "/etc/slurm/slurm.conf"
# Without munge: everybody on these networks is believed. The configuration is for tests alone.
CONFIGURATION = """
ClusterName=preflight
SlurmctldHost={head}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation=/var/lib/slurm
SlurmdSpoolDir=/var/lib/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/run/slurmctld.log
SlurmdLogFile=/run/slurmd.log
SlurmctldDebug=debug
SlurmdDebug=debug
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
SchedulerParameters=nohold_on_prolog_fail,bf_interval=1,sched_interval=2
PrologFlags=Alloc,DeferBatch
PrologEpilogTimeout=300
{scripts}
{nodes}
PartitionName=all Nodes={names} Default=YES State=UP
"""


@dataclass(frozen=True)
class SlurmCluster:
    """Up, with the gate's program and policy on all hosts."""

    lab: LabHandle

    def call(self, *command: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """A command of Slurm's, on the controller."""
        done = self.lab.ssh(HEAD, shlex.join(command), timeout=30)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done

    def submit(self, *options: str, nodes: int = 2) -> str:
        """The number of a job that ends at once."""
        words = ("sbatch", "--parsable", "--chdir=/", "--output=/dev/null", f"--nodes={nodes}", "--exclusive")
        return self.call(*words, *options, "--wrap=true").stdout.strip()

    def job(self, job: str) -> dict[str, str]:
        """What `scontrol show job` says of it."""
        said = self.call("scontrol", "-o", "show", "job", job).stdout
        return dict(word.partition("=")[::2] for word in said.split() if "=" in word)

    def nodes_of(self, job: str) -> list[str]:
        return self.call("scontrol", "show", "hostnames", self.job(job)["NodeList"]).stdout.split()

    def ended(self, job: str, state: str = "COMPLETED") -> dict[str, str]:
        """The job, once it has that state."""
        self.wait(lambda: self.job(job)["JobState"] == state, f"job {job} to be {state}")
        return self.job(job)

    def wait(self, holds: Callable[[], object], what: str) -> None:
        until = time.monotonic() + 150
        while not holds():
            if time.monotonic() > until:
                pytest.fail(f"waited in vain for {what}:\n{self.call('squeue', '-a').stdout}{self.log()}")
            time.sleep(0.3)

    def reasons(self) -> dict[str, str]:
        """{node: its reason} of those that are out of service."""
        lines = self.call("sinfo", "-h", "-N", "-o", "%N|%E").stdout.splitlines()
        return {name: why for name, why in (line.split("|", 1) for line in lines) if why != "none"}

    def record(self, host: str) -> str:
        return self.lab.ssh(host, "cat /var/lib/preflight/gate.jsonl").stdout

    def log(self) -> str:
        return self.lab.ssh(HEAD, "tail -n 60 /run/slurmctld.log").stdout

    def back_to_work(self) -> None:
        """All nodes idle, nothing queued."""
        self.call("scancel", "--user=root")
        self.wait(lambda: not self.call("squeue", "-h").stdout, "an empty queue")
        for node in self.reasons():
            self.call("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        self.wait(self.all_idle, "idle nodes")

    def all_idle(self) -> bool:
        return self.call("sinfo", "-h", "-N", "-o", "%T").stdout.split() == ["idle"] * len(NODES)

    def put(self, host: str, path: str, text: str, mode: str = "644") -> None:
        command = f"mkdir -p $(dirname {path}) && cat > {path}.new && chmod {mode} {path}.new && mv {path}.new {path}"
        done = subprocess.run(self.lab.ssh_command(host, command), input=text, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr

    def reconfigure(self, **settings: str) -> None:
        """Other lines of slurm.conf, on all hosts; an empty value takes the line out."""
        text = self.lab.ssh(HEAD, f"cat {CONF}").stdout
        for key, value in settings.items():
            kept = [line for line in text.splitlines() if not line.startswith(f"{key}=")]
            text = "\n".join([*([f"{key}={value}"] if value else []), *kept]) + "\n"
        for host in (*NODES, HEAD):
            self.put(host, CONF, text)
        self.call("scontrol", "reconfigure")


@contextmanager
def running(
    lab: LabHandle, scripts: str = f"Prolog={GATE}\nEpilog={GATE}\nTaskProlog={GATE}"
) -> Iterator[SlurmCluster]:
    """`scripts`: the lines of slurm.conf with the gate. `lab` has five hosts or more."""
    address = lab.addresses
    nodes = "\n".join(f"NodeName={name} NodeAddr={address[name]}" for name in NODES)
    conf = CONFIGURATION.format(head=HEAD, address=address[HEAD], nodes=nodes, names=",".join(NODES), scripts=scripts)
    slurm = SlurmCluster(lab)
    preflight("configure", "-y", "-i", lab.inventory)
    preflight("gate", "install", "-y", "-i", lab.inventory)
    publish(lab)
    try:
        for host in (*NODES, HEAD):
            slurm.put(host, CONF, conf)
            lab.ssh(host, "rm -f /var/lib/preflight/gate.jsonl*")
        start(lab, HEAD, "slurmctld -i -c")
        for name in NODES:
            start(lab, name, "mkdir -p /var/lib/slurmd && slurmd")
        slurm.wait(slurm.all_idle, "Slurm to be up")
        yield slurm
    finally:
        for name, daemon in ((HEAD, "slurmctld"), *((node, "slurmd") for node in NODES)):
            lab.ssh(name, f"kill $(cat /run/{daemon}.pid)")


def publish(lab: LabHandle, *hosts: str) -> None:
    """What a look finds now, as the verdict of these hosts, or of all."""
    limit = ("--limit", ",".join(hosts)) if hosts else ()
    preflight("check", "--no-probe", "--publish", "-i", lab.inventory, *limit, check=False)


def start(lab: LabHandle, host: str, command: str) -> None:
    done = lab.ssh(host, f"mkdir -p /var/lib/slurm && {command} < /dev/null > /run/start 2>&1 || cat /run/start")
    assert not done.stdout and done.returncode == 0, done.stdout + done.stderr
