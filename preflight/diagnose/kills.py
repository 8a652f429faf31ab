"""Processes that the kernel killed for want of memory: whose they were. Pure.

A host that runs out of memory is the job's trouble whoever is killed. The limit of one cgroup is the trouble of who
runs there: a host may have containers of others, whose kills stand in the same kernel log.
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
_NEAR = 300.0  # seconds between a kill and what the job says of it
_PROGRAM = re.compile(r"python|^pt_|ray|torch|mpi|prte|orte|train", re.IGNORECASE)  # what processes of jobs are called
_PID = re.compile(r"\b(?:PID|pid)[ =:]{1,2}(\d{1,10})")
_ADDRESS = re.compile(r"[\d.]+|[\da-f:.]*:[\da-f:.]*")
_STEP = re.compile(r"StepId=(\d{1,10})")


def of_others(said: Sequence[Seen], files: int) -> set[Seen]:
    """The kills of `said`, all that was seen in `files` files, that are not known to be the job's. Where there is
    nothing but logs of kernels, nobody knows whose they are, and all are taken for it."""
    kills = [seen for seen in said if seen.kill and seen.kill.limited]
    others = [seen for seen in said if not is_of_kernel(seen.sign)]
    if not kills or not (others or len({seen.file for seen in said}) < files):
        return set()
    pids = {pid: seen.who.host for seen in others for pid in _pids(seen)}
    killed = [seen for seen in others if seen.sign.id in _KILLED]
    steps = {f"job_{step}" for seen in killed for step in _STEP.findall(seen.text)}
    hosts = _Killed(killed)
    return {seen for seen in kills if seen.kill and not _is_jobs(seen, seen.kill, pids, hosts, steps)}


def note(seen: Seen) -> Seen:
    """As a note, with whom it met."""
    kill = seen.kill or Kill(None, "", "", limited=True)
    whom = kill.name or "a process"
    where = f" of {kill.cgroup}" if kill.cgroup else ""
    cause = f"the kernel killed {whom} at the memory limit{where}, which nothing in these logs ties to the job"
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
    """Times at which processes of a job were killed, sorted, by what their hosts may be called."""

    def __init__(self, killed: Iterable[Seen]) -> None:
        by_host: dict[str, list[float]] = defaultdict(list)
        for seen in killed:
            by_host[seen.who.host.lower()].append(when(seen))
        self._hosts = {host: sorted(times) for host, times in by_host.items()}
        self._by_beginning: dict[str, list[str]] = defaultdict(list)  # a.b.c is one of a, a.b and a.b.c
        for host in self._hosts:
            for beginning in _beginnings(host):
                self._by_beginning[beginning].append(host)
        self._vague = [host for host in self._hosts if not host or "[" in host]
        self._addresses = [host for host in self._hosts if _ADDRESS.fullmatch(host)]

    def is_near(self, seen: Seen) -> bool:
        """Return whether a process was killed about then, on what may be the same host."""
        return any(self._is_near_on(host, seen.time) for host in self._candidates(seen.who.host.lower()))

    def _candidates(self, host: str) -> Iterable[str]:
        """Return all hosts that may be this one, and few others."""
        if not host or "[" in host or _ADDRESS.fullmatch(host):
            return (other for other in self._hosts if _may_be_same(other, host))
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
    """Whether two names may be one host's. Of a list (node[01-02]), or an address beside a name, nobody knows."""
    a, b = host.lower(), other.lower()
    if not a or not b or "[" in a + b or bool(_ADDRESS.fullmatch(a)) != bool(_ADDRESS.fullmatch(b)):
        return True
    return a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.")
