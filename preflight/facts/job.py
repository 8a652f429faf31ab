"""What a job would find where jobs run: behind probe.setup, probe.exec and probe.user, also where they lead into a
container."""

from dataclasses import dataclass, field

from preflight.facts.found import Found


@dataclass(frozen=True)
class SeenFile:
    """A file or folder in the job's view that matters to it. `kind`: file, folder, link, device, missing.

    `text` is kept of small files that a check reads (a rank table, a whitelist); `digest` of what must be equal on all
    hosts: sha256 of a file's bytes, of a folder's sorted list of names and sizes.
    """

    path: str
    kind: str
    text: str = ""
    digest: str = ""
    size: int = 0
    error: str = ""


@dataclass(frozen=True)
class Job:
    """`variables`: of the environment that jobs start with, those whose names begin with HCCL_, ASCEND_, TORCH_, NPU_,
    GLOO_, TP_, NCCL_, CM_, P2P_HCCL_, RANK_TABLE_FILE, LD_LIBRARY_PATH, MASTER_ADDR, MASTER_PORT; secrets redacted.
    `files`: by path. `groups`: ids of the user's groups, its own first. `contained`: runs in a container."""

    user: str
    uid: int
    groups: tuple[int, ...]
    capabilities: int  # CapEff
    contained: bool
    variables: dict[str, str]
    files: dict[str, SeenFile] = field(default_factory=dict)
    packages: dict[str, str] = field(
        default_factory=dict
    )  # mindspore, torch, torch_npu, numpy, scipy, decorator, attrs
    devices: tuple[int, ...] = ()  # N of /dev/davinciN in the job's view
    hccl_test: Found[str] = field(default_factory=Found)  # where the built all_reduce_test is
