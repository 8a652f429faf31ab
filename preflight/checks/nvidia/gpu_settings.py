"""Checks of GPU settings and use: persistence, compute mode, MIG, processes."""

from collections.abc import Callable, Iterator, Mapping

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.shared.by_host import by_host
from preflight.checks.shared.gpu import silent
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Gpu
from preflight.facts.sections.nvidia import Nvidia
from preflight.facts.types import Os
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.gpus import GPU, called, gpus, numbered
from preflight.rules.own_processes import Owner, owner

_ONE_PROCESS = "Exclusive_Process"
_NOBODY = "Prohibited"


@host_check("GPU108", "GPU processes", severity=Outcome.WARN, products=GPU, optional=("os",))
def idle(scribe: Here, nvidia: Nvidia, os: Os | None) -> Iterator[Finding]:
    """Why: A leftover process of an earlier job keeps GPU memory, and a job that needs all of the memory fails. A
    running job is not a fault, but the probe avoids its GPUs.

    Result: WARN for any process on a GPU. Processes that this run of preflight started are ignored. Processes of other
    containers are visible only from the host.

    Check manually:
      nvidia-smi
      fuser -v /dev/nvidia*

    Fix: If the process belongs to a running job, wait for the job. If the process is a leftover, end it, with PID from
    the finding.
      kill PID
    """
    yield from silent(scribe, nvidia)
    for index, gpu in numbered(nvidia):
        for process in gpu.processes or ():
            if "C" not in process.kind:
                continue  # a graphics process, such as a desktop
            holder = owner(os, process.pid, process.name)
            if holder is Owner.THIS_RUN:
                continue
            other_run = holder is Owner.OTHER_RUN
            remedy, command = _process_fix(process.pid, other_run=other_run)
            yield scribe.bad(
                f"{called(scribe.host, index, gpu)}: in use by {_user(process.name, other_run=other_run)}",
                device=index,
                expected="no process",
                found=f"pid {process.pid}" + (f", {process.memory} MiB" if process.memory else ""),
                remedy=remedy,
                commands=(scribe.on(scribe.host.name, command),),
            )


def _user(name: str | None, *, other_run: bool) -> str:
    """Return the process in words: `python3`, or `a python3 process of another preflight run`."""
    if other_run:
        return f"a {name} process of another preflight run" if name else "a process of another preflight run"
    return name or "a process"


def _process_fix(pid: int, *, other_run: bool) -> tuple[str, str]:
    """Return the remedy for a process on a GPU, and the command for it on the host."""
    if other_run:
        return "wait until the other preflight run has ended", f"ps -o pid,user,lstart,args -p {pid}"
    return "wait for the job to end. If this process is a leftover, end it", f"kill {pid}"


@host_check("GPU109", "GPU persistence mode", severity=Outcome.WARN, products=GPU)
def persistence(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: Without persistence mode, the driver releases a GPU when the last program ends, and initializes it again for
    the next program. Every start then takes seconds for each GPU, and clock and power settings are lost. On NVSwitch
    hosts, the GPU also has to join the fabric again.

    Result: WARN if persistence mode is off and nvidia-persistenced is not running.

    Check manually:
      nvidia-smi -q | grep Persistence
      systemctl status nvidia-persistenced

    Fix: Start the service.
      systemctl enable --now nvidia-persistenced
    Or turn the mode on until the next reboot.
      nvidia-smi -pm 1
    """
    yield from silent(scribe, nvidia)
    off = [index for index, gpu in numbered(nvidia) if gpu.persistence is False]
    if off and not nvidia.persistence_daemon:
        yield scribe.bad(
            f"{scribe.host.name}: persistence mode is off on GPU {', '.join(map(str, off))}",
            expected="Enabled",
            found="Disabled",
            remedy="enable nvidia-persistenced",
            commands=(scribe.on(scribe.host.name, "systemctl enable --now nvidia-persistenced"),),
        )


@host_check("GPU110", "GPU compute mode", products=GPU)
def compute_mode(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: In compute mode Prohibited, no program can use the GPU. Exclusive_Process allows one program, which is
    enough for a job. A leftover or second process (a data loader, a profiler) then blocks the next program. The error
    is "all CUDA-capable devices are busy or unavailable".

    Result: FAIL for Prohibited. WARN for Exclusive_Process.

    Check manually:
      nvidia-smi -q -d COMPUTE

    Fix: Set the default mode.
      nvidia-smi -c DEFAULT
    """
    yield from silent(scribe, nvidia)
    for index, gpu in numbered(nvidia):
        if gpu.compute_mode in (_NOBODY, _ONE_PROCESS):
            report = scribe.bad if gpu.compute_mode == _NOBODY else scribe.warn
            yield report(
                f"{called(scribe.host, index, gpu)}: compute mode is {gpu.compute_mode}",
                device=index,
                expected="Default",
                found=gpu.compute_mode,
                remedy="set the default compute mode",
                commands=(scribe.on(scribe.host.name, f"nvidia-smi -i {gpu.bus} -c DEFAULT"),),
            )


@cluster_check("GPU111", "GPU MIG mode", products=GPU, several=False)
def mig(scribe: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: If MIG splits a GPU into instances, a job sees only one instance, and that instance has no NVLink. NCCL
    cannot connect ranks on whole GPUs with ranks on instances.

    Result: FAIL if the mode differs between GPUs or from the inventory. Without `mig = true` under [machine], MIG is
    expected to be off. WARN if all GPUs have MIG on without that setting, or if a change is pending.

    Check manually:
      nvidia-smi -q | grep -A2 'MIG Mode'

    Fix: Turn MIG off (or on, with -mig 1), then reset the GPU. Replace the bus address with the one in the finding. If
    MIG is intended, set `mig = true` under [machine] in the inventory.
      nvidia-smi -i 0000:9b:00.0 -mig 0
    """
    modes = {gpu.mig.current for nvidia_of_host in nvidia.values() for gpu in gpus(nvidia_of_host)} - {None}
    for host_scribe, nvidia_of_host in by_host(scribe, nvidia):
        yield from silent(host_scribe, nvidia_of_host)
    for host_scribe, nvidia_of_host in by_host(scribe, nvidia):
        report = host_scribe.warn if modes == {True} else host_scribe.bad
        for index, gpu in numbered(nvidia_of_host):
            yield from _mig_of(host_scribe, index, gpu, report)


def _mig_of(scribe: Here, index: int, gpu: Gpu, report: Callable[..., Finding]) -> Iterator[Finding]:
    """Yield the finding about one GPU. `report`: for a mode that is not the planned one."""
    wanted, mode, pending = scribe.cluster.machine.mig, gpu.mig.current, gpu.mig.pending
    name = called(scribe.host, index, gpu)
    commands = (scribe.on(scribe.host.name, f"nvidia-smi -i {gpu.bus} -mig {int(wanted)}"),)
    if mode is None:
        return
    if mode is not wanted:
        yield report(
            f"{name}: MIG is {_word(mode)}",
            device=index,
            expected=_word(wanted),
            found=_word(mode),
            remedy=f"turn MIG {_word(wanted)}, then reset the GPU"
            + (". If MIG is intended, set mig = true under [machine] in the inventory" if mode else ""),
            commands=commands,
        )
    elif pending not in (None, mode):
        yield scribe.warn(
            f"{name}: MIG is {_word(mode)}, but will be {_word(pending)} after the next reset",
            device=index,
            expected=_word(wanted),
            found=f"{_word(pending)} after the next reset",
            remedy=f"keep MIG {_word(wanted)}",
            commands=commands,
        )


def _word(mode: bool | None) -> str:
    return "on" if mode else "off"
