"""Processes that the kernel killed for want of memory: whose they were. Pure.

A host that runs out of memory is the job's trouble whoever is killed. The limit of one cgroup is the trouble of who
runs there: a host may have containers of others, whose kills stand in the same kernel log.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from preflight.diagnose.errors.host import is_of_kernel
from preflight.diagnose.errors.schedulers import JOB_MEMORY
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
    steps = {step for seen in killed for step in _STEP.findall(seen.text)}
    return {seen for seen in kills if seen.kill and not _is_jobs(seen, seen.kill, pids, killed, steps)}


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


def _is_jobs(seen: Seen, kill: Kill, pids: dict[int, str], killed: Sequence[Seen], steps: Iterable[str]) -> bool:
    if kill.pid is not None and kill.pid in pids and _may_be_same(pids[kill.pid], seen.who.host):
        return True
    if any(f"job_{step}" in kill.cgroup.split("/") for step in steps):
        return True
    return bool(_PROGRAM.search(kill.name)) and any(
        _may_be_same(one.who.host, seen.who.host) and _are_near(one.time, seen.time) for one in killed
    )


def _may_be_same(host: str, other: str) -> bool:
    """Whether two names may be one host's. Of a list (node[01-02]), or an address beside a name, nobody knows."""
    a, b = host.lower(), other.lower()
    if not a or not b or "[" in a + b or bool(_ADDRESS.fullmatch(a)) != bool(_ADDRESS.fullmatch(b)):
        return True
    return a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.")


def _are_near(time: float | None, other: float | None) -> bool:
    return time is None or other is None or abs(time - other) <= _NEAR
