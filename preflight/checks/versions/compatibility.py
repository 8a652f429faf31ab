"""Releases that are made for each other: driver, CANN, torch_npu, MindSpore, Python and the packages that CANN
imports."""

from collections.abc import Iterator, Mapping, Sequence

from preflight.checks.engine.registry import NPU, All, Here, cluster_check, host_check
from preflight.checks.shared.pip import pip_install
from preflight.checks.versions.equal_versions import Replacement, differing, install_cann, replacement
from preflight.facts.compatibility import (
    MINDSPORE,
    PYTHON,
    Stack,
    cann_fits,
    cann_fits_torch_npu,
    cann_of,
    fitting,
    known_cann,
    mindspore_fits,
    numbers,
    oldest_driver,
    python_fits,
    release,
    too_old,
)
from preflight.facts.sections.job import Job
from preflight.facts.types import Versions
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

IMPORTED_BY_CANN = ("numpy", "scipy", "decorator", "attrs")


@host_check("VER108", "CANN, Python and torch_npu compatibility", products=NPU)
def torch_npu(scribe: Here, versions: Versions) -> Iterator[Finding]:
    """Why: torch_npu calls functions of CANN that older releases do not have. The job fails with "undefined symbol" on
    import, or with an internal error when it creates the first communicator.

    Result: FAIL if CANN is too old for torch_npu, or if torch_npu does not support the Python version. WARN if CANN is
    newer, because this mostly works. CANN 8.x releases pass if the vendor calls them compatible with each other.
    Releases that are not in the vendor's table are not judged. If torch_npu does not match the installed torch, VER107
    reports that, because torch_npu has to be replaced.

    Check manually: Where jobs run:
      pip list | grep torch
      cat /usr/local/Ascend/ascend-toolkit/latest/*-linux/*_install.info

    Fix: Install the torch_npu release for this CANN release, or the CANN release for this torch_npu release.
    """
    build, cann, mismatch = versions.torch_npu or "", versions.cann or "", _wheels_differ(versions)
    advised = build
    if mismatch:  # VER107 advises another release
        fit = _fit(versions)
        advised = fit.torch_npu if fit else ""
    if wrong := python_fits(advised, versions.python):
        first, last = PYTHON[release(advised)]
        remedy = f"run jobs with Python 3.{first} to 3.{last}"
        yield scribe.bad(f"{scribe.host.name}: {wrong}", found=versions.python, remedy=remedy)
    elif reason := _not_in_table(versions):
        yield scribe.skip(reason)
    if not mismatch and (wrong := cann_fits_torch_npu(build, cann)):
        yield _of_another_cann(scribe, versions, wrong)


def _wheels_differ(versions: Versions) -> bool:
    """Return whether torch_npu is made for another torch than the installed one, which VER107 reports."""
    torch, build = versions.torch or "", versions.torch_npu or ""
    return torch != "" and build != "" and release(torch) != release(build)


def _not_in_table(versions: Versions) -> str:
    """Return the reason why torch_npu and CANN are not compared; empty where the vendor's table has both."""
    build, cann = versions.torch_npu, versions.cann
    if not build or not cann:
        return "torch_npu or CANN is not installed"
    if _wheels_differ(versions):
        return f"torch_npu {build} is not built for torch {versions.torch} (see VER107)"
    if not cann_of(build) or not known_cann(cann):
        return f"torch_npu {build} or CANN {cann} is not in the vendor's table as of torch_npu 2.12"
    return ""


def _of_another_cann(scribe: Here, versions: Versions, wrong: str) -> Finding:
    """Return the finding about a torch_npu and a CANN that are both in the table and not made for each other."""
    cann, made_for, fit = versions.cann or "", cann_of(versions.torch_npu or ""), _fit(versions)
    report = scribe.bad if too_old(known_cann(cann), made_for) else scribe.warn
    change = replacement(versions, fit) or Replacement(
        f"CANN {made_for}", f"CANN {cann}", install_cann(versions, made_for)
    )
    return report(
        f"{scribe.host.name}: {wrong}",
        expected=change.expected,
        found=change.found,
        remedy=change.remedy,
        commands=pip_install(scribe, scribe.host.name, change.packages),
    )


def _fit(versions: Versions) -> Stack | None:
    """Return the releases of torch, torch_npu and CANN that the host should have; None where that is not known."""
    if versions.torch_npu is None or versions.cann is None:
        return None
    return fitting(Stack(versions.torch or "", versions.torch_npu, versions.cann))


@host_check("VER109", "CANN and NPU driver compatibility", products=NPU)
def driver(scribe: Here, versions: Versions) -> Iterator[Finding]:
    """Why: CANN needs functions that older drivers do not have. With such a driver, the first HCCL call ends with an
    internal error, or reports that a package does not support something. The driver and CANN each list which
    internal versions of the other they support.

    Result: FAIL if the driver is older than the CANN release notes allow (CANN 8.5.0 and later). WARN if neither list
    contains the other version. This rule is inferred, so it is never FAIL.

    Check manually: Compare each innerversion with the list of compatible versions in the other file.
      cd /usr/local/Ascend
      grep -iE 'innerversion|compatible_version' driver/version.info
      grep -iE 'innerversion|compatible_version' ascend-toolkit/latest/*/*.info

    Fix: Install the driver and firmware that the CANN release notes require, then reboot. Or install an older CANN
    release.
    """
    packages, name = versions.packages, scribe.host.name
    installed, oldest = numbers(versions.driver or ""), oldest_driver(versions.cann or "")
    fits = cann_fits(packages["driver"], packages["cann"]) if {"driver", "cann"} <= packages.keys() else None
    if installed and installed < oldest:
        needed = ".".join(map(str, oldest))
        remedy, retest, evidence = _driver_remedy(versions, f"driver {needed} or later")
        yield scribe.bad(
            f"{name}: CANN {versions.cann} needs driver {needed} or later, but driver {versions.driver} is installed",
            expected=needed,
            found=versions.driver,
            evidence=evidence,
            remedy=remedy,
            retest=retest,
        )
    elif fits is False:
        remedy, retest, evidence = _driver_remedy(versions, f"the driver for CANN {versions.cann}")
        yield scribe.warn(
            f"{name}: driver {versions.driver} and CANN {versions.cann} do not list each other as compatible",
            found=f"driver {packages['driver'].inner}, CANN {packages['cann'].inner}",
            evidence=evidence,
            remedy=remedy,
            retest=retest,
        )
    elif fits is None and not (installed and oldest):
        yield scribe.skip("the compatible releases of the driver and CANN are unknown")


def _driver_remedy(versions: Versions, driver: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the advice to install a driver, or to replace CANN first where VER107 or VER108 says so; the retest and
    the evidence."""
    fit = _fit(versions)
    if fit is None or fit.cann == versions.cann:
        return f"install {driver}, then reboot", "", ()
    evidence = f"torch_npu {versions.torch_npu} does not match CANN {versions.cann} (see VER108)"
    if fit.torch_npu != versions.torch_npu:
        evidence = f"torch_npu {versions.torch_npu} does not match torch {versions.torch} (see VER107)"
    remedy = (
        f"{install_cann(versions, fit.cann)}, because torch_npu {fit.torch_npu} needs it. Then check the driver again"
    )
    return remedy, "preflight check --only VER", (evidence,)


@host_check("VER110", "CANN and MindSpore compatibility", products=NPU, severity=Outcome.WARN)
def mindspore(scribe: Here, versions: Versions, job: Job) -> Iterator[Finding]:
    """Why: MindSpore is built for one CANN release and searches for it by name. With another release, MindSpore prints
    a warning on import, and operators fail to compile.

    Result: WARN if the two releases do not match. Releases that are not on the vendor's pages are not judged.

    Check manually: Where jobs run:
      pip list | grep -i mindspore
      python3 -c 'import mindspore; mindspore.run_check()'

    Fix: Install the MindSpore release that is built for this CANN release.
    """
    installed, cann = job.packages.get("mindspore", ""), versions.cann or ""
    if not installed or not cann:
        yield scribe.skip("MindSpore or CANN is not installed")
    elif release(installed) not in MINDSPORE:
        yield scribe.skip(f"MindSpore {installed} is not in the vendor's tables of CANN releases")
    elif wanted := mindspore_fits(installed, cann):
        fit = _fit(versions)
        remedy, packages = _other_mindspore(versions, wanted, fit.cann if fit else "")
        yield scribe.bad(
            f"{scribe.host.name}: MindSpore {installed} is built for CANN {' or '.join(wanted)}, but CANN {cann} "
            "is installed",
            expected=f"CANN {wanted[0]}",
            found=f"CANN {cann}",
            remedy=remedy,
            commands=pip_install(scribe, scribe.host.name, packages),
        )


def _other_mindspore(versions: Versions, wanted: Sequence[str], cann: str) -> tuple[str, tuple[str, ...]]:
    """Return the advice for a MindSpore that does not fit its CANN, and the package to install.

    `wanted`: the CANNs for this MindSpore. `cann`: the one that torch_npu has to have, if any. On a host with
    torch_npu, its CANN counts, as another one for MindSpore would break it."""
    if cann in wanted:
        return f"{install_cann(versions, cann)}, because MindSpore and torch_npu need this CANN", ()
    if release_ := next(
        (name for name, canns in MINDSPORE.items() if known_cann(cann or versions.cann or "") in canns), ""
    ):
        return f"install MindSpore {release_}, which is built for the installed CANN release", (
            f"mindspore=={release_}",
        )
    if cann:
        return f"run MindSpore with CANN {wanted[0]} in a separate container, because torch_npu needs CANN {cann}", ()
    return install_cann(versions, wanted[0]), ()


@host_check("VER111", "Python packages for CANN", products=NPU, severity=Outcome.WARN)
def imported_by_cann(scribe: Here, versions: Versions, job: Job) -> Iterator[Finding]:
    """Why: CANN's operator compiler is a Python program that runs in the jobs' Python. It needs the packages numpy,
    scipy, decorator and attrs. Without them, the first operator that has to be compiled fails with 500001 or "No module
    named". Everything before that operator works.

    Result: WARN if a package is missing.

    Check manually: Where jobs run:
      python3 -c 'import numpy, scipy, decorator, attr'

    Fix: Install the packages in the jobs' Python.
      python3 -m pip install numpy scipy decorator attrs
    """
    missing = [name for name in IMPORTED_BY_CANN if name not in job.packages]
    if versions.cann is None or not {"torch_npu", "mindspore"} & set(job.packages):
        yield scribe.skip("CANN is not installed, or no framework uses it")
    elif missing:
        yield scribe.bad(
            f"{scribe.host.name}: the jobs' Python lacks {_in_words(missing)}, which CANN imports",
            remedy="install the missing packages in the jobs' Python",
            commands=pip_install(scribe, scribe.host.name, missing),
        )


def _in_words(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


@cluster_check("VER112", "MindSpore version", products=NPU, blocks=False)
def mindspore_everywhere(scribe: All, job: Mapping[str, Job]) -> Iterator[Finding]:
    """Why: MindSpore releases differ in how ranks find each other and in how they partition a model. Ranks with
    different releases wait for each other.

    Result: FAIL if a host's version differs from the version on most hosts.

    Check manually: Where jobs run:
      pip list | grep -i mindspore

    Fix: Install the same release on every host, or run the job in the same container image.
    """
    return differing(
        scribe, "MindSpore", {name: job_of_host.packages.get("mindspore") for name, job_of_host in job.items()}
    )
