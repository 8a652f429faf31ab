"""Preflight's own processes on hosts, among those that hold ports, devices and processors."""

from enum import Enum, auto

from preflight.facts.types import Os

_NAMES = "preflight-"  # how its agents, workers and listeners are called
_AGENT = "preflight-agent"


class Owner(Enum):
    """Whose a process is. Those of this run are in no job's way: they end with it."""

    JOB = auto()  # or anybody else's
    THIS_RUN = auto()
    OTHER_RUN = auto()


def owner(os: Os | None, pid: int | None, name: str | None) -> Owner:
    """Return whose the process is. `os`: the host's facts, None where they could not be collected."""
    for process in os.preflight if os and pid else ():
        if process.pid == pid:
            return Owner.THIS_RUN if process.this_run else Owner.OTHER_RUN
    return Owner.OTHER_RUN if (name or "").startswith(_NAMES) else Owner.JOB


def agents(os: Os | None) -> Owner:
    """Return whose probe works on the host, JOB where none does; another run's counts before this one's."""
    probing = {process.this_run for process in os.preflight if process.name.startswith(_AGENT)} if os else set()
    return Owner.OTHER_RUN if False in probing else Owner.THIS_RUN if probing else Owner.JOB


def end(host: str, pid: int, otherwise: str = "") -> str:
    """Return the remedy for a process of a job, or of nobody; `otherwise`: what may be done in its place."""
    return f"on {host}: kill {pid}{f', or {otherwise}' if otherwise else ''}"


def wait(host: str, pid: int | None = None) -> str:
    """Return the remedy for a process of another run of preflight."""
    which = f"-p {pid}" if pid else "-C preflight-agent"
    return f"wait until the other preflight run has ended; on {host}: ps -o pid,user,lstart,args {which} shows it"
