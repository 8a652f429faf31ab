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
from preflight.diagnose.types import Kill, Role, Seen

_KILLED = ("killed", JOB_MEMORY)  # signs of jobs of which a process was killed
_NEAR = 300.0  # seconds between a kill and the job's report of it
_PROGRAM = re.compile(r"python|^pt_|ray|torch|mpi|prte|orte|train", re.IGNORECASE)  # names of jobs' processes
_PID = re.compile(r"\b(?:PID|pid)[ =:]{1,2}(\d{1,10})")
_ADDRESS = re.compile(r"[\d.]+|[\da-f:.]*:[\da-f:.]*")
_STEP = re.compile(r"StepId=(\d{1,10})")


def of_others(said: Sequence[Seen], files: int) -> set[Seen]:
    """Return the kills of `said` that are not known to be the job's.

    `said`: all errors of `files` files. If there are only logs of kernels, it is unknown which kills are the job's, and
    all are taken for it.
    """
    kills = [error for error in said if error.kill and error.kill.limited]
    job_errors = [error for error in said if not is_of_kernel(error.sign)]
    if not kills or not (job_errors or len({error.file for error in said}) < files):
        return set()
    pids = {pid: error.who.host for error in job_errors for pid in _pids(error)}
    killed = [error for error in job_errors if error.sign.id in _KILLED]
    steps = {f"job_{step}" for error in killed for step in _STEP.findall(error.text)}
    hosts = _Killed(killed)
    return {error for error in kills if error.kill and not _is_jobs(error, error.kill, pids, hosts, steps)}


def note(seen: Seen) -> Seen:
    """Return the kill as a note that names the killed process."""
    kill = seen.kill or Kill(None, "", "", limited=True)
    victim = kill.name or "a process"
    where = f" of {kill.cgroup}" if kill.cgroup else ""
    cause = f"the kernel killed {victim} at the memory limit{where}, which nothing in these logs ties to the job"
    return replace(seen, sign=replace(seen.sign, role=Role.HINT, cause=cause))


def _pids(seen: Seen) -> Iterable[int]:
    if seen.who.pid is not None:
        yield seen.who.pid
    if seen.sign.id in _KILLED:
        yield from map(int, _PID.findall(seen.text))


def _is_jobs(seen: Seen, kill: Kill, pids: dict[int, str], killed: "_Killed", steps: set[str]) -> bool:
    if kill.pid is not None and kill.pid in pids and _may_be_same(pids[kill.pid], seen.who.host):
        return True
    if not steps.isdisjoint(kill.cgroup.split("/")):
        return True
    return bool(_PROGRAM.search(kill.name)) and killed.is_near(seen)


class _Killed:
    """Times at which processes of a job were killed, sorted, by the names that their hosts may have."""

    def __init__(self, killed: Iterable[Seen]) -> None:
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

    def is_near(self, seen: Seen) -> bool:
        """Return whether a process was killed about then, on a host that may be the same."""
        return any(self._is_near_on(host, seen.time) for host in self._candidates(seen.who.host.lower()))

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
