"""A job, and what is started for it on each host."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import accumulate

from preflight.model.cluster import Cluster, Host


class Launcher(StrEnum):
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


LOOPBACK = "127.0.0.1"  # where the ranks of a job of one host meet that is known by no other address

# These are started on the first host alone, and give all ranks one environment.
FROM_ONE_HOST = frozenset({Launcher.MPIRUN, Launcher.PERSEUSRUN, Launcher.SRUN, Launcher.DEEPSPEED})

# Whose of the inventory's ports a master may listen on (Cluster.purpose); the others are HCCL's.
FOR_MASTERS = frozenset({"job", "master", "rendezvous", "mindspore", "volcano"})


@dataclass(frozen=True)
class Place:
    """A host of the job. `address`: where the others reach it; `nic`: its host NIC, and `nic_address` the address of
    that, both empty where they are not known; `devices`: the indices of those that the job takes."""

    name: str
    address: str
    devices: tuple[int, ...]
    nic: str = ""
    nic_address: str = ""


@dataclass(frozen=True)
class Job:
    """`places`: in the order of their ranks. `program`: as it was given, its first word a Python file, `-m`, or any
    program. `own`: variables that the caller wants; they count before all others. `forward`: names of variables that
    mpirun passes on as they are. `network`: the host network as a CIDR, where there is one."""

    launcher: Launcher
    cluster: Cluster
    places: tuple[Place, ...]
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
        """Whether all hosts run the same number of processes."""
        return len({len(place.devices) for place in self.places}) == 1

    @cached_property
    def first_ranks(self) -> Mapping[str, int]:
        """Name of a host → the rank of its first process."""
        ends = accumulate(len(place.devices) for place in self.places)
        return {place.name: end - len(place.devices) for place, end in zip(self.places, ends, strict=True)}

    @property
    def on_loopback(self) -> bool:
        return self.master == LOOPBACK

    @cached_property
    def planned(self) -> Mapping[str, Host]:
        """Name → the host in the inventory."""
        return {host.name: host for host in self.cluster.hosts}

    @property
    def interpreter(self) -> tuple[str, ...]:
        """What has to stand in front of the program where its launcher starts it as it is."""
        return (self.cluster.probe.python,) if self.is_python else ()

    @property
    def is_python(self) -> bool:
        return self.program[0] == "-m" or self.program[0].endswith(".py")


@dataclass(frozen=True)
class Variable:
    """`why`: for the line of comment above it."""

    name: str
    value: str
    why: str


@dataclass(frozen=True)
class File:
    """A file that the launcher reads, written where it is started."""

    name: str
    text: str


@dataclass(frozen=True)
class Process:
    """What is started: its arguments, and the variables that are its own."""

    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HostLaunch:
    """What is done on one host. `command` is the shell text that starts `processes`, when `variables` are exported; it
    may name them ("$NODE_RANK"), so that it is the same text on many hosts."""

    host: str
    variables: tuple[Variable, ...]
    command: str
    processes: tuple[Process, ...]
    files: tuple[File, ...] = ()
