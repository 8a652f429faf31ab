"""The environment of jobs that a launcher starts over ssh, and that of a person's login shell, for comparison.

This is collected only if the inventory's [job] names a launcher that works over ssh.
"""

from dataclasses import dataclass

# Variables that matter to jobs, by the beginning of their names. PATH is compared by the programs that it finds.
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
class ShellView:
    """The environment of one kind of shell. `mpi`: output of mpirun --version.

    `programs`: each of PROGRAMS → its path by PATH. "": not on it.
    """

    variables: dict[str, str]
    programs: dict[str, str]
    mpi: str = ""


@dataclass(frozen=True)
class Shells:
    """The environments of `user`. `shell`: the user's login shell.

    `login`: the environment of an interactive login shell. None: `error` has the reason.
    """

    user: str
    shell: str
    over_ssh: ShellView
    login: ShellView | None = None
    error: str = ""
