"""A job, and its commands on each host."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import accumulate

from preflight.model.cluster import Cluster, Host


class JobLauncher(StrEnum):
    """The launchers that preflight writes commands for."""

    TORCHRUN = "torchrun"
    LAUNCH = "torch.distributed.launch"
    SPAWN = "spawn"
    SHELL = "shell"
    MPIRUN = "mpirun"
    PERSEUSRUN = "perseusrun"
    SRUN = "srun"
    DEEPSPEED = "deepspeed"
    MSRUN = "msrun"
    TORCH_NPU_RUN = "torch_npu_run"


LOOPBACK = "127.0.0.1"  # where ranks meet on one host that has no other address

# These are started on the first host alone, and give all ranks one environment.
FROM_ONE_HOST = frozenset({JobLauncher.MPIRUN, JobLauncher.PERSEUSRUN, JobLauncher.SRUN, JobLauncher.DEEPSPEED})

# Purposes of the inventory's ports that a master may listen on (Cluster.purpose); the others are HCCL's.
FOR_MASTERS = frozenset({"job", "master", "rendezvous", "mindspore", "volcano"})


@dataclass(frozen=True)
class JobHost:
    """A host of the job.

    The others reach it at `address`. `nic` is its host NIC with the `nic_address`; both are empty if unknown. `devices`
    has the indices of the job's devices.
    """

    name: str
    address: str
    devices: tuple[int, ...]
    nic: str = ""
    nic_address: str = ""


@dataclass(frozen=True)
class LaunchedJob:
    """A job of one program on several hosts.

    `places` are the hosts in the order of their ranks. `program` begins with a Python file, `-m`, or any program. `own`
    has the user's variables, which take precedence. `forward` has the names of variables that mpirun passes on.
    `network` is the host network as a CIDR, where there is one.
    """

    launcher: JobLauncher
    cluster: Cluster
    places: tuple[JobHost, ...]
    program: tuple[str, ...]
    port: int
    own: Mapping[str, str] = field(default_factory=dict)
    forward: tuple[str, ...] = ()
    rank_table: str = ""
    network: str = ""
    mpi_home: str = ""

    @property
    def master(self) -> str:
        return self.places[0].address

    @cached_property
    def size(self) -> int:
        return sum(len(place.devices) for place in self.places)

    @cached_property
    def even(self) -> bool:
        """Return whether all hosts run the same number of processes."""
        return len({len(place.devices) for place in self.places}) == 1

    @cached_property
    def first_ranks(self) -> Mapping[str, int]:
        """Return the name of a host → the rank of its first process."""
        ends = accumulate(len(place.devices) for place in self.places)
        return {place.name: end - len(place.devices) for place, end in zip(self.places, ends, strict=True)}

    @property
    def on_loopback(self) -> bool:
        return self.master == LOOPBACK

    @cached_property
    def planned(self) -> Mapping[str, Host]:
        """Return a name → the host in the inventory."""
        return {host.name: host for host in self.cluster.hosts}

    @property
    def interpreter(self) -> tuple[str, ...]:
        """Return the words in front of a Python program, for launchers that start a program as any other."""
        return (self.cluster.probe.python,) if self.is_python else ()

    @property
    def is_python(self) -> bool:
        return self.program[0] == "-m" or self.program[0].endswith(".py")


@dataclass(frozen=True)
class Variable:
    """A variable of the environment. `why` is the comment above it."""

    name: str
    value: str
    why: str


@dataclass(frozen=True)
class LaunchFile:
    """A file that the launcher reads, in the folder that it is started in."""

    name: str
    text: str


@dataclass(frozen=True)
class RankProcess:
    """A process that a host starts: its arguments, and its own variables."""

    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HostLaunch:
    """The commands of one host.

    `command` is the shell text that starts `processes` after `variables` are exported. It may use them ("$NODE_RANK"),
    so that it is the same text on many hosts.
    """

    host: str
    variables: tuple[Variable, ...]
    command: str
    processes: tuple[RankProcess, ...]
    files: tuple[LaunchFile, ...] = ()
