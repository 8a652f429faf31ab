"""The slurmctld that runs on this machine, and whether it calls the gate as PrologSlurmctld.

Slurm 22.05 reads PrologSlurmctld when slurmctld starts. After `scontrol reconfigure` alone, `scontrol show config`
shows the line, but the program is not called. So the proof is a call since slurmctld's start, which the gate has
recorded.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RECORDS = "/var/lib/preflight/gate.jsonl"
_SECONDS = 10  # for journalctl


@dataclass(frozen=True)
class Controller:
    """The slurmctld of this machine.

    Times are seconds since 1970. `called` is the gate's last call, None without any since `started`.
    """

    started: float
    configured: float  # the last change of slurm.conf or of a file that it includes
    called: float | None


def running(confs: Iterable[str], proc: str = "/proc", records: str = RECORDS) -> Controller | None:
    """Return the slurmctld of this machine, None if there is none. `proc` and `records` are for tests."""
    started = _started(Path(proc))
    if started is None:
        return None
    called = _recorded(Path(records)) or _logged(started)
    states = [Path(conf).stat() for conf in confs]
    # The modification time of a copied file may be older than the copy.
    changed = max((max(state.st_mtime, state.st_ctime) for state in states), default=0.0)
    return Controller(started, changed, called if called and called >= started else None)


def told(controller: Controller) -> tuple[bool, str]:
    """Return whether PrologSlurmctld is called, as far as is known, and a sentence about it."""
    since = _moment(controller.started)
    if controller.called is not None:
        return True, f"slurmctld, started at {since}, called PrologSlurmctld at {_moment(controller.called)}"
    if controller.started >= controller.configured:
        return True, f"slurmctld was started at {since}, after the last change, but has not called PrologSlurmctld yet"
    return False, (
        f"slurmctld was started at {since}, before the last change at {_moment(controller.configured)}, and has not "
        "called PrologSlurmctld since. scontrol reconfigure is not enough. Run systemctl restart slurmctld"
    )


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _started(proc: Path) -> float | None:
    """Return when the oldest slurmctld of this machine was started."""
    try:
        boot = next(
            int(line.split()[1]) for line in (proc / "stat").read_text().splitlines() if line.startswith("btime ")
        )
    except (OSError, StopIteration, ValueError):
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    times = []
    for entry in proc.glob("[0-9]*/stat"):
        try:
            head, _, fields = entry.read_text(errors="replace").rpartition(")")
        except OSError:
            continue  # the process has ended
        if head.endswith("(slurmctld") and _is_of_this_system(entry.parent, proc):
            times.append(boot + int(fields.split()[19]) / ticks)
    return min(times, default=None)


def _is_of_this_system(process: Path, proc: Path) -> bool:
    """Return whether a process is in our PID namespace: the slurmctld of a container is that container's."""
    try:
        return (process / "ns/pid").readlink() == (proc / "self/ns/pid").readlink()
    except OSError:
        return True


def _recorded(path: Path) -> float | None:
    """Return when the gate last recorded a call by slurmctld."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("context") == "controller":
            moment = record.get("time")
            return float(moment) if isinstance(moment, int | float) else None
    return None


def _logged(since: float) -> float | None:
    """Return when the system's journal last has a call: a SlurmUser other than root cannot write the gate's record."""
    command = ["journalctl", "-q", "-t", "preflight-gate", f"--since=@{int(since)}", "-o", "json", "--no-pager"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in reversed(process.stdout.splitlines()):
        try:
            entry = json.loads(line)
            if str(entry["MESSAGE"]).startswith(("preflight: job ", "controller: ")):
                return int(entry["__REALTIME_TIMESTAMP"]) / 1e6
        except (ValueError, KeyError, TypeError):
            continue
    return None
