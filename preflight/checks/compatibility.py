"""Releases that are made for each other: driver, CANN, torch_npu, MindSpore, Python and what CANN imports."""

from collections.abc import Iterator, Mapping

from preflight.checks.registry import NPU, All, Here, cluster_check, host_check
from preflight.checks.versions import differing
from preflight.facts.compatibility import (
    MINDSPORE,
    cann_fits,
    cann_fits_torch_npu,
    cann_of,
    known_cann,
    mindspore_fits,
    numbers,
    oldest_driver,
    python_fits,
    release,
    too_old,
)
from preflight.facts.job import Job
from preflight.facts.types import Versions
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

IMPORTED_BY_CANN = ("numpy", "scipy", "decorator", "attrs")


@host_check("VER108", "torch_npu is made for the installed CANN and Python", products=NPU)
def torch_npu(here: Here, versions: Versions) -> Iterator[Finding]:
    """Why: torch_npu calls functions of CANN that older releases do not have: "undefined symbol" at the import, or an
    internal error at the first communicator. A newer CANN than it was made for mostly works: a warning. Releases of
    8.x that the vendor calls compatible with each other pass. Those that are not in the vendor's table are not judged.

    By hand: pip list | grep torch; cat /usr/local/Ascend/ascend-toolkit/latest/*-linux/ascend_toolkit_install.info

    Mend: install the torch_npu that is made for this CANN, or the CANN for this torch_npu
    """
    build, cann = versions.torch_npu or "", versions.cann or ""
    made_for, known = cann_of(build), known_cann(cann)
    if wrong := python_fits(build, versions.python):
        yield here.bad(f"{here.host.name}: {wrong}", found=versions.python, remedy="run jobs in another Python")
    elif not build or not cann:
        yield here.skip("torch_npu or CANN is not installed here")
    elif not made_for or not known:
        yield here.skip(f"torch_npu {build} or CANN {cann} is not in the vendor's table as of torch_npu 2.12")
    if wrong := cann_fits_torch_npu(build, cann):
        report = here.bad if too_old(known, made_for) else here.warn
        yield report(
            f"{here.host.name}: {wrong}", expected=f"CANN {made_for}", found=f"CANN {cann}",
            remedy=f"install CANN {made_for}, or another torch_npu",
        )  # fmt: skip


@host_check("VER109", "The driver is new enough for CANN", products=NPU)
def driver(here: Here, versions: Versions) -> Iterator[Finding]:
    """Why: CANN needs functions of the driver that older ones lack; HCCL then ends its first call with an internal
    error, or says that a package does not support something. Driver and CANN each list the inner versions that they
    know; that one of the two lists has to hold the other is inferred, so a warning. For CANN 8.5.0 and later the
    release notes name the oldest driver.

    By hand: grep -E 'nnerversion|compatible_version' /usr/local/Ascend/driver/version.info
    /usr/local/Ascend/ascend-toolkit/latest/*-linux/ascend_toolkit_install.info

    Mend: install the driver and firmware that CANN's release notes name, then reboot; or an older CANN
    """
    packages, name = versions.packages, here.host.name
    found, oldest = numbers(versions.driver or ""), oldest_driver(versions.cann or "")
    fits = cann_fits(packages["driver"], packages["cann"]) if {"driver", "cann"} <= set(packages) else None
    if found and found < oldest:
        needed = ".".join(map(str, oldest))
        yield here.bad(
            f"{name}: CANN {versions.cann} needs driver {needed} or later, and this is {versions.driver}",
            expected=needed, found=versions.driver, remedy=f"install driver {needed} or later, then reboot",
        )  # fmt: skip
    elif fits is False:
        yield here.warn(
            f"{name}: driver {versions.driver} and CANN {versions.cann} do not name each other as compatible",
            found=f"driver {packages['driver'].inner}, CANN {packages['cann'].inner}",
            remedy=f"install the driver that belongs to CANN {versions.cann}, then reboot",
        )  # fmt: skip
    elif fits is None and not (found and oldest):
        yield here.skip("what driver or CANN is compatible with is not known here")


@host_check("VER110", "MindSpore is made for the installed CANN", products=NPU, severity=Outcome.WARN)
def mindspore(here: Here, versions: Versions, job: Job) -> Iterator[Finding]:
    """Why: MindSpore is built against one release of CANN, and looks for it by name: with another it warns at the
    import, and operators fail to compile. Releases that the vendor's pages do not name are not judged.

    By hand: pip list | grep -i mindspore; python3 -c 'import mindspore; mindspore.run_check()'

    Mend: install the MindSpore that belongs to this CANN
    """
    installed, cann = job.packages.get("mindspore", ""), versions.cann or ""
    if not installed or not cann:
        yield here.skip("MindSpore or CANN is not installed here")
    elif release(installed) not in MINDSPORE:
        yield here.skip(f"MindSpore {installed} is not among the releases whose CANN is known here")
    elif wanted := mindspore_fits(installed, cann):
        yield here.bad(
            f"{here.host.name}: MindSpore {installed} is made for CANN {' or '.join(wanted)}, and this is {cann}",
            expected=f"CANN {wanted[0]}", found=f"CANN {cann}", remedy="install the other one",
        )  # fmt: skip


@host_check("VER111", "The Python packages that CANN imports are there", products=NPU, severity=Outcome.WARN)
def imported_by_cann(here: Here, versions: Versions, job: Job) -> Iterator[Finding]:
    """Why: CANN's compiler of operators is a Python program, and runs in the jobs' Python: without these packages the
    first operator that has to be compiled ends with 500001 or "No module named", after everything else has worked.

    By hand: python3 -c 'import numpy, scipy, decorator, attr'   (where jobs run)

    Mend: pip install numpy scipy decorator attrs, in the jobs' Python
    """
    missing = [name for name in IMPORTED_BY_CANN if name not in job.packages]
    if versions.cann is None or not {"torch_npu", "mindspore"} & set(job.packages):
        yield here.skip("there is no CANN, or no framework that would use it")
    elif missing:
        yield here.bad(
            f"{here.host.name}: the jobs' Python has no {', no '.join(missing)}, which CANN imports",
            expected=", ".join(IMPORTED_BY_CANN), found="missing", remedy=f"pip install {' '.join(missing)}",
        )  # fmt: skip


@cluster_check("VER112", "MindSpore is the same everywhere", products=NPU)
def mindspore_everywhere(all_: All, job: Mapping[str, Job]) -> Iterator[Finding]:
    """Why: its releases differ in how ranks find each other and in how they cut a model into parts; ranks with two of
    them wait for each other.

    By hand: pip list | grep -i mindspore   (where jobs run)

    Mend: install the same release on every host, or run the job in the same container image
    """
    return differing(all_, "MindSpore", {name: seen.packages.get("mindspore") for name, seen in job.items()})
