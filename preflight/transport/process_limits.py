"""Limits of this process: open files and threads, which limit the hosts that are connected at the same time."""

import os
import resource
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup/pids.max")  # of a container; root's own has no such file


def allow_open_files(wanted: int) -> int:
    """Raise the soft limit towards `wanted` as far as the hard limit allows. Return the limit that holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(allowed, soft)


def most_threads() -> float:
    """Return how many threads this user, or this container, may have; infinity if there is no such limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    of_user = float("inf") if soft == resource.RLIM_INFINITY or os.geteuid() == 0 else soft
    try:
        text = _CGROUP.read_text().strip()
    except OSError:
        text = "max"
    return min(of_user, float(text) if text.isdecimal() else float("inf"))
