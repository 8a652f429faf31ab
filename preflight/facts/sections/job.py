"""What a job would find where jobs run: behind probe.setup, probe.exec and probe.user, also where they lead into a
container."""

from dataclasses import dataclass, field

from preflight.facts.quote import quote
from preflight.facts.reading import Found

# Variables of the jobs' environment that are looked at, by the beginning of their names.
PREFIXES = (
    "HCCL_",
    "ASCEND_",
    "TORCH_",
    "NPU_",
    "GLOO_",
    "TP_",
    "NCCL_",
    "CM_",
    "P2P_HCCL_",
    "RANK_",
    "LD_LIBRARY_PATH",
    "MASTER_ADDR",
    "MASTER_PORT",
    "CUDA_VISIBLE_DEVICES",
)
NAMED_BY = ("RANK_TABLE_FILE", "HCCL_WHITELIST_FILE", "HCCL_RDMA_QP_PORT_CONFIG_PATH")  # variables that name a file
READ_BY = ("NCCL_CONF_FILE",)  # variables that name a file of which it matters that it is there
# Variables that name a file which is to be written: what matters is its folder.
WRITTEN_BY = ("NCCL_DEBUG_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE")
MPI_PARAMETERS = ("btl_tcp_if_include", "btl_tcp_if_exclude")
NOWHERE = "the link leads nowhere"  # the collector's word for it


def npu_files(installed: str = "/usr/local/Ascend") -> tuple[str, ...]:
    """What a container for NPUs has to have from its host, where the driver is installed in this folder."""
    driver = f"{installed}/driver"
    libraries = (f"{driver}/lib64", f"{driver}/lib64/common", f"{driver}/lib64/driver")
    return "/etc/hccn.conf", "/etc/ascend_install.info", "/usr/local/dcmi", *libraries, f"{driver}/version.info"


# The collector looks for them where the driver is.
NPU_FILES = npu_files()


@dataclass(frozen=True)
class SeenFile:
    """A file or folder in the job's view that matters to it. `kind`: file, folder, link, device, missing; of a link,
    the rest is of what it leads to.

    `text` is kept of files that a variable names (a rank table, a whitelist), up to 1 MiB; of a rank table over 64 KiB
    it is a table with this host's servers alone. `digest` is kept of what must be equal on all hosts: sha256 of a whole
    file's bytes, of a folder's sorted list of names and sizes.
    """

    path: str
    kind: str
    text: str = ""
    digest: str = ""
    size: int = 0
    error: str = ""


@dataclass(frozen=True)
class SeenFolder:
    """A folder in the job's view, and the file system that it is in. `source`: what is mounted (store:/export,
    /dev/sda1) and the way from there to the folder; "" where that is not known. `error`: why a job cannot use it."""

    path: str
    filesystem: str = ""  # its type, as in /proc/self/mountinfo: nfs4, ext4, overlay
    source: str = ""
    error: str = ""


@dataclass(frozen=True)
class Parameter:
    """`source`: the variable or the file that sets it."""

    value: str
    source: str


@dataclass(frozen=True)
class Mpi:
    """Open MPI in the job's view. `parameters`: those of MPI_PARAMETERS that are set, from the source that counts."""

    mpirun: str = ""  # its path, by PATH; "": not on it
    parameters: dict[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRdma:
    """RDMA in the job's view. `devices`: /sys/class/infiniband; `nodes`: /dev/infiniband/uverbsN, by which a program
    gets at them; `libibverbs`: why it cannot be loaded, "" where it can, or where there is no device."""

    devices: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    libibverbs: str = ""


@dataclass(frozen=True)
class Job:
    """`variables`: those of PREFIXES in the environment that jobs start with, secrets redacted, and what NCCL's own
    files add to it. `files`: by path. `groups`: ids of the user's groups, its own first. `contained`: runs in a
    container. `nccl_files`: variable → NCCL's file that sets it, where the environment does not; `nccl_ignored`: file
    and name of lines there that NCCL reads as no variable of its own."""

    user: str
    uid: int
    groups: tuple[int, ...]
    capabilities: int  # CapEff
    contained: bool
    variables: dict[str, str]
    files: dict[str, SeenFile] = field(default_factory=dict)
    # mindspore, torch, torch_npu, numpy, scipy, decorator, attrs; nvidia_nccl_cu12 and the like
    packages: dict[str, str] = field(default_factory=dict)
    devices: tuple[int, ...] = ()  # N of /dev/davinciN in the job's view
    hccl_test: Found[str] = field(default_factory=Found)  # where the built all_reduce_test is
    mpi: Mpi = field(default_factory=Mpi)
    project: SeenFolder | None = None  # None: the inventory names none
    environment: SeenFolder | None = None  # sys.prefix of the jobs' Python
    imports: dict[str, str] = field(default_factory=dict)  # package → where an import would find it; "": nowhere
    nccl_files: dict[str, str] = field(default_factory=dict)
    nccl_ignored: tuple[tuple[str, str], ...] = ()
    rdma: JobRdma | None = None  # None: not looked at

    def told(self, name: str) -> str:
        """`NCCL_IB_HCA='mlx5_1'`, and of which file that is, where it is not the environment's."""
        file = self.nccl_files.get(name)
        return f"{name}={quote(self.variables[name])}" + (f" ({file})" if file else "")
