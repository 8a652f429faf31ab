"""Start of the command on the chosen nodes: one step of srun, or one mpirun. Pure."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from preflight.launch.job import HostLaunch, LaunchedJob, Variable
from preflight.launch.launchers import launches
from preflight.launch.text import script
from preflight.launch.words import LONGEST
from preflight.model.errors import UsageError
from preflight.transport.engine.open_mpi import Mpirun
from preflight.transport.engine.slurm import NOT_INHERITED
from preflight.transport.engine.slurm import SlurmJob as Allocation

_PART = LONGEST - len("PREFLIGHT_STEP_000=")  # bytes; Linux limits a variable as it limits an argument
_MOST = 1 << 20  # bytes of all of them; with a usual stack Linux allows 2 MiB, which include the shell's own variables
# The command line of mpirun has the command once for each node, so python3 -c reads the program from the environment.
_PROGRAM = "import os; exec(os.environ.pop('PREFLIGHT_PROGRAM'))"


@dataclass(frozen=True)
class Table:
    """The rank table of the chosen nodes, and its path on each of them while the command runs."""

    path: str
    text: str


@dataclass(frozen=True)
class Start:
    """Program and environment that replace this process."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def scripts(job: LaunchedJob) -> dict[str, str]:
    """Return for each host the script that bash runs there. Raises UsageError for a job that cannot start that way."""
    return {
        launch.host: script(_told(job, launch), job.cluster.probe, [f"{launch.host}: started by preflight exec"])
        for launch in launches(job)
    }


def _told(job: LaunchedJob, launch: HostLaunch) -> HostLaunch:
    """Return the launch with the variables that torchrun reads instead of its options.

    Source: PET_* in torch/distributed/argparse_util.py.
    """
    values = {variable.name: variable.value for variable in launch.variables}
    place = next(place for place in job.places if place.name == launch.host)
    torchrun = {
        "NNODES": str(len(job.places)),
        "NODE_RANK": str(job.places.index(place)),
        "NPROC_PER_NODE": str(len(place.devices)),
        "MASTER_ADDR": job.master,
        "MASTER_PORT": str(job.port),
        "RDZV_BACKEND": "static",
        "RDZV_ENDPOINT": f"{job.master}:{job.port}",
        "STANDALONE": "0",
    }
    variables = [Variable("NNODES", str(len(job.places)), "the number of hosts of the job")]
    variables += [
        Variable(name, torchrun[name], "the same value that torchrun gets") for name in ("NODE_RANK", "NPROC_PER_NODE")
    ]
    why = "torchrun's default for an option that the command does not set"
    variables += [Variable(f"PET_{name}", value, why) for name, value in torchrun.items()]
    return replace(
        launch, variables=(*launch.variables, *(variable for variable in variables if variable.name not in values))
    )


def packed(of_nodes: Mapping[str, str], table: Table | None, program: str) -> dict[str, str]:
    """Return the variables that bring `program` (preflight/remote/step/) and its input to all nodes.

    Raises UsageError if they are more than an environment holds.
    """
    request = {"scripts": of_nodes, "table": {"path": table.path, "text": table.text} if table else None}
    text = base64.b64encode(zlib.compress(json.dumps(request).encode(), 9)).decode("ascii")
    if len(text) > _MOST:
        raise UsageError(
            f"the settings for {len(of_nodes)} nodes are too large for an environment. Push the rank table with "
            "preflight ranktable --push and use --no-rank-table, or start the job as preflight launch prints it"
        )
    parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
    return {"PREFLIGHT_PROGRAM": program} | {f"PREFLIGHT_STEP_{number}": part for number, part in enumerate(parts)}


def by_srun(here: Allocation, nodes: Sequence[str], told: Mapping[str, str], environment: Mapping[str, str]) -> Start:
    """Return the srun that starts the step.

    `nodes`: by their names in Slurm, in any order: each finds its part by its own name.
    """
    count = len(nodes)
    argv = (
        here.srun,
        f"--jobid={here.number}",
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        f"--nodelist={','.join(nodes)}",
        *here.overlap,
        "--export=ALL",
        "--mpi=none",
        "--input=none",
        "--cpu-bind=none",
        "--wait=0",
        "--kill-on-bad-exit=1",
        "--quit-on-interrupt",
        "--quiet",
        "python3",
        "-I",
        "-c",
        _PROGRAM,
    )
    inherited = {name: value for name, value in environment.items() if name not in NOT_INHERITED}
    return Start(argv, {**inherited, **told})


def by_mpirun(
    found: Mpirun, addresses: Mapping[str, str], told: Mapping[str, str], environment: Mapping[str, str], *, path: bool
) -> Start:
    """Return the mpirun that starts the step.

    `addresses`: node → its address for mpirun. Each node has its own application, which gets the node's name. `path`:
    this shell's PATH is the nodes', too.
    """
    own = [*told, *(name for name in ("PATH", "LD_LIBRARY_PATH") if path and name in environment)]
    passed = tuple(word for name in own for word in ("-x", name))
    quiet = ("--mca", "orte_tag_output", "0", "--mca", "orte_timestamp_output", "0") if found.major < 5 else ()
    argv = [found.path, *found.root, "--stdin", "none", "--bind-to", "none", *quiet]
    for number, (node, address) in enumerate(addresses.items()):
        argv += [":"] if number else []
        argv += ["--host", f"{address}:1", "-n", "1", *passed]
        argv += ["python3", "-I", "-c", _PROGRAM, node]
    return Start(tuple(argv), {**environment, **told})
