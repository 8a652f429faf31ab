"""Groups of processes with a common limit on processor time: the kernel's cgroups, version 1 or 2."""

import errno
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from preflight.lab import kernel
from preflight.lab.kernel import Process

CGROUPS = Path("/sys/fs/cgroup")


def _root() -> Path:
    """Return the root of cgroups v2, or of v1's controller cpu."""
    return CGROUPS if (CGROUPS / "cgroup.controllers").exists() else CGROUPS / "cpu"


def group_of(pid: int) -> Path:
    """Return the group of a process."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    unified = _root() == CGROUPS
    path_of_group = next(
        path for _, controllers, path in lines if (not controllers if unified else "cpu" in controllers.split(","))
    )
    return _root() / path_of_group.lstrip("/")


def make(name: str, microseconds: int, period: int) -> Path:
    """Make a group that gets so many microseconds of processor time in each period, for all its processes together.

    Raise OSError if this machine has no such groups, or does not allow making one.
    """
    group = _root() / name
    if _root() == CGROUPS:
        (CGROUPS / "cgroup.subtree_control").write_text("+cpu")
    group.mkdir()
    if _root() == CGROUPS:
        (group / "cpu.max").write_text(f"{microseconds} {period}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(period))
        (group / "cpu.cfs_quota_us").write_text(str(microseconds))
    return group


def move(process: Process, group: Path) -> None:
    """Move a process to a group. A process that has ended is ignored."""
    with suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(process.pid))


def remove(prefix: str) -> None:
    """Remove the groups with names that begin with `prefix`, and those inside them. Their processes must have ended."""
    for group in _root().glob(f"{prefix}*"):
        for folder, _, _ in os.walk(group, topdown=False):
            remove_group(Path(folder))


def remove_group(group: Path) -> None:
    """Remove a group after its processes have ended or moved. The kernel keeps it until the last one is gone."""
    kernel.wait_until(partial(_is_removed, group), 10, f"processes are left in {group}")


def _is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True
