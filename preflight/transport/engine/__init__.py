"""Transport through the site's own engine (Slurm's srun, Open MPI's mpirun): one process for all hosts."""

from collections.abc import Mapping, Sequence

from preflight.model.cluster import Host
from preflight.transport.engine.callbacks import make_room
from preflight.transport.engine.engine import Engine
from preflight.transport.engine.open_mpi import open_mpi
from preflight.transport.engine.slurm import slurm

__all__ = ["Engine", "open_engine"]


def open_engine(via: str, hosts: Sequence[Host], environment: Mapping[str, str]) -> Engine:
    """Return an engine for `hosts`. `via` is "slurm" or "mpi". Nothing is started yet.

    Raises UsageError if this machine cannot start the engine.
    """
    site = {"slurm": slurm, "mpi": open_mpi}[via](hosts, environment)
    if site.calls:
        make_room(len(hosts))
    return Engine(site, hosts)
