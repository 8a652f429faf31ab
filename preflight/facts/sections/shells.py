"""What jobs find that a launcher starts over ssh, against what a person finds who logs in. Asked for only where the
inventory's [job] names a launcher that works over ssh."""

from dataclasses import dataclass

# Variables that matter to jobs, by the beginning of their names. PATH is compared by the programs that it leads to.
PREFIXES = ("LD_LIBRARY_PATH", "ASCEND_", "HCCL_", "NCCL_", "CUDA_", "GLOO_", "OMPI_MCA_")
PROGRAMS = (
    "mpirun",
    "orted",
    "prted",
    "python3",
    "python",
    "torchrun",
    "deepspeed",
    "pdsh",
    "perseusrun",
    "horovodrun",
    "npu-smi",
    "hccn_tool",
    "nvidia-smi",
    "nvcc",
)


@dataclass(frozen=True)
class Way:
    """`programs`: of PROGRAMS, the path of each by PATH; "": not on it. `mpi`: what mpirun says to --version."""

    variables: dict[str, str]
    programs: dict[str, str]
    mpi: str = ""


@dataclass(frozen=True)
class Shells:
    """Of `user`, who logs in, and whose login shell is `shell`. `login`: interactive; None: `error` says why not."""

    user: str
    shell: str
    over_ssh: Way
    login: Way | None = None
    error: str = ""
