"""A host with busy processors, while those of the machine, and so of other hosts, are not busy."""

from pathlib import Path

from preflight.lab import cgroups, kernel
from preflight.lab.faults.fault import Fault, FaultPlace, Undo
from preflight.lab.kernel import Process
from preflight.model.errors import UsageError

SHARE = 50  # % of one processor, for all processes of the host together
BUSY, BUSY_SECONDS = 2, 600
_PERIOD = 20_000  # microseconds; short, so that the host is slow but does not stutter


def _overload(place: FaultPlace) -> Undo:
    init, limit = place.host.running(), _PERIOD * SHARE // 100
    usual_group = cgroups.group_of(init.pid)
    try:
        group = cgroups.make(place.host.netns, limit, _PERIOD)
    except OSError as error:
        raise UsageError(f"host-overloaded needs cgroups with the controller cpu: {error}") from None
    _move(init, group)
    # One session for each, since kernels with autogroups share out time by session.
    busy = f"for n in $(seq {BUSY}); do setsid timeout {BUSY_SECONDS} sh -c 'while :; do :; done' & done; wait"
    started = place.start("/bin/sh", "-c", busy)
    _move(Process(**started), group)
    return {**started, "group": str(group), "usual": str(usual_group)}


def _unload(place: FaultPlace, undo: Undo) -> None:
    kernel.kill_and_wait(kernel.processes_below(Process(undo["pid"], undo["started"])))
    if place.host.init is not None:
        _move(place.host.init, Path(undo["usual"]))
    cgroups.remove_group(Path(undo["group"]))


def _move(root: Process, group: Path) -> None:
    """Move a process and all its descendants to a group. Processes that they start later are born there.

    This is done twice, since some of them may have been starting others.
    """
    for _ in range(2):
        for process in kernel.processes_below(root):
            cgroups.move(process, group)


FAULTS = (
    Fault(
        "host-overloaded",
        "host",
        ("HST116", "PRB103"),
        False,
        f"all processes of the host share {SHARE} % of a processor with {BUSY} busy processes, for {BUSY_SECONDS} s.",
        _overload,
        _unload,
    ),
)
