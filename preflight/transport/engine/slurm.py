"""Slurm engine: a step of the current job with one task on each node."""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ClusterShell.NodeSet import NodeSet, NodeSetException

from preflight.model.cluster import Host
from preflight.model.errors import UsageError
from preflight.transport.engine.names import short
from preflight.transport.engine.site import EngineSite, answer

# As srun of 22.05 prints it (src/srun/libsrun/launch.c, src/api/step_launch.c): "node02: task 1: Killed",
# "node[02-03]: tasks 1-2: Exited with exit code 1"; "Node failure on node02"; "Task launch for StepId=1.0 failed on
# node node02: Communication connection failure".
_LOST = (
    re.compile(r"srun: error: (?P<nodes>\S+): (?P<why>tasks? [\d,-]+: .+)"),
    re.compile(r"srun: error: (?P<why>Node failure) on (?P<nodes>[^\s:]+)"),
    re.compile(r"srun: error: (?P<why>Task launch for .+ failed) on node (?P<nodes>[^\s:]+)"),
)
# These variables (srun(1), "input environment variables") tell srun how tasks share a node and how it prints lines.
# Our step has one task on each node, which should see all resources of the job there, and its own line format.
# The last three are about the login to the controller. Collectors would take them for the host's own.
NOT_INHERITED = (
    "SLURM_CPUS_PER_TASK",
    "SRUN_CPUS_PER_TASK",
    "SLURM_GPUS_PER_TASK",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_TRES_PER_TASK",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_SOCKET",
    "SLURM_THREADS_PER_CORE",
    "SLURM_DISTRIBUTION",
    "SLURM_HINT",
    "SLURM_GPU_BIND",
    "SLURM_CPU_BIND",
    "SLURM_MEM_BIND",
    "SLURM_EXACT",
    "SLURM_EXCLUSIVE",
    "SLURM_BCAST",
    "SLURM_LABELIO",
    "SLURM_UNBUFFEREDIO",
    "SLURM_STDINMODE",
    "SLURM_STDOUTMODE",
    "SLURM_STDERRMODE",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "SSH_TTY",
)
_MOST_NODES = 65_536  # in a line of srun; a longer list would only fill the memory
_RANGE = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True)
class SlurmJob:
    """The current job. `nodes` is Slurm's list; `overlap` are srun's options that let a step share the nodes."""

    srun: str
    number: str
    nodes: str
    overlap: tuple[str, ...]

    def names(self, hosts: Sequence[Host]) -> dict[str, str]:
        """Return host → node for the hosts of the job. A node is a host's name or address, with or without its domain.

        Raises UsageError if two hosts are one node.
        """
        allocated, nodes = _set_of(self.nodes), dict[str, str]()
        for host in hosts:
            names = (host.name, short(host.name), host.address, short(host.address))
            node = next((name for name in names if name in allocated), None)
            if node in nodes.values():
                raise UsageError(f"{host.name} and another host of the inventory are the same Slurm node {node}")
            if node is not None:
                nodes[host.name] = node
        return nodes


def job_of(environment: Mapping[str, str], hosts: int = 1, command: str = "") -> SlurmJob:
    """Return the current job. Raises UsageError outside of a job; its text has `hosts` and the command."""
    srun = shutil.which("srun", path=environment.get("PATH"))
    if not srun:
        raise UsageError("--via slurm needs srun on this machine. Without Slurm, leave the option out")
    number, nodes = environment.get("SLURM_JOB_ID"), environment.get("SLURM_JOB_NODELIST")
    if not (number and nodes):
        raise UsageError(
            "--via slurm runs only within a Slurm job. Start it with "
            f"salloc -N {hosts} --exclusive {f'preflight {command}'.strip()} …, or in a script for sbatch"
        )
    shares = "--overlap" in answer(srun, "--help", environment)  # since 20.11; before, steps shared nodes anyway
    return SlurmJob(srun, number, nodes, ("--overlap",) if shares else ())


def slurm(hosts: Sequence[Host], environment: Mapping[str, str]) -> EngineSite:
    """Return the engine of the current job. Raises UsageError outside of a job, and for hosts that are not in it."""
    job = job_of(environment, len(hosts))
    names = _names(job, hosts)
    called = {node: host.name for node, host in zip(names, hosts, strict=True)}
    of_host = {host: node for node, host in called.items()}
    overlap = " ".join((*job.overlap, "-N1", "-n1", "-w"))
    return EngineSite(
        name="srun",
        argv=(
            job.srun,
            f"--jobid={job.number}",
            f"--nodes={len(hosts)}",
            f"--ntasks={len(hosts)}",
            "--ntasks-per-node=1",
            f"--nodelist={','.join(names)}",
            *job.overlap,
            "--export=ALL",
            "--mpi=none",
            "--input=all",
            "--cpu-bind=none",
            "--wait=0",
            "--kill-on-bad-exit=0",
            "--no-kill",
            "--chdir=/",
        ),
        rank="SLURM_PROCID",
        called=called,
        try_out=lambda host: f"srun --jobid={job.number} {overlap} {of_host[host]} hostname",
        lost=lambda line: _lost(line, called),
        without=NOT_INHERITED,
    )


def _lost(line: str, called: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the hosts that srun reports as lost in this line, each with the reason."""
    report = next(filter(None, (pattern.match(line) for pattern in _LOST)), None)
    if not report or sum(int(last) - int(first) for first, last in _RANGE.findall(report["nodes"])) > _MOST_NODES:
        return []
    nodes = _set_of(report["nodes"])
    return [(host, f"srun: {report['why']}") for node, host in called.items() if node in nodes]


def _names(job: SlurmJob, hosts: Sequence[Host]) -> list[str]:
    nodes = job.names(hosts)
    if missing := [host.name for host in hosts if host.name not in nodes]:
        hint = f". Leave these out with --limit {_folded(nodes)}" if nodes else ""
        raise UsageError(f"job {job.number} has the nodes {job.nodes}, but not {_folded(missing)}{hint}")
    return list(nodes.values())


def _set_of(text: str) -> NodeSet:
    try:
        return NodeSet(text)
    except NodeSetException:
        return NodeSet()


def _folded(names: Sequence[str] | Mapping[str, str]) -> str:
    return str(NodeSet.fromlist(list(names)))
