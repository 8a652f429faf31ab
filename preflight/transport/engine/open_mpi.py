"""Open MPI engine: one mpirun with a rank on each host. mpirun starts its daemons by ssh, Slurm or PBS."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from preflight.model.cluster import Host
from preflight.model.errors import UsageError
from preflight.transport.engine.names import short
from preflight.transport.engine.site import EngineSite, answer

_MANAGED = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")  # in such a job mpirun knows nodes by the manager's names
# The last two override a site's default that puts a prefix in front of every line.
_MCA = ("orte_max_restarts", "orte_abort_on_non_zero_status", "orte_tag_output", "orte_timestamp_output")
_BY_STDIN = ("--stdin", "all", *(word for name in _MCA for word in ("--mca", name, "0")))
# Open MPI 5.0 repeats and loses parts of long input (https://github.com/openpmix/prrte/issues/2579).
_BY_CALLS = ("--stdin", "none", "-x", "PREFLIGHT_CALL")


@dataclass(frozen=True)
class Mpirun:
    """An installed mpirun. `root` is the option that it requires from root."""

    path: str
    major: int
    root: tuple[str, ...]


def mpirun_of(environment: Mapping[str, str]) -> Mpirun:
    """Return the site's mpirun. Raises UsageError if there is none of Open MPI 4 or newer."""
    mpirun = shutil.which("mpirun", path=environment.get("PATH"))
    if not mpirun:
        raise UsageError("--via mpi needs Open MPI's mpirun on PATH")
    text = answer(mpirun, "--version", environment)
    version = re.search(r"\(Open MPI\) ((\d+)\.\S+)", text)
    if not version:
        raise UsageError(
            f"--via mpi needs Open MPI, but {mpirun} prints: {text.partition(chr(10))[0][:100] or 'nothing'}"
        )
    major = int(version[2])
    if major < 4:
        raise UsageError(f"--via mpi needs Open MPI 4 or newer, but {mpirun} is {version[1]}")
    return Mpirun(mpirun, major, ("--allow-run-as-root",) if os.geteuid() == 0 else ())


def addresses_of(hosts: Sequence[Host], environment: Mapping[str, str]) -> list[str]:
    """Return the name or address by which mpirun knows each host."""
    managed = any(name in environment for name in _MANAGED)
    return [host.name if managed else host.address for host in hosts]


def open_mpi(hosts: Sequence[Host], environment: Mapping[str, str]) -> EngineSite:
    """Return the engine of the site's mpirun. Raises UsageError if there is none of Open MPI 4 or newer."""
    mpirun = mpirun_of(environment)
    calls = mpirun.major > 4
    addresses = dict(zip((host.name for host in hosts), addresses_of(hosts, environment), strict=True))
    slots = ",".join(f"{address}:1" for address in addresses.values())
    carrier = _BY_CALLS if calls else _BY_STDIN
    # With recovery, a rank that dies does not end the others.
    layout = ("-n", str(len(hosts)), "--map-by", "ppr:1:node", "--bind-to", "none", "--enable-recovery")
    variables = ("-x", "PREFLIGHT_NONCE", "-x", "PREFLIGHT_RANK_IN")
    return EngineSite(
        name="mpirun",
        argv=(mpirun.path, *mpirun.root, *variables, *carrier, "--host", slots, *layout),
        rank="OMPI_COMM_WORLD_RANK",
        called=_called(hosts),
        try_out=lambda host: " ".join(("mpirun", *mpirun.root, "--host", f"{addresses[host]}:1", "-n 1 hostname")),
        calls=calls,
    )


def _called(hosts: Sequence[Host]) -> dict[str, str]:
    """Return node name → host: the inventory's names and addresses, and names without a domain if they are unique."""
    called: dict[str, str] = {}
    for host in hosts:
        for name in (host.name, host.address):
            called[name] = host.name
    for host in hosts:
        for name in (host.name, host.address):
            called.setdefault(short(name), host.name)
    return called
