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
    "HCCL_SOCKET_IFNAME": "the host NIC, exactly this one (the second = says so); unset, HCCL takes the first by name",
    "HCCL_IF_BASE_PORT": "the first of the ports that HCCL binds on the host: those that the inventory reserves",
    "HCCL_HOST_SOCKET_PORT_RANGE": "the ports that HCCL binds on the host: those that the inventory reserves",
}


def variables(job: LaunchedJob, place: JobHost) -> tuple[Variable, ...]:
    """Return the variables of a host, with the user's own before ours.

    Launchers that give all ranks one environment get only variables with one value for all hosts.
    """
    exported = {variable.name: variable for variable in _variables(job, place)}
    exported |= {name: Variable(name, value, "asked for with --env") for name, value in job.own.items()}
    return tuple(exported.values())


def _variables(job: LaunchedJob, place: JobHost) -> Iterator[Variable]:
    yield from _meeting(job)
    yield from _devices(job, place)
    if job.cluster.product.is_npu and job.cluster.probe.backend == "hccl":
        yield from _hccl(job, place)
    elif job.cluster.probe.backend == "nccl":
        if place.nic:
            yield Variable(
                "NCCL_SOCKET_IFNAME", f"={place.nic}", "the host NIC, exactly this one (the second = says so)"
            )
        yield Variable(
            "NCCL_DEBUG", "WARN", "errors of NCCL are printed with their cause; INFO prints what it chooses, too"
        )
    if job.launcher is JobLauncher.MSRUN:
        return
    if place.nic:
        yield Variable(
            "GLOO_SOCKET_IFNAME", place.nic, "the host NIC for groups on the CPU; unset, what the host name means"
        )
    elif job.on_loopback:
        yield Variable("GLOO_SOCKET_IFNAME", "lo", "groups on the CPU stay on this host, whatever its name means")


def _meeting(job: LaunchedJob) -> Iterator[Variable]:
    if job.launcher in _READ_MASTER:
        yield Variable("MASTER_ADDR", job.master, f"rank 0 is on {job.places[0].name}; all ranks meet there")
        yield Variable("MASTER_PORT", str(job.port), "the port that rank 0 listens on for that")
    if job.launcher in (JobLauncher.SPAWN, JobLauncher.SHELL):
        yield Variable("WORLD_SIZE", str(job.size), "processes on all hosts together")


def _devices(job: LaunchedJob, place: JobHost) -> Iterator[Variable]:
    name = _VISIBLE.get(job.cluster.product, "ASCEND_RT_VISIBLE_DEVICES")
    planned = tuple(device.index for device in job.planned[place.name].devices)
    if name and job.launcher is not JobLauncher.DEEPSPEED and place.devices != planned:  # DeepSpeed passes on --include
        why = "the devices that the job sees; in it they are counted anew, from 0"
        yield Variable(name, ",".join(map(str, place.devices)), why)


def _hccl(job: LaunchedJob, place: JobHost) -> Iterator[Variable]:
    if job.launcher not in FROM_ONE_HOST and place.nic_address:
        yield Variable(
            "HCCL_IF_IP", place.nic_address, "the address of this host on its host NIC; another one on every host"
        )
    for name, value in of_profile(job.cluster, place.nic).items():
        yield Variable(name, value, _WHY.get(name, "from [host_setup] of the inventory"))
    yield Variable("HCCL_WHITELIST_DISABLE", "1", "no whitelist of addresses: all hosts of the job may connect")
    if "HCCL_CONNECT_TIMEOUT" not in (job.cluster.setup.profile or {}):
        timeout = next(seconds for cards, seconds in _CONNECT_TIMEOUTS if job.size >= cards)
        why = f"seconds that ranks wait for each other; what the vendor advises for {job.size} NPUs"
        yield Variable("HCCL_CONNECT_TIMEOUT", str(timeout), why)
    if job.launcher is not JobLauncher.MSRUN:
        yield Variable(
            "NPU_ASD_ENABLE", "1", "torch_npu looks for silent data errors (up to 7.0.0; then NPU_ASD_CONFIG)"
        )
    yield from _rank_table(job)


def _rank_table(job: LaunchedJob) -> Iterator[Variable]:
    if job.rank_table:
        yield Variable("RANK_TABLE_FILE", job.rank_table, "who has which rank; the same file on every host")
    if job.rank_table or job.launcher is JobLauncher.SHELL:
        yield Variable("RANK_SIZE", str(job.size), "what WORLD_SIZE is to torch, for CANN")


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
            raise UsageError(f"--env {name}: {value!r} has more than one line, or control characters")
        if name == "HCCL_IF_IP" and hosts > 1:
            raise UsageError(f"--env {name}={value}: all {hosts} hosts would get it, and each has its own")
        _refuse_value(name, value, product)
        variables[name] = value
    return variables


def _refuse_value(name: str, value: str, product: Product) -> None:
    if name in _RANKS:
        raise UsageError(f"--env {name}: that is the launcher's to say; see --master-port, --devices and --limit")
    if slip := meant(name):
        raise UsageError(f"--env {name} is no variable of HCCL; did you mean {slip}?")
    allowed = rule(name, product) if name in RULES and product.is_npu else None
    if allowed and not allowed.allows(value):
        raise UsageError(f"--env {name}={value}: it takes {allowed.wants}")
