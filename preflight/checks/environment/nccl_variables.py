"""The variables that jobs give NCCL and torch: each by itself, together, and across hosts.

They come from the jobs' environment and from NCCL's own files. HST117 checks the host NIC that they select."""

from collections.abc import Iterator, Mapping

from preflight.attribution.culprit_words import counted
from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.environment.hccl_variables import Problem, watchdog_conflicts
from preflight.checks.shared.majority import odd_ones
from preflight.facts.compatibility import numbers
from preflight.facts.sections.job import READ_BY, WRITTEN_BY, Job, SeenFile
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.text import quote
from preflight.rules.variables.nccl import (
    FAMILIES,
    NUMBERS,
    RENAMED,
    RENAMED_IN,
    by_sockets,
    exactly,
    hcas,
    is_on,
    meaning,
    more_than_meant,
    number,
    unequal,
)

NVIDIA = frozenset({Product.NVIDIA})


@host_check("ENV113", "NCCL variable names and values", severity=Outcome.WARN, products=NVIDIA)
def valid(scribe: Here, job: Job) -> Iterator[Finding]:
    """Why: NCCL does not report a value that it cannot use. It reads only the digits of a number, so
    NCCL_IB_DISABLE=true disables nothing. If the folder of a log or flight recorder is missing, the file is not
    written. This shows only when the file is needed.

    Result: WARN for a value that NCCL cannot use, for a missing folder, and for a variable name from another PyTorch
    release. In nccl.conf, also WARN for a space around =, the word export and a Windows line ending.

    Check manually: Where jobs run:
      env | grep NCCL
      cat -A /etc/nccl.conf ~/.nccl.conf

    Fix: Apply the fix in the finding to the jobs' start script, the image or the file.
    """
    for problem, remedy in (*_unusable_values(job), *_ignored_settings(job), *_unusable_files(job), *_old_names(job)):
        yield scribe.bad(f"{scribe.host.name}: {problem}", remedy=remedy)


def _source(job: Job, name: str) -> str:
    """Return the place that sets a variable."""
    return job.nccl_files.get(name) or "the jobs' environment"


def _value(job: Job, name: str) -> str:
    return job.told(name).removeprefix(f"{name}=") if name in job.variables else "not set"


def _unusable_values(job: Job) -> Iterator[tuple[str, str]]:
    for name, value in job.variables.items():
        if not name.startswith("NCCL_"):
            continue
        if value and value[-1].isspace():
            character = "carriage return" if value.endswith("\r") else "space"
            problem = f"{job.told(name)} ends with a {character}, which NCCL reads as part of the value"
            yield problem, f"remove the {character} from the end of {name} in {_source(job, name)}"
        elif name in NUMBERS and value and number(value) is None:
            problem = f"{job.told(name)} is not a number, so NCCL reads its leading digits, 0 or the default"
            yield problem, f"set {name} to a number in {_source(job, name)}, or unset it"


def _ignored_settings(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the family and the lines of NCCL's files that have no effect."""
    family = job.variables.get("NCCL_SOCKET_FAMILY")
    if family and family not in FAMILIES:
        problem = (
            f"{job.told('NCCL_SOCKET_FAMILY')} is neither {' nor '.join(FAMILIES)}, so NCCL uses any address family"
        )
        yield problem, f"set NCCL_SOCKET_FAMILY=AF_INET in {_source(job, 'NCCL_SOCKET_FAMILY')}, or unset it"
    for path, name in job.nccl_ignored:
        problem = f"the line {quote(name)} in {path} sets no NCCL variable, because it needs a plain name before the ="
        yield problem, f"write {name.split()[-1]}=value in {path}, without spaces and without export"


def _unusable_files(job: Job) -> Iterator[tuple[str, str]]:
    for name in READ_BY:
        if error := _error(job.files.get(job.variables.get(name, "")), "file"):
            problem = f"{job.told(name)} cannot be read, because {error}. NCCL does not report this"
            yield problem, f"correct {name} in {_source(job, name)}"
    for name in WRITTEN_BY:
        path = job.variables.get(name, "")
        folder = job.files.get(path.rpartition("/")[0] or "/") if path.startswith("/") else None
        if folder and (error := _error(folder, "folder")):
            problem = f"{job.told(name)} cannot be written, because {error}"
            yield problem, f"create the folder {folder.path}, or correct {name} in {_source(job, name)}"


def _error(file: SeenFile | None, noun: str) -> str:
    """Return why a collected file or folder cannot be used; "" if it can."""
    if file is None:
        return ""
    return file.error or (f"the {noun} does not exist" if file.kind == "missing" else "")


def _old_names(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the variables with a name that torch's release where jobs run does not know or renames. Empty where that
    release is not known."""
    torch = job.packages.get("torch")
    if torch is None:
        return
    new = numbers(torch)[:2] >= RENAMED_IN
    for old in RENAMED:
        name, right_name = (old, f"TORCH_{old}") if new else (f"TORCH_{old}", old)
        if name in job.variables and right_name not in job.variables:
            effect = "has an old name, and" if new else "has no effect, because"
            behaviour = "warns about it" if new else "does not know this name"
            problem = f"{job.told(name)} {effect} torch {quote(torch)} {behaviour}"
            yield problem, f"set {right_name} instead of {name} in {_source(job, name)}"


@host_check("ENV114", "NCCL and PyTorch variable combinations", products=NVIDIA)
def together(scribe: Here, job: Job) -> Iterator[Finding]:
    """Why: Settings may be valid alone and conflict with each other. For example, NCCL_NET=IB and NCCL_IB_DISABLE=1
    together leave no network. If CUDA_VISIBLE_DEVICES lists a GPU twice, two ranks use the same GPU.
    TORCH_NCCL_BLOCKING_WAIT turns off the watchdog that ends a job with a hung collective.

    Result: FAIL if no network is left or a GPU is listed twice. WARN if the watchdog is off, or if a flight recorder
    has no buffer.

    Check manually: Where jobs run:
      env | grep -E 'NCCL|CUDA_VISIBLE'

    Fix: Apply the fix in the finding to the jobs' start script or the image.
    """
    for outcome, problem, remedy in (*_conflicts(job), *_watchdog(job)):
        yield scribe.finding(outcome, f"{scribe.host.name}: {problem}", host=scribe.host.name, remedy=remedy)


def _watchdog(job: Job) -> Iterator[Problem]:
    for outcome, problem, remedy in watchdog_conflicts("NCCL", job.variables):
        yield outcome, problem, f"{remedy} in the jobs' environment"


def _conflicts(job: Job) -> Iterator[Problem]:
    variables = job.variables
    if variables.get("NCCL_NET", "").lower() == "ib" and is_on(variables, "NCCL_IB_DISABLE"):
        problem = f"{job.told('NCCL_NET')} requires RDMA, but {job.told('NCCL_IB_DISABLE')} disables it"
        yield Outcome.FAIL, problem, f"unset NCCL_IB_DISABLE in {_source(job, 'NCCL_IB_DISABLE')}"
    if number(variables.get("TORCH_NCCL_TRACE_BUFFER_SIZE", "")) == 0 and is_on(
        variables, "TORCH_NCCL_DUMP_ON_TIMEOUT"
    ):
        problem = "TORCH_NCCL_DUMP_ON_TIMEOUT=1 has nothing to write, because TORCH_NCCL_TRACE_BUFFER_SIZE is 0"
        yield Outcome.WARN, problem, "set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 in the jobs' environment"
    visible = [word.strip() for word in variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    repeated = next((word for index, word in enumerate(visible) if word in visible[:index]), None)
    if repeated:
        devices = job.told("CUDA_VISIBLE_DEVICES")
        problem = f"{devices} lists {quote(repeated)} twice, so two ranks would share one GPU or get none"
        yield Outcome.FAIL, problem, "list each GPU once in CUDA_VISIBLE_DEVICES"


@host_check("ENV115", "Leftover NCCL debugging variables", severity=Outcome.WARN, products=NVIDIA, blocks=False)
def left_over(scribe: Here, job: Job) -> Iterator[Finding]:
    """Why: A setting that made one job run can slow down all later jobs. NCCL_IB_DISABLE=1 and NCCL_NET=Socket keep
    NCCL from using RDMA. With NCCL_P2P_DISABLE or NCCL_SHM_DISABLE, data between GPUs on the same host passes through
    the host's NIC. NCCL_COMM_ID gives every communicator the same port, so the second communicator finds the port in
    use.

    Result: WARN if such a variable is set. FAIL if RDMA is disabled and the inventory has transport = "ib" under
    [probe].

    Check manually: Where jobs run:
      env | grep -E 'NCCL_(IB_DISABLE|NET|COMM_ID|P2P|SHM)'
      cat /etc/nccl.conf

    Fix: Unset the variable in the jobs' start script, in the image and in nccl.conf.
    """
    variables = job.variables
    if name := by_sockets(variables):
        yield from _sockets(scribe, job, name)
    for name in ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"):
        if is_on(variables, name):
            yield scribe.bad(
                f"{scribe.host.name}: {job.told(name)} makes the GPUs on this host exchange data over a slower path",
                found=variables[name],
                remedy=f"unset {name} in {_source(job, name)}, unless jobs on this host need it",
            )
    if variables.get("NCCL_COMM_ID"):
        yield scribe.bad(
            f"{scribe.host.name}: {job.told('NCCL_COMM_ID')} makes all communicators use the same port",
            found=variables["NCCL_COMM_ID"],
            remedy=f"unset NCCL_COMM_ID in {_source(job, 'NCCL_COMM_ID')}, because torch and MPI provide the "
            "rendezvous",
        )


def _sockets(scribe: Here, job: Job, name: str) -> Iterator[Finding]:
    """Yield the finding about a variable that keeps NCCL on sockets, where it could or should use RDMA."""
    wanted = scribe.cluster.probe.transport
    number_of_devices = len(job.rdma.devices) if job.rdma else 0
    if wanted == "ib" or (wanted != "socket" and number_of_devices):
        suffix = f", although jobs see {counted(number_of_devices, 'RDMA device')}" if number_of_devices else ""
        yield scribe.finding(
            Outcome.FAIL if wanted == "ib" else Outcome.WARN,
            f"{scribe.host.name}: {job.told(name)} limits NCCL to sockets{suffix}",
            host=scribe.host.name,
            remedy=f'unset {name} in {_source(job, name)}, or set transport = "socket" under [probe] in the inventory',
        )


@host_check("ENV116", "NCCL access to RDMA devices", products=NVIDIA)
def devices(scribe: Here, job: Job) -> Iterator[Finding]:
    """Why: If NCCL finds no RDMA device, it uses sockets and reports this only in its log. The job then runs ten times
    slower. A container shows the host's devices in /sys even without /dev/infiniband or libibverbs.

    Result: FAIL if NCCL_IB_HCA matches no device, WARN if it matches more devices than intended. The variable is a list
    of prefixes, so mlx5_1 also matches mlx5_10. A leading = selects exact names, and a leading ^ excludes names. WARN
    if /dev/infiniband or libibverbs is missing. If the inventory has transport = "ib" under [probe], this is FAIL. A
    host without RDMA devices is then also FAIL.

    Check manually: Where jobs run:
      ls /sys/class/infiniband /dev/infiniband
      ldconfig -p | grep libibverbs

    Fix: Correct NCCL_IB_HCA, start the container with docker's --device /dev/infiniband, or install libibverbs1 in the
    image.
    """
    wanted, rdma, name = scribe.cluster.probe.transport, job.rdma, scribe.host.name
    if rdma is None:
        yield scribe.unknown(f"{name}: the RDMA devices that jobs see were not checked")
        return
    if wanted == "socket" or by_sockets(job.variables):
        return  # ENV115 reports a wrong value
    report = scribe.bad if wanted == "ib" else scribe.warn
    if not rdma.devices:
        yield from _no_devices(scribe, job)
        return
    if not rdma.nodes:
        in_container = {"remedy": f"on {name}, start the container with --device /dev/infiniband"}
        on_host = {
            "remedy": f"load the kernel module ib_uverbs on {name}",
            "commands": (scribe.on(name, "modprobe ib_uverbs"),),
        }
        yield report(
            f"{name}: jobs see {counted(len(rdma.devices), 'RDMA device')} but no "
            "/dev/infiniband/uverbs*, so NCCL uses sockets",
            **(in_container if job.contained else on_host),
        )
    if rdma.libibverbs:
        yield report(
            f"{name}: NCCL cannot load libibverbs where jobs run and uses sockets: {quote(rdma.libibverbs)}",
            remedy=f"install libibverbs1 (rdma-core) where jobs run on {name}",
        )
    yield from _device_names(scribe, job, rdma.devices)


def _no_devices(scribe: Here, job: Job) -> Iterator[Finding]:
    """Yield the finding about a host without RDMA devices, if the inventory wants RDMA."""
    name = scribe.host.name
    if scribe.cluster.probe.transport == "ib":
        pass_on = ". Otherwise, start the container with --device /dev/infiniband" if job.contained else ""
        yield scribe.bad(
            f"{name}: no RDMA device is visible where jobs run",
            remedy=f"list the RDMA devices of {name}. If there are none, load the driver of its RDMA NICs, such as "
            f"mlx5_ib{pass_on}",
            commands=(scribe.on(name, "ls /sys/class/infiniband"),),
        )


def _device_names(scribe: Here, job: Job, present: tuple[str, ...]) -> Iterator[Finding]:
    patterns = job.variables.get("NCCL_IB_HCA", "")
    surplus = more_than_meant(patterns, present)
    if not hcas(patterns, present):
        yield scribe.bad(
            f"{scribe.host.name}: {job.told('NCCL_IB_HCA')} matches no RDMA device "
            f"(present: {', '.join(present[:16])})",
            found=patterns,
            remedy=f"correct NCCL_IB_HCA in {_source(job, 'NCCL_IB_HCA')}, or unset it to use all devices",
        )
    elif surplus:
        word, extra_devices = surplus
        yield scribe.warn(
            f"{scribe.host.name}: {job.told('NCCL_IB_HCA')} also matches {', '.join(extra_devices[:16])}, because NCCL "
            f"reads {word} as a prefix",
            expected=f"NCCL_IB_HCA={exactly(patterns)}",
            found=patterns,
            remedy=f"set NCCL_IB_HCA={exactly(patterns)} in {_source(job, 'NCCL_IB_HCA')} "
            f"({'a' if patterns.startswith('^') else 'the'} second = stands for an exact match)",
        )


@cluster_check("ENV117", "NCCL variables across hosts", products=NVIDIA)
def same_everywhere(scribe: All, job: Mapping[str, Job]) -> Iterator[Finding]:
    """Why: Ranks that differ in network, algorithm, protocol or buffer size wait for each other, or fail with a
    misleading message. Ranks with different timeouts stop waiting at different times. One manually edited
    /etc/nccl.conf is enough to cause this.

    Result: FAIL or WARN if a variable differs between hosts, depending on the variable. Interfaces, RDMA devices, logs,
    files and folders may differ.

    Check manually: In the jobs' environment on every host:
      env | grep NCCL
      cat /etc/nccl.conf ~/.nccl.conf

    Fix: Use the same start script, image and nccl.conf on every host.
    """
    names = {name for job_of_host in job.values() for name in job_of_host.variables}
    for name in sorted(names):
        values = {host: meaning(name, job_of_host.variables.get(name)) for host, job_of_host in job.items()}
        for odd in odd_ones(values):
            outcome = unequal(name, odd.value, odd.usual)
            if outcome is None:
                continue
            hosts = (odd.host, odd.others[0])
            own_value, usual_value = (_value(job[host], name) for host in hosts)
            places = {_source(job[host], name): None for host in hosts if name in job[host].variables}
            yield scribe.finding(
                outcome,
                f"{odd.host}: {name} is {own_value}, but {usual_value} on {odd.elsewhere}",
                host=odd.host,
                peer=odd.others[0],
                found=job[odd.host].variables.get(name, "not set"),
                remedy=f"set {name} to the same value on all hosts, in {' and '.join(places)}",
            )
