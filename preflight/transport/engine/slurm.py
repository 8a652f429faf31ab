"""Slurm: a step of the job that one is in, with one task on each of its nodes."""

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
# By these (srun(1), "input environment variables") a job also tells srun how tasks share a node and what becomes of
# their lines. Ours are one task a node, which is to see all that the job has there, and speaks in lines of its own.
NOT_INHERITED = (
    "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_TRES_PER_TASK",
    "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_SOCKET", "SLURM_THREADS_PER_CORE", "SLURM_DISTRIBUTION", "SLURM_HINT",
    "SLURM_GPU_BIND", "SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_BCAST",
    "SLURM_LABELIO", "SLURM_UNBUFFEREDIO", "SLURM_STDINMODE", "SLURM_STDOUTMODE", "SLURM_STDERRMODE",
)  # fmt: skip
_MOST = 65_536  # nodes in a line of srun's; more are written by somebody who wants memory to be full
_RANGE = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True)
class SlurmJob:
    """The job that this runs in. `nodes`: as Slurm writes its list; `overlap`: what lets a step share its nodes."""

    srun: str
    number: str
    nodes: str
    overlap: tuple[str, ...]

    def names(self, hosts: Sequence[Host]) -> dict[str, str]:
        """Host → what Slurm calls it (the inventory's name, or what stands before the first dot of it, or the address),
        of the hosts that the job has. Raises UsageError where two hosts are one node."""
        allocated, found = _set_of(self.nodes), dict[str, str]()
        for host in hosts:
            names = (host.name, short(host.name), host.address, short(host.address))
            node = next((name for name in names if name in allocated), None)
            if node in found.values():
                raise UsageError(f"{host.name} and another host of the inventory are both Slurm's node {node}")
            if node is not None:
                found[host.name] = node
        return found


def job_of(environment: Mapping[str, str], hosts: int = 1, command: str = "probe") -> SlurmJob:
    """Raises UsageError outside of a job. `hosts`, `command`: of ours, for what is said then."""
    srun = shutil.which("srun", path=environment.get("PATH"))
    if not srun:
        raise UsageError("--via slurm needs srun on this machine; where Slurm is not the way, leave the option out")
    number, nodes = environment.get("SLURM_JOB_ID"), environment.get("SLURM_JOB_NODELIST")
    if not (number and nodes):
        raise UsageError(
            f"--via slurm runs within a job that has the hosts, and this is none: salloc -N {hosts} --exclusive "
            f"preflight {command} …, or the same command in a script for sbatch"
        )
    shares = "--overlap" in answer(srun, "--help", environment)  # since 20.11; before, steps shared nodes anyway
    return SlurmJob(srun, number, nodes, ("--overlap",) if shares else ())


def slurm(hosts: Sequence[Host], environment: Mapping[str, str]) -> EngineSite:
    """Raises UsageError outside of a job, and for hosts that are not in it."""
    here = job_of(environment, len(hosts))
    srun, job, overlap = here.srun, here.number, here.overlap
    names = _names(here, hosts)
    called = {node: host.name for node, host in zip(names, hosts, strict=True)}
    of_host = {host: node for node, host in called.items()}

    def lost(words: str) -> list[tuple[str, str]]:
        found = next(filter(None, (pattern.match(words) for pattern in _LOST)), None)
        if not found or sum(int(last) - int(first) for first, last in _RANGE.findall(found["nodes"])) > _MOST:
            return []
        nodes = _set_of(found["nodes"])
        return [(host, f"srun: {found['why']}") for node, host in called.items() if node in nodes]

    return EngineSite(
        "srun",
        (
            srun, f"--jobid={job}", f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}", "--ntasks-per-node=1",
            f"--nodelist={','.join(names)}", *overlap, "--export=ALL", "--mpi=none", "--input=all", "--cpu-bind=none",
            "--wait=0", "--kill-on-bad-exit=0", "--no-kill", "--chdir=/",
        ),
        "SLURM_PROCID",
        called,
        lambda host: f"srun --jobid={job} {' '.join((*overlap, '-N1', '-n1', '-w'))} {of_host[host]} hostname",
        lost,
        without=NOT_INHERITED,
    )  # fmt: skip


def _names(job: SlurmJob, hosts: Sequence[Host]) -> list[str]:
    found = job.names(hosts)
    if missing := [host.name for host in hosts if host.name not in found]:
        hint = f"; leave them out with --limit {_folded(found)}" if found else ""
        raise UsageError(f"job {job.number} has the nodes {job.nodes}, and not {_folded(missing)}{hint}")
    return list(found.values())


def _set_of(text: str) -> NodeSet:
    try:
        return NodeSet(text)
    except NodeSetException:
        return NodeSet()


def _folded(names: Sequence[str] | Mapping[str, str]) -> str:
    return str(NodeSet.fromlist(list(names)))
