"""Open MPI: one mpirun with a rank on each host, started as the site's mpirun starts its daemons (ssh, Slurm, PBS)."""

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
_BY_STDIN = (
    "--stdin", "all", "--mca", "orte_max_restarts", "0", "--mca", "orte_abort_on_non_zero_status", "0",
    "--mca", "orte_tag_output", "0", "--mca", "orte_timestamp_output", "0",  # whatever the site likes in front of lines
)  # fmt: skip
# Open MPI 5.0 repeats and loses parts of long input (https://github.com/openpmix/prrte/issues/2579).
_BY_CALLS = ("--stdin", "none", "-x", "PREFLIGHT_CALL")


@dataclass(frozen=True)
class Mpirun:
    """`root`: what it wants to hear from root."""

    path: str
    major: int
    root: tuple[str, ...]


def mpirun_of(environment: Mapping[str, str]) -> Mpirun:
    """Raises UsageError where there is no mpirun that fits."""
    mpirun = shutil.which("mpirun", path=environment.get("PATH"))
    if not mpirun:
        raise UsageError("--via mpi needs Open MPI's mpirun on PATH")
    told = answer(mpirun, "--version", environment)
    found = re.search(r"\(Open MPI\) ((\d+)\.\S+)", told)
    if not found:
        raise UsageError(f"--via mpi needs Open MPI; {mpirun} says: {told.partition(chr(10))[0][:100] or 'nothing'}")
    major = int(found[2])
    if major < 4:
        raise UsageError(f"--via mpi needs Open MPI 4 or newer, and {mpirun} is {found[1]}")
    return Mpirun(mpirun, major, ("--allow-run-as-root",) if os.geteuid() == 0 else ())


def addresses_of(hosts: Sequence[Host], environment: Mapping[str, str]) -> list[str]:
    """What mpirun knows the hosts by."""
    managed = any(name in environment for name in _MANAGED)
    return [host.name if managed else host.address for host in hosts]


def open_mpi(hosts: Sequence[Host], environment: Mapping[str, str]) -> EngineSite:
    """Raises UsageError where there is no mpirun that fits."""
    found = mpirun_of(environment)
    calls, root = found.major > 4, found.root
    addresses = addresses_of(hosts, environment)
    return EngineSite(
        "mpirun",
        (
            found.path, *root, "-x", "PREFLIGHT_NONCE", "-x", "PREFLIGHT_RANK_IN", *(_BY_CALLS if calls else _BY_STDIN),
            "--host", ",".join(f"{address}:1" for address in addresses), "-n", str(len(hosts)),
            "--map-by", "ppr:1:node", "--bind-to", "none",
            "--enable-recovery",  # a rank that dies takes nobody with it
        ),
        "OMPI_COMM_WORLD_RANK",
        _called(hosts),
        lambda host: " ".join(("mpirun", *root, "--host", f"{addresses[_index(hosts, host)]}:1", "-n 1 hostname")),
        calls=calls,
    )  # fmt: skip


def _called(hosts: Sequence[Host]) -> dict[str, str]:
    """Whatever a node may call itself → host: the inventory's name and address, and names without their domain, where
    that is one host's only."""
    called: dict[str, str] = {}
    for host in hosts:
        for name in (host.name, host.address):
            called[name] = host.name
    for host in hosts:
        for name in (host.name, host.address):
            called.setdefault(short(name), host.name)
    return called


def _index(hosts: Sequence[Host], name: str) -> int:
    return next(index for index, host in enumerate(hosts) if host.name == name)
