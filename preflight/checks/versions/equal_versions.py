"""Versions of the software that a job loads: equal on every host."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from preflight.checks.engine.registry import NPU, All, Here, cluster_check, host_check
from preflight.checks.shared.majority import odd_ones
from preflight.checks.shared.pip import pip_install
from preflight.facts.compatibility import (
    Stack,
    builds_of,
    cann_of,
    fitting,
    known_cann,
    numbers,
    oldest_driver,
    release,
)
from preflight.facts.sections.job import Job
from preflight.facts.sections.nvidia import Nvidia
from preflight.facts.types import Versions
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.text import LONGEST_QUOTE, quote

NVIDIA = frozenset({Product.NVIDIA})


def differing(scribe: All, software: str, versions: Mapping[str, str | None]) -> Iterator[Finding]:
    """Yield a finding for each host with a version (None: not installed) that is not the majority's."""
    if set(versions.values()) == {None}:
        yield scribe.skip(f"{software} is not installed on any host")
        return
    for odd in odd_ones(versions):
        actual, usual = odd.value or "not installed", odd.usual or "not installed"
        yield scribe.bad(
            f"{odd.host}: {software} is {actual}, but {usual} on {odd.elsewhere}",
            host=odd.host,
            peer=odd.others[0],
            remedy=f"install the same release of {software} on every host",
        )


@cluster_check("VER101", "NPU driver version", products=NPU)
def driver(scribe: All, versions: Mapping[str, Versions]) -> Iterator[Finding]:
    """Why: The devices in a job communicate through their drivers, and combinations of different releases are not
    tested. Faults between different releases appear late and without a clear error.

    Result: FAIL if a host's version differs from the version on most hosts.

    Check manually:
      cat /usr/local/Ascend/driver/version.info

    Fix: Install the same driver package on every host, then reboot.
    """
    return differing(
        scribe, "the driver", {name: versions_of_host.driver for name, versions_of_host in versions.items()}
    )


@cluster_check("VER102", "CANN version", products=NPU)
def cann(scribe: All, versions: Mapping[str, Versions]) -> Iterator[Finding]:
    """Why: HCCL is part of CANN. Ranks with different releases may choose different algorithms for the same collective
    and then wait for each other.

    Result: FAIL if a host's version differs from the version on most hosts.

    Check manually:
      cat /usr/local/Ascend/ascend-toolkit/latest/*-linux/*_install.info

    Fix: Install the same toolkit on every host, or run the job in the same container image.
    """
    return differing(scribe, "CANN", {name: versions_of_host.cann for name, versions_of_host in versions.items()})


@cluster_check("VER103", "PyTorch version")
def torch(scribe: All, versions: Mapping[str, Versions]) -> Iterator[Finding]:
    """Why: PyTorch's store and process groups use a protocol that changes between releases. Ranks with different
    releases fail while they connect, with misleading messages.

    Result: FAIL if a host's version differs from the version on most hosts.

    Check manually: Where jobs run:
      python3 -c 'import importlib.metadata as m; print(m.version("torch"))'

    Fix: Install the same release on every host, or run the job in the same container image.
    """
    return differing(scribe, "torch", {name: versions_of_host.torch for name, versions_of_host in versions.items()})


@cluster_check("VER104", "Version of torch_npu", products=NPU)
def torch_npu(scribe: All, versions: Mapping[str, Versions]) -> Iterator[Finding]:
    """Why: The package torch_npu provides the hccl backend. Its releases differ in timeouts, defaults and supported
    types.

    Result: FAIL if a host's version differs from the version on most hosts.

    Check manually: Where jobs run:
      python3 -c 'import importlib.metadata as m; print(m.version("torch_npu"))'

    Fix: Install the same release on every host, or run the job in the same container image.
    """
    return differing(
        scribe, "torch_npu", {name: versions_of_host.torch_npu for name, versions_of_host in versions.items()}
    )


@cluster_check("VER105", "Python version", severity=Outcome.WARN)
def python(scribe: All, versions: Mapping[str, Versions]) -> Iterator[Finding]:
    """Why: Ranks send each other pickled objects, which may differ between Python versions. Each Python also has its
    own packages, so another Python means another set of packages. A job often works nevertheless.

    Result: WARN if the version differs between hosts.

    Check manually: In the jobs' environment:
      python3 --version

    Fix: Use the same Python in the jobs' environment on every host.
    """
    return differing(scribe, "Python", {name: versions_of_host.python for name, versions_of_host in versions.items()})


@cluster_check("VER106", "NPU firmware version", products=NPU)
def firmware(scribe: All, versions: Mapping[str, Versions]) -> Iterator[Finding]:
    """Why: The firmware controls the device's network port. Releases differ in the settings that they negotiate with
    the switch and the peer.

    Result: FAIL if a host's version differs from the version on most hosts.

    Check manually:
      cat /usr/local/Ascend/firmware/version.info

    Fix: Install the same firmware package on every host, then reboot.
    """
    return differing(
        scribe, "the firmware", {name: versions_of_host.firmware for name, versions_of_host in versions.items()}
    )


@cluster_check("VER113", "NCCL and CUDA runtime versions", products=NVIDIA)
def nccl(scribe: All, job: Mapping[str, Job]) -> Iterator[Finding]:
    """Why: Ranks with different NCCL releases fail with "Mismatched NCCL version detected". If the release is too old
    to report this, the ranks hang. A CUDA runtime that is too new for one host's driver fails only on that host.

    Result: FAIL if the packages from PyTorch's wheels (nvidia-nccl-cu12, nvidia-cuda-runtime-cu12) differ from those on
    most hosts. The check cannot see libraries that were installed in another way or loaded by LD_PRELOAD. Their version
    is only in the first lines that NCCL_DEBUG=VERSION prints.

    Check manually: Where jobs run:
      pip list | grep -E 'nvidia-(nccl|cuda-runtime)'

    Fix: Install the same release of torch on every host, or run the job in the same container image.
    """
    by_family = {
        family: {host: _of_family(job_of_host, start) for host, job_of_host in job.items()}
        for family, start in _FAMILIES.items()
    }
    installed = {family: versions for family, versions in by_family.items() if set(versions.values()) != {None}}
    if not installed:
        yield scribe.skip("no NCCL or CUDA runtime wheel is installed where jobs run")
    for family, versions in installed.items():
        yield from differing(scribe, family, versions)


_FAMILIES = {"NCCL": "nvidia_nccl_cu", "the CUDA runtime": "nvidia_cuda_runtime"}


def _of_family(job: Job, start: str) -> str | None:
    """Return all versions of the family as `2.21.5 (cu12)`; None if it is not installed as a package."""
    versions = []
    for name, version in sorted(job.packages.items()):
        if name.startswith(start):
            _, _, cuda = name.rpartition("_cu")
            versions.append(f"{version} (cu{cuda})" if cuda.isdigit() else version)
    return ", ".join(versions) or None


@host_check("VER114", "CUDA and NVIDIA driver compatibility", products=NVIDIA)
def cuda(scribe: Here, job: Job, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: A driver supports its CUDA release and all older releases. From CUDA 11 on, it also runs newer releases of
    the same major release ("minor version compatibility"). CUDA 11.x needs driver 450.80.02 or later, and CUDA 12.x
    needs 525.60.13 or later.

    Result: FAIL if torch needs a newer major CUDA release than the driver's. The job then finds no GPU, or NCCL ends
    with "invalid usage" or hangs. In a container, this is WARN, because NVIDIA's cuda-compat package is not visible
    from outside. With that package, older drivers for data centre GPUs can run a newer release. The CUDA release of
    torch is read from its version (2.4.1+cu124) or from the wheel of its runtime. The CUDA release of the driver is
    read from nvidia-smi.

    Check manually: Where jobs run:
      nvidia-smi | grep CUDA
      pip list | grep -E '^torch |cuda-runtime'

    Fix: Install a newer driver and reboot. Or install a torch build for the driver's CUDA release, here 12.4.
      pip install torch --index-url https://download.pytorch.org/whl/cu124

    Source: https://docs.nvidia.com/deploy/cuda-compatibility
    """
    runtime, source = _cuda_of_torch(job)
    served = _cuda(nvidia.gpus.value.cuda or "") if nvidia.gpus.value else None
    if runtime is None:
        yield scribe.skip(source)
    elif served is None:
        yield scribe.skip("the CUDA release of the driver is unknown (see GPU101)")
    elif not _serves(served, runtime, nvidia):
        driver = f"driver {nvidia.module.version}" if nvidia.module else "the driver"
        wanted, served_cuda = ".".join(map(str, runtime)), ".".join(map(str, served))
        minimum = f"{_minimum_driver(runtime)} or later"
        report = scribe.warn if job.contained or "/compat" in job.variables.get("LD_LIBRARY_PATH", "") else scribe.bad
        yield report(
            f"{scribe.host.name}: {source} is built for CUDA {wanted}, but {driver} supports at most "
            f"CUDA {served_cuda}",
            expected=minimum,
            found=f"CUDA {served_cuda}",
            remedy=f"install {minimum} and reboot. Or install a torch for CUDA {served_cuda} or older",
        )


# Major release of CUDA → the first driver that runs all its minor releases; older majors have none. The table of
# "minor version compatibility" in https://docs.nvidia.com/deploy/cuda-compatibility
_FIRST_DRIVER = {11: (450, 80, 2), 12: (525, 60, 13)}


def _minimum_driver(runtime: tuple[int, int]) -> str:
    """Return the oldest driver that runs programs for a CUDA release: by its number, else by its own CUDA release."""
    major, minor = runtime
    if major in _FIRST_DRIVER:
        return "driver {}.{:02}.{:02}".format(*_FIRST_DRIVER[major])
    return f"a driver for CUDA {major}.{0 if major >= min(_FIRST_DRIVER) else minor}"


def _serves(served: tuple[int, int], runtime: tuple[int, int], nvidia: Nvidia) -> bool:
    """Return whether a driver of CUDA `served` runs programs that are made for CUDA `runtime`."""
    return runtime <= served or (runtime[0] == served[0] and _runs_newer_minor(runtime[0], nvidia))


def _runs_newer_minor(major: int, nvidia: Nvidia) -> bool:
    """Return whether the driver runs minor releases that are newer than its own."""
    numbers = re.findall("[0-9]{1,6}", nvidia.module.version)[:3] if nvidia.module else []
    first = _FIRST_DRIVER.get(major, (0,))
    return major >= min(_FIRST_DRIVER) and (not numbers or tuple(map(int, numbers)) >= first)


def _cuda_of_torch(job: Job) -> tuple[tuple[int, int] | None, str]:
    """Return the CUDA that jobs load, with the source of this fact; None with the reason if it is not known."""
    torch = job.packages.get("torch", "")
    if build := re.search(r"\+cu([0-9]{2,3})(?![0-9])", torch):
        return (int(build[1][:-1]), int(build[1][-1])), f"torch {torch[:LONGEST_QUOTE]}"
    if "+" in torch:
        return None, f"torch {quote(torch)} shows no CUDA release"
    wheels = {name: version for name, version in job.packages.items() if name.startswith(_FAMILIES["the CUDA runtime"])}
    if len(wheels) != 1:
        several = "wheels of several CUDA runtimes are installed"
        return None, several if wheels else "no wheel shows which CUDA release jobs load"
    ((name, version),) = wheels.items()
    source = f"{name.replace('_', '-')} {quote(version)}"
    return (_cuda(version), source) if _cuda(version) else (None, f"{source} shows no CUDA release")


def _cuda(version: str) -> tuple[int, int] | None:
    """Return 12.4.127 as (12, 4)."""
    match = re.match(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])", version)
    return (int(match[1]), int(match[2])) if match else None


@host_check("VER107", "PyTorch and torch_npu compatibility", products=NPU)
def torch_pair(scribe: Here, versions: Versions) -> Iterator[Finding]:
    """Why: torch_npu is compiled for one release of torch and has the same release number. With another torch release,
    the import fails with a missing symbol, or works until an operator is called.

    Result: FAIL if the two releases do not match.

    Check manually: Where jobs run:
      pip list | grep -i torch

    Fix: Install torch and torch_npu releases that match. The version of torch_npu starts with the version of torch.
    This command is for torch 2.4.0:
      pip install 'torch_npu==2.4.0.*'
    """
    torch, npu = versions.torch, versions.torch_npu
    if torch is None or npu is None:
        yield scribe.skip("torch or torch_npu is not installed")
    elif release(torch) != release(npu):
        fit = fitting(Stack(torch, npu, versions.cann or ""))
        change = replacement(versions, fit) or _choice(torch, npu)
        show = () if fit or not change.packages else (_show_cann(scribe),)
        yield scribe.bad(
            f"{scribe.host.name}: torch_npu {npu} is not built for torch {torch}",
            expected=change.expected,
            found=change.found,
            remedy=change.remedy,
            commands=(*show, *pip_install(scribe, scribe.host.name, change.packages)),
        )


@dataclass(frozen=True)
class Replacement:
    """The first of torch, torch_npu and CANN that is to be replaced on a host, with the remedy."""

    expected: str
    found: str
    remedy: str
    packages: tuple[str, ...] = ()  # to be installed by pip


def replacement(versions: Versions, fit: Stack | None) -> Replacement | None:
    """Return the way from the host's releases to those that fit together; None where nothing differs, or none fit."""
    if fit is None:
        return None
    pairs = (("torch", versions.torch, fit.torch), ("torch_npu", versions.torch_npu, fit.torch_npu))
    wheels = [(name, old, new) for name, old, new in pairs if old is not None and old != new]
    steps = [f"install {' and '.join(f'{name} {new}' for name, _, new in wheels)}{_with_cann(fit)}"] * bool(wheels)
    other_cann = fit.cann != versions.cann
    if other_cann:
        steps.insert(0, install_cann(versions, fit.cann))
    if not steps:
        return None
    name, old, new = ("CANN", versions.cann, fit.cann) if other_cann else wheels[0]
    return Replacement(
        f"{name} {new}", f"{name} {old}", ", then ".join(steps), tuple(f"{name}=={new}" for name, _, new in wheels)
    )


def _with_cann(fit: Stack) -> str:
    """Return the end of the advice for a torch_npu that is built for another CANN and runs with this one, too."""
    return "" if known_cann(fit.cann) == cann_of(fit.torch_npu) else f" (torch_npu also runs with CANN {fit.cann})"


def install_cann(versions: Versions, cann: str) -> str:
    """Return the advice to install a CANN, with the driver that it needs where the installed one is too old."""
    needed, driver = oldest_driver(cann), numbers(versions.driver or "")
    too_old = needed and driver and driver < needed
    return f"install CANN {cann}" + (f" and driver {'.'.join(map(str, needed))} or later" if too_old else "")


def _choice(torch: str, torch_npu: str) -> Replacement:
    """Return the replacement where CANN is not known: the torch_npu for every CANN that has one for this torch."""
    expected, builds = f"torch_npu {release(torch)}", builds_of(torch)
    if not builds:
        remedy = "install a torch and a torch_npu that are built for each other and for the jobs' CANN"
        return Replacement(expected, torch_npu, remedy)
    newest, build = next(iter(builds.items()))
    choices = ", ".join(f"{build} for CANN {cann}" for cann, build in builds.items())
    remedy = f"show the release of CANN, then install the torch_npu for it: {choices}"
    if len(builds) > 1:
        remedy += f". The last command is for CANN {newest}"
    return Replacement(expected, torch_npu, remedy, (f"torch_npu=={build}",))


def _show_cann(scribe: Here) -> str:
    """Return the command that shows the release of CANN where jobs run."""
    command, wrapper = (
        "cat /usr/local/Ascend/ascend-toolkit/latest/*-linux/*_install.info",
        scribe.cluster.probe.wrapper,
    )
    return scribe.on(scribe.host.name, shlex.join((*wrapper, "sh", "-c", command)) if wrapper else command)
