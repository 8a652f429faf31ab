"""The variables that a job needs on each host, and why. Pure.

`preflight.rules.variables.hccl` has the allowed values of HCCL's variables, and `preflight.rules.setup_files` those
that follow from the inventory. This module has only the variables that a start script adds to them.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from preflight.launch.job import FROM_ONE_HOST, JobHost, JobLauncher, LaunchedJob, Variable
from preflight.model.cluster import Cluster, Product
from preflight.model.errors import UsageError
from preflight.rules.setup_files import profile_file
from preflight.rules.variables.hccl import RULES, meant, rule

# From so many NPUs on, the seconds that the HCCL user guide advises for HCCL_CONNECT_TIMEOUT.
_CONNECT_TIMEOUTS = ((5000, 600), (3000, 240), (0, 120))
_RANKS = frozenset(
    [
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "NODE_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK_ID",
        "DEVICE_ID",
        "RANK_SIZE",
        "FIRST_RANK",
        "NPROC_PER_NODE",
    ]
)
# Launchers that need MASTER_ADDR and MASTER_PORT; the others have options for the master.
_READ_MASTER = frozenset({JobLauncher.SPAWN, JobLauncher.SHELL, JobLauncher.MPIRUN, JobLauncher.SRUN})
_VISIBLE = {Product.NVIDIA: "CUDA_VISIBLE_DEVICES", Product.CPU: ""}  # else ASCEND_RT_VISIBLE_DEVICES
_WHY = {
    "HCCL_SOCKET_IFNAME": "the host NIC. The second = makes it an exact name. Without it HCCL takes the first by name",
    "HCCL_IF_BASE_PORT": "the first port that HCCL binds on the host, as the inventory reserves it",
    "HCCL_HOST_SOCKET_PORT_RANGE": "the ports that HCCL binds on the host, as the inventory reserves them",
}


def variables(job: LaunchedJob, place: JobHost) -> tuple[Variable, ...]:
    """Return the variables of a host, with the user's own before ours.

    Launchers that give all ranks one environment get only variables with one value for all hosts.
    """
    exported = {variable.name: variable for variable in _variables(job, place)}
    exported |= {name: Variable(name, value, "set with --env") for name, value in job.own.items()}
    return tuple(exported.values())


def _variables(job: LaunchedJob, place: JobHost) -> Iterator[Variable]:
    yield from _meeting(job)
    yield from _devices(job, place)
    if job.cluster.product.is_npu and job.cluster.probe.backend == "hccl":
        yield from _hccl(job, place)
    elif job.cluster.probe.backend == "nccl":
        if place.nic:
            yield Variable("NCCL_SOCKET_IFNAME", f"={place.nic}", "the host NIC. The second = makes it an exact name")
        yield Variable("NCCL_DEBUG", "WARN", "prints NCCL's errors with their cause. INFO also prints NCCL's choices")
    if job.launcher is JobLauncher.MSRUN:
        return
    if place.nic:
        yield Variable(
            "GLOO_SOCKET_IFNAME",
            place.nic,
            "the host NIC for CPU groups. Without it, gloo uses the address that the host name resolves to",
        )
    elif job.on_loopback:
        yield Variable("GLOO_SOCKET_IFNAME", "lo", "keeps CPU groups on this host, whatever its name resolves to")


def _meeting(job: LaunchedJob) -> Iterator[Variable]:
    if job.launcher in _READ_MASTER:
        yield Variable(
            "MASTER_ADDR", job.master, f"the address of {job.places[0].name}, the host of rank 0, where all ranks meet"
        )
        yield Variable("MASTER_PORT", str(job.port), "the port on which rank 0 listens")
    if job.launcher in (JobLauncher.SPAWN, JobLauncher.SHELL):
        yield Variable("WORLD_SIZE", str(job.size), "the number of processes on all hosts together")


def _devices(job: LaunchedJob, place: JobHost) -> Iterator[Variable]:
    name = _VISIBLE.get(job.cluster.product, "ASCEND_RT_VISIBLE_DEVICES")
    planned = tuple(device.index for device in job.planned[place.name].devices)
    if name and job.launcher is not JobLauncher.DEEPSPEED and place.devices != planned:  # DeepSpeed passes on --include
        why = "the devices that the job sees, numbered from 0 within the job"
        yield Variable(name, ",".join(map(str, place.devices)), why)


def _hccl(job: LaunchedJob, place: JobHost) -> Iterator[Variable]:
    if job.launcher not in FROM_ONE_HOST and place.nic_address:
        yield Variable("HCCL_IF_IP", place.nic_address, "the address of this host's NIC, different on every host")
    for name, value in of_profile(job.cluster, place.nic).items():
        yield Variable(name, value, _WHY.get(name, "from [host_setup] in the inventory"))
    yield Variable(
        "HCCL_WHITELIST_DISABLE", "1", "disables the address whitelist, so that all hosts of the job may connect"
    )
    if "HCCL_CONNECT_TIMEOUT" not in (job.cluster.setup.profile or {}):
        timeout = next(seconds for cards, seconds in _CONNECT_TIMEOUTS if job.size >= cards)
        why = f"seconds that ranks wait for each other, the vendor's recommendation for {job.size} NPUs"
        yield Variable("HCCL_CONNECT_TIMEOUT", str(timeout), why)
    if job.launcher is not JobLauncher.MSRUN:
        yield Variable(
            "NPU_ASD_ENABLE",
            "1",
            "detects silent data errors in torch_npu up to 7.0.0. Later releases use NPU_ASD_CONFIG",
        )
    yield from _rank_table(job)


def _rank_table(job: LaunchedJob) -> Iterator[Variable]:
    if job.rank_table:
        yield Variable("RANK_TABLE_FILE", job.rank_table, "the rank of each device, in the same file on every host")
    if job.rank_table or job.launcher is JobLauncher.SHELL:
        yield Variable("RANK_SIZE", str(job.size), "CANN's name for torch's WORLD_SIZE")


def of_profile(cluster: Cluster, nic: str) -> Mapping[str, str]:
    """Return HCCL's variables that follow from the inventory.

    They are those of the profile that configure-environment writes, also where the inventory has no profile.
    """
    setup = replace(cluster.setup, profile=cluster.setup.profile or {})
    words = shlex.split(profile_file(replace(cluster, setup=setup), nic) or "", comments=True)
    pairs = (word.partition("=") for word in words if word != "export")
    return {name: value for name, _, value in pairs}


def checked(pairs: list[str], product: Product, hosts: int) -> dict[str, str]:
    """Return the variables of --env NAME=VALUE.

    Raises UsageError for wrong names, misspelled ones, values that HCCL refuses, and one address for several `hosts`.
    """
    variables = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"--env {pair!r} is not NAME=VALUE")
        if not value.isprintable():
            raise UsageError(f"--env {name}: {value!r} has several lines or control characters")
        if name == "HCCL_IF_IP" and hosts > 1:
            raise UsageError(
                f"--env {name}={value}: all {hosts} hosts would get this value, but each host needs its own"
            )
        _refuse_value(name, value, product)
        variables[name] = value
    return variables


def _refuse_value(name: str, value: str, product: Product) -> None:
    if name in _RANKS:
        raise UsageError(f"--env {name}: the launcher sets this variable. Use --master-port, --devices and --limit")
    if slip := meant(name):
        raise UsageError(f"--env {name}: HCCL has no such variable. Did you mean {slip}?")
    allowed = rule(name, product) if name in RULES and product.is_npu else None
    if allowed and not allowed.allows(value):
        raise UsageError(f"--env {name}={value}: the value must be {allowed.wants}")
