"""Groups of processes that share a limit on processor time: the kernel's cgroups, of either version."""

import errno
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from preflight.lab import kernel
from preflight.lab.kernel import Process

CGROUPS = Path("/sys/fs/cgroup")


def _root() -> Path:
    """Where they are: of cgroups v2, or of v1's controller cpu."""
    return CGROUPS if (CGROUPS / "cgroup.controllers").exists() else CGROUPS / "cpu"


def group_of(pid: int) -> Path:
    """The group that a process is in."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    unified = _root() == CGROUPS
    found = next(path for _, which, path in lines if (not which if unified else "cpu" in which.split(",")))
    return _root() / found.lstrip("/")


def make(name: str, microseconds: int, period: int) -> Path:
    """A group whose processes together get so many microseconds of processor time in each period. OSError if this
    machine has no such groups, or lets nobody make one."""
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
    """Nothing is done for a process that has ended."""
    with suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(process.pid))


def remove(prefix: str) -> None:
    """Those whose names begin with it, and those in them. Their processes have to be gone."""
    for group in _root().glob(f"{prefix}*"):
        for folder, _, _ in os.walk(group, topdown=False):
            remove_group(Path(folder))


def remove_group(group: Path) -> None:
    """Its processes have to be gone, or moved; the kernel holds it until the last of them has quite ended."""
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
