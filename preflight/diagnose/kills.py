"""Processes that the kernel killed for lack of memory, and whether they were the job's. Pure.

If a host runs out of memory, that is the job's problem, whichever process is killed. The limit of one cgroup only
concerns the processes in it. A host may have containers of other users, with kills in the same kernel log.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from preflight.diagnose.errors.host import is_of_kernel
from preflight.diagnose.errors.schedulers import JOB_MEMORY
from preflight.diagnose.order import NEVER, when
from preflight.diagnose.types import Kill, LoggedError, Role

_KILLED = ("killed", JOB_MEMORY)  # signs of jobs of which a process was killed
_NEAR = 300.0  # seconds between a kill and the job's report of it
_PROGRAM = re.compile(r"python|^pt_|ray|torch|mpi|prte|orte|train", re.IGNORECASE)  # names of jobs' processes
_PID = re.compile(r"\b(?:PID|pid)[ =:]{1,2}(\d{1,10})")
_ADDRESS = re.compile(r"[\d.]+|[\da-f:.]*:[\da-f:.]*")
_STEP = re.compile(r"StepId=(\d{1,10})")


def foreign_kills(errors: Sequence[LoggedError], files: int) -> set[LoggedError]:
    """Return the kills that are not known to be the job's.

    `errors`: all errors of `files` files. If there are only logs of kernels, it is unknown which kills are the job's,
    and all are taken for it.
    """
    job_errors = [error for error in errors if not is_of_kernel(error.sign)]
    if not job_errors and len({error.file for error in errors}) >= files:
        return set()
    job = _JobProcesses(job_errors)
    return {error for error in errors if error.kill and error.kill.limited and not job.owns(error, error.kill)}


def note(error: LoggedError) -> LoggedError:
    """Return the kill as a note that names the killed process."""
    kill = error.kill or Kill(None, "", "", limited=True)
    victim = kill.name or "a process"
    where = f" of {kill.cgroup}" if kill.cgroup else ""
    cause = (
        f"the kernel killed {victim} at the memory limit{where}. Nothing in these logs relates this process to the job"
    )
    return replace(error, sign=replace(error.sign, role=Role.HINT, cause=cause))


def _pids(error: LoggedError) -> Iterable[int]:
    if error.who.pid is not None:
        yield error.who.pid
    if error.sign.id in _KILLED:
        yield from map(int, _PID.findall(error.text))


class _JobProcesses:
    """Processes of a job, as far as its errors show them: their numbers, steps of Slurm, and when some were killed."""

    def __init__(self, errors: Sequence[LoggedError]) -> None:
        killed = [error for error in errors if error.sign.id in _KILLED]
        self._hosts = {pid: error.who.host for error in errors for pid in _pids(error)}
        self._steps = {f"job_{step}" for error in killed for step in _STEP.findall(error.text)}
        self._killed = _Killed(killed)

    def owns(self, error: LoggedError, kill: Kill) -> bool:
        """Return whether the killed process is known to be one of the job."""
        if kill.pid is not None and kill.pid in self._hosts and _may_be_same(self._hosts[kill.pid], error.who.host):
            return True
        if not self._steps.isdisjoint(kill.cgroup.split("/")):
            return True
        return bool(_PROGRAM.search(kill.name)) and self._killed.is_near(error)


class _Killed:
    """Times at which processes of a job were killed, sorted, by the names that their hosts may have."""

    def __init__(self, killed: Iterable[LoggedError]) -> None:
        by_host: dict[str, list[float]] = defaultdict(list)
        for error in killed:
            by_host[error.who.host.lower()].append(when(error))
        self._hosts = {host: sorted(times) for host, times in by_host.items()}
        self._by_beginning: dict[str, list[str]] = defaultdict(list)  # a.b.c is listed under a, a.b and a.b.c
        for host in self._hosts:
            for beginning in _beginnings(host):
                self._by_beginning[beginning].append(host)
        self._vague = [host for host in self._hosts if not host or "[" in host]
        self._addresses = [host for host in self._hosts if _ADDRESS.fullmatch(host)]

    def is_near(self, error: LoggedError) -> bool:
        """Return whether a process was killed about then, on a host that may be the same."""
        return any(self._is_near_on(host, error.time) for host in self._candidates(error.who.host.lower()))

    def _candidates(self, host: str) -> Iterable[str]:
        """Return all hosts that may be this one, and few others."""
        if not host or "[" in host or _ADDRESS.fullmatch(host):
            return (name for name in self._hosts if _may_be_same(name, host))
        longer = self._by_beginning.get(host, [])
        return [*self._vague, *self._addresses, *longer, *(name for name in _beginnings(host) if name in self._hosts)]

    def _is_near_on(self, host: str, time: float | None) -> bool:
        times = self._hosts[host]
        if time is None or times[-1] == NEVER:
            return True
        return bisect_left(times, time - _NEAR) < bisect_right(times, time + _NEAR)


def _beginnings(host: str) -> list[str]:
    """Return a, a.b and a.b.c of a.b.c."""
    labels = host.split(".")
    return [".".join(labels[:count]) for count in range(1, len(labels) + 1)]


def _may_be_same(host: str, other: str) -> bool:
    """Return whether two names may be one host's.

    For a list (node[01-02]), or an address beside a name, this is unknown, and the answer is True.
    """
    a, b = host.lower(), other.lower()
    if not a or not b or "[" in a + b or bool(_ADDRESS.fullmatch(a)) != bool(_ADDRESS.fullmatch(b)):
        return True
    return a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.")
