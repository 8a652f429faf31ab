"""The environment of a job: with probe.setup, probe.exec and probe.user, even if these lead into a container."""

from dataclasses import dataclass, field

from preflight.facts.quote import quote
from preflight.facts.reading import NOT_SET, Found

# Variables of the jobs' environment that are collected, by the beginning of their names.
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
READ_BY = ("NCCL_CONF_FILE",)  # variables that name a file that has to exist
# Variables that name a file which a job writes, so that its folder has to exist.
WRITTEN_BY = ("NCCL_DEBUG_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE")
MPI_PARAMETERS = ("btl_tcp_if_include", "btl_tcp_if_exclude")
NOWHERE = "the link leads nowhere"  # the collector's error


def npu_files(installed: str = "/usr/local/Ascend") -> tuple[str, ...]:
    """Return the files that a container for NPUs needs from its host, if the driver is installed in this folder."""
    driver = f"{installed}/driver"
    libraries = (f"{driver}/lib64", f"{driver}/lib64/common", f"{driver}/lib64/driver")
    return "/etc/hccn.conf", "/etc/ascend_install.info", "/usr/local/dcmi", *libraries, f"{driver}/version.info"


# The collector searches them in the driver's actual folder.
NPU_FILES = npu_files()


@dataclass(frozen=True)
class SeenFile:
    """A file or folder in the job's view. `kind`: file, folder, link, device, missing.

    The other fields of a link are those of its target. `text`: only for files that a variable names (a rank table, a
    whitelist), up to 1 MiB. For a rank table over 64 KiB it is a table with only this host's servers. `digest`: only
    for files and folders that must be equal on all hosts. It is the sha256 of a whole file's bytes, or of a folder's
    sorted list of names and sizes.
    """

    path: str
    kind: str
    text: str = ""
    digest: str = ""
    size: int = 0
    error: str = ""


@dataclass(frozen=True)
class SeenFolder:
    """A folder in the job's view, and its file system. `error`: why a job cannot use it.

    `source`: the mounted file system (store:/export, /dev/sda1) and the path from there to the folder; "" if unknown.
    """

    path: str
    filesystem: str = ""  # its type, as in /proc/self/mountinfo: nfs4, ext4, overlay
    source: str = ""
    error: str = ""


@dataclass(frozen=True)
class Parameter:
    """A parameter of Open MPI. `source`: the variable or the file that sets it."""

    value: str
    source: str


@dataclass(frozen=True)
class Mpi:
    """Open MPI in the job's view. `parameters`: those of MPI_PARAMETERS that are set, from the effective source."""

    mpirun: str = ""  # its path, by PATH; "": not on it
    parameters: dict[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRdma:
    """RDMA in the job's view. `devices`: those of /sys/class/infiniband.

    `nodes`: /dev/infiniband/uverbsN, by which programs use them. `libibverbs`: why it cannot be loaded; "" if it can,
    or if there is no device.
    """

    devices: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    libibverbs: str = ""


@dataclass(frozen=True)
class Job:
    """The environment of a job. `files`: by path. `groups`: ids of the user's groups, its own first.

    `variables`: those of PREFIXES in the jobs' environment, redacted, and those that NCCL's own files add.
    `contained`: the job runs in a container. `nccl_files`: variable → NCCL's file that sets it, if the environment does
    not. `nccl_ignored`: file and name of lines in these that NCCL does not accept as its variables.
    """

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
    hccl_test: Found[str] = NOT_SET  # path of the built all_reduce_test
    mpi: Mpi = field(default_factory=Mpi)
    project: SeenFolder | None = None  # None: the inventory has none
    environment: SeenFolder | None = None  # sys.prefix of the jobs' Python
    imports: dict[str, str] = field(default_factory=dict)  # package → path of an import; "": none
    nccl_files: dict[str, str] = field(default_factory=dict)
    nccl_ignored: tuple[tuple[str, str], ...] = ()
    rdma: JobRdma | None = None  # None: not collected

    def told(self, name: str) -> str:
        """Return `NCCL_IB_HCA='mlx5_1'`, with the name of the file that sets it, if it is not the environment."""
        file = self.nccl_files.get(name)
        return f"{name}={quote(self.variables[name])}" + (f" ({file})" if file else "")
