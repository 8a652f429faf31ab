"""Preflight's own processes on hosts, among those that hold ports, devices and processors."""

from enum import Enum, auto

from preflight.facts.types import Os

_NAMES = "preflight-"  # prefix of its agents', workers' and listeners' names
_AGENT = "preflight-agent"
WAIT = "wait until the other preflight run ends"  # the remedy for its processes


class Owner(Enum):
    """The owner of a process. Processes of this run are in no job's way, because they end with it."""

    JOB = auto()  # or any other process
    THIS_RUN = auto()
    OTHER_RUN = auto()


def owner(os: Os | None, pid: int | None, name: str | None) -> Owner:
    """Return the owner of the process. `os`: the host's facts, None if they could not be collected."""
    for process in os.preflight if os and pid else ():
        if process.pid == pid:
            return Owner.THIS_RUN if process.this_run else Owner.OTHER_RUN
    return Owner.OTHER_RUN if (name or "").startswith(_NAMES) else Owner.JOB


def agents(os: Os | None) -> Owner:
    """Return the owner of the probe that runs on the host, JOB where none runs; another run's counts before this
    one's."""
    probing = {process.this_run for process in os.preflight if process.name.startswith(_AGENT)} if os else set()
    return Owner.OTHER_RUN if False in probing else Owner.THIS_RUN if probing else Owner.JOB


def show_run(pid: int | None) -> str:
    """Return the command that shows another run of preflight."""
    return f"ps -o pid,user,lstart,args {f'-p {pid}' if pid else '-C preflight-agent'}"
