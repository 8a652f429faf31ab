"""Checks of other processes that keep a host's processors busy."""

from collections.abc import Iterator

from preflight.checks.engine.registry import Here, host_check
from preflight.facts.sections.load import Busy, Load
from preflight.facts.types import NpuSmi, Os
from preflight.model.finding import Finding
from preflight.rules.own_processes import WAIT, Owner, owner, show_run

WARN = 0.5  # share of the processors
FAIL = 0.9  # below 1, as the measurement itself uses some of the processors


@host_check("HST116", "Host processor load", optional=("npu_smi", "os"))
def left_to_jobs(scribe: Here, load: Load, npu_smi: NpuSmi | None, os: Os | None) -> Iterator[Finding]:
    """Why: A host may be busy with other work, such as a leftover job, a build or a scan. Its ranks then launch kernels
    and read data late. All other ranks wait for them, although all devices and links are healthy.

    Result: WARN if running and waiting processes need half of the processors, FAIL if they need all processors. The
    processes are counted for 0.3 s, or for 1.5 s if there are many. The processes of a job count, too. If a job runs or
    may run, the result is WARN instead of FAIL, and SKIP instead of WARN.

    Check manually: The file contains the processor limit of a container.
      top
      cat /sys/fs/cgroup/cpu.max

    Fix: End leftover processes, wait until they finish, or exclude the host from jobs.
    """
    share, name = load.wanted / load.available, scribe.host.name
    if share < WARN:
        return
    job_hint = _job_hint(scribe, npu_smi)
    if job_hint and share < FAIL:
        yield scribe.skip(f"{_demand(load)}. This may be a running job, because {job_hint}")
        return
    own_pids = [process.pid for process in load.busiest if owner(os, process.pid, process.name) is not Owner.JOB]
    yield (scribe.bad if share >= FAIL and not job_hint else scribe.warn)(
        f"{name}: {_demand(load)}{_busiest(load)}",
        expected=_expected(WARN * load.available),
        found=_number(load.wanted),
        cause=_cause(job_hint),
        remedy=WAIT if own_pids else "end leftover processes, or wait until they finish",
        commands=(scribe.on(name, show_run(own_pids[0]) if own_pids else "top -b -n 1"),),
        evidence=_evidence(job_hint, load),
    )


def _job_hint(scribe: Here, npu_smi: NpuSmi | None) -> str:
    """Return why the counted processes may belong to a wanted job; empty where they cannot."""
    if npu_smi and npu_smi.processes:
        return f"{npu_smi.processes[0].name or 'a process'} uses the devices"
    if npu_smi and npu_smi.processes_listed:
        return ""
    if scribe.cluster.product.is_npu:
        return "npu-smi does not list processes"
    if scribe.cluster.probe.idle:
        return ""
    return "idle = true is not set under [probe] in the inventory"


def _demand(load: Load) -> str:
    subject = "another process needs" if load.others == 1 else f"{load.others or 'many'} other processes need"
    demand = f"{subject} the CPU time of {_number(load.wanted)} processor{'' if load.wanted == 1 else 's'}"
    if load.available < load.processors:
        return f"{demand}, but a limit allows only {_number(load.available)}"
    return f"{demand}, and the host has {load.processors}"


def _busiest(load: Load) -> str:
    shown = ", ".join(
        f"{process.name} (pid {process.pid}{f', {process.user}' if process.user else ''})" for process in load.busiest
    )
    return (f": {shown}" if shown else "") + (" …" if load.others > len(load.busiest) else "")


def _cause(job_hint: str) -> str:
    return "a running job" if job_hint else ""


def _evidence(job_hint: str, load: Load) -> tuple[str, ...]:
    hints = (f"{job_hint}, so a job may be running",) if job_hint else ()
    return (*hints, *map(_in_depth, load.busiest))


def _in_depth(busy: Busy) -> str:
    return f"{busy.name} (pid {busy.pid}) needs {busy.wanted:.0%} of a processor and gets {busy.used:.0%}"


def _expected(limit: float) -> str:
    if limit > 1:
        return f"fewer than {_number(limit)} processors"
    return f"less than {_number(limit)} processor{'' if limit == 1 else 's'}"


def _number(processors: float) -> str:
    return f"{processors:.2g}" if processors < 1 else f"{processors:.1f}".removesuffix(".0")
