"""Releases of driver, firmware, CANN, torch_npu, torch, MindSpore and Python that are compatible.

torch_npu's part is its project's public compatibility table (Ascend/pytorch, COMPATIBILITY; as of torch_npu 2.12.0),
from CANN 5.1 on. Driver, firmware and CANN list compatible releases in their own version files. A release that is not
in the table, such as a newer one, gives no finding.
"""

import re
from dataclasses import dataclass

from preflight.facts.parsers.ascend.packages import Package, Ranges

# CANN → the torch_npu releases that are made for it. torch_npu's version begins with torch's.
TORCH_NPU = {
    "9.1.0": ("2.12.0", "2.11.0", "2.10.0.post4", "2.9.0.post6", "2.7.1.post8"),
    "9.0.0": ("2.9.0.post2", "2.8.0.post4", "2.7.1.post4"),
    "8.5.0": ("2.9.0", "2.8.0.post2", "2.7.1.post2", "2.6.0.post5"),
    "8.3.RC1": ("2.8.0", "2.7.1", "2.6.0.post3", "2.1.0.post17"),
    "8.2.RC1": ("2.6.0", "2.5.1.post1", "2.1.0.post13"),
    "8.1.RC1": ("2.5.1", "2.4.0.post4", "2.3.1.post6", "2.1.0.post12"),
    "8.0.0": ("2.4.0.post2", "2.3.1.post4", "2.1.0.post10"),
    "8.0.RC3": ("2.4.0", "2.3.1.post2", "2.1.0.post8"),
    "8.0.RC2": ("2.3.1", "2.2.0.post2", "2.1.0.post6", "1.11.0.post14"),
    "8.0.RC1": ("2.2.0", "2.1.0.post4", "1.11.0.post11"),
    "7.0.0": ("2.1.0", "2.0.1.post1", "1.11.0.post8"),
    "7.0.RC1": ("2.1.0.rc1", "2.0.1", "1.11.0.post4"),
    "6.3.RC3.1": ("1.11.0.post3",),
    "6.3.RC3": ("1.11.0.post2",),
    "6.3.RC2": ("2.0.1.rc1", "1.11.0.post1", "1.8.1.post2"),
    "6.3.RC1": ("1.11.0", "1.8.1.post1"),
    "6.0.1": ("1.8.1", "1.5.0.post8", "1.11.0.rc2"),
    "6.0.RC1": ("1.8.1.rc3", "1.5.0.post7", "1.11.0.rc1"),
    "5.1.RC2": ("1.8.1.rc2", "1.5.0.post6"),
    "5.1.RC1": ("1.8.1.rc1", "1.5.0.post5"),
}

# torch → the oldest and the newest Python (3.N) that torch_npu is built for.
PYTHON = {
    "2.13.0": (10, 14),
    "2.12.0": (10, 14),
    "2.11.0": (10, 14),
    "2.10.0": (10, 13),
    "2.9.0": (10, 13),
    "2.8.0": (9, 13),
    "2.7.1": (9, 13),
    "2.6.0": (9, 11),
    "2.5.1": (9, 11),
    "2.4.0": (8, 11),
    "2.3.1": (8, 11),
    "2.2.0": (8, 10),
    "2.1.0": (8, 11),
    "1.11.0": (7, 10),
}


# CANNs that run every torch_npu build for any of the first four, according to torch_npu's release notes (7.2.0).
CLOSE_CANN = ("8.3.RC1", "8.2.RC1", "8.1.RC1", "8.0.0", "8.0.RC3", "8.0.RC2")
_CLOSE_BUILDS = CLOSE_CANN[:4]

# MindSpore → the CANNs that its install pages, those of MindFormers and the vendor's deployer name for it.
MINDSPORE = {
    "2.7.2": ("8.5.0",),
    "2.7.1": ("8.3.RC1",),
    "2.6.0": ("8.2.RC1", "8.1.RC1"),
    "2.4.10": ("8.0.0",),
    "2.4.0": ("8.0.RC3",),
    "2.3.0": ("8.0.RC2", "8.0.RC1"),
    "2.1.0": ("6.3.RC2",),
}

# CANN → the oldest driver that its release notes name. Later CANNs do not accept an older one.
OLDEST_DRIVER = {"9.1.0": (25, 2), "8.5.0": (25, 0)}


def release(version: str) -> str:
    """Return the release of a version: 2.1.0 of 2.1.0+cpu, 2.1.0.post3 and 2.1.0rc1."""
    match = re.match(r"[0-9]+(\.[0-9]+){0,2}", version)
    return match.group() if match else ""


@dataclass(frozen=True)
class Stack:
    """Releases of torch, torch_npu and CANN that one host has, or should have."""

    torch: str
    torch_npu: str
    cann: str


def fitting(installed: Stack) -> Stack | None:
    """Return the releases that fit together and differ least from the installed ones; None if the table has none.

    Two of the three releases that fit together stay. If no two do, CANN stays: to replace it is to replace the driver.
    """
    torch, build, cann = installed.torch or release(installed.torch_npu), installed.torch_npu, installed.cann
    name, made_for, pair = known_cann(cann), cann_of(build), release(torch) == release(build)
    if not name or (pair and not made_for):
        return None
    if made_for and not cann_fits_torch_npu(build, cann):
        return Stack(torch if pair else release(build), build, cann)
    if nearest := torch_npu_for(torch, cann):
        return Stack(torch, nearest, cann)
    if pair:
        return Stack(torch, build, made_for)
    newest = TORCH_NPU[name][0]
    return Stack(release(newest), newest, cann)


def builds_of(torch: str) -> dict[str, str]:
    """Return CANN → the torch_npu for this torch, newest CANN first."""
    pairs = ((cann, build) for cann, builds in TORCH_NPU.items() for build in builds)
    return {cann: build for cann, build in pairs if release(build) == release(torch)}


def cann_fits_torch_npu(torch_npu: str | None, cann: str | None) -> str:
    name, made_for = known_cann(cann or ""), cann_of(torch_npu or "")
    if not name or not made_for or name == made_for or (name in CLOSE_CANN and made_for in _CLOSE_BUILDS):
        return ""
    return f"torch_npu {torch_npu} is built for CANN {made_for}, but CANN {cann} is installed"


def cann_of(torch_npu: str) -> str:
    """Return the CANN that a torch_npu is made for, as the table names it; empty if the table does not have it."""
    # The table spells release candidates 2.1.0.rc1, a package's metadata 2.1.0rc1. No table has daily builds.
    build = re.sub(r"(?<=[0-9])rc(?=[0-9])", ".rc", torch_npu.partition("+")[0])
    return next((name for name, builds in TORCH_NPU.items() if build in builds), "")


def too_old(cann: str, made_for: str) -> bool:
    """Return whether a CANN is older than the one that a torch_npu is made for, so that it lacks functions.

    Both are spelled as in the table, which has the newest CANN first.
    """
    newest_first = list(TORCH_NPU)
    return newest_first.index(cann) > newest_first.index(made_for)


def torch_npu_for(torch: str, cann: str) -> str:
    """Return the torch_npu for a torch and a CANN, else the nearest that runs with it; empty if the table has none."""
    installed, builds = known_cann(cann), builds_of(torch)
    if installed in builds or installed not in CLOSE_CANN:
        return builds.get(installed, "")
    position = CLOSE_CANN.index(installed)
    close_builds = [(abs(CLOSE_CANN.index(name) - position), builds[name]) for name in _CLOSE_BUILDS if name in builds]
    return min(close_builds)[1] if close_builds else ""


def mindspore_fits(mindspore: str, cann: str) -> tuple[str, ...]:
    """Return the CANNs for this MindSpore if the installed CANN is not among them; empty if it is, or is unknown."""
    wanted, installed = MINDSPORE.get(release(mindspore), ()), known_cann(cann)
    return wanted if installed and installed not in wanted else ()


def oldest_driver(cann: str) -> tuple[int, ...]:
    """Return the oldest driver that a CANN is released with, such as (25, 0); empty if it is unknown."""
    newest_first, installed = list(TORCH_NPU), known_cann(cann)
    for name, driver in OLDEST_DRIVER.items():
        if installed and newest_first.index(installed) <= newest_first.index(name):
            return driver
    return ()


def known_cann(version: str) -> str:
    """Return the table's name of a CANN, as of 8.1.rc1, 8.1.RC1.beta1 (a community build) and 8.0.RC2.2 (a patch).

    Return "" for any other version, such as an alpha, which is older than the release.
    """
    name = re.sub(r"\.BETA[0-9]+$", "", version.strip().upper())
    return name if name in TORCH_NPU else next((match.group() for match in _RC.finditer(name)), "")


_RC = re.compile(rf"^(?:{'|'.join(re.escape(name) for name in TORCH_NPU if 'RC' in name)})(?=\.[0-9]+$)")


def python_fits(torch_npu: str | None, python: str | None) -> str:
    first, last = PYTHON.get(release(torch_npu or ""), (0, 0))
    match = re.match(r"3\.([0-9]{1,3})", python or "")
    if not last or match is None or first <= int(match.group(1)) <= last:
        return ""
    return f"torch_npu {torch_npu} is built for Python 3.{first} to 3.{last}, not for {python}"


def firmware_fits(driver: Package, firmware: str) -> bool | None:
    """Return whether the driver's version file lists this firmware; None if it has no list.

    Three of the firmware's five numbers (7.1.0.11.220) are compared, as the ranges have three (7.0.0 to 7.1.99).
    """
    wanted = numbers(firmware)
    if not driver.takes_firmware or not wanted:
        return None
    return any(numbers(bounds[0]) <= wanted <= numbers(bounds[-1]) for bounds in driver.takes_firmware)


def driver_fits(firmware: Package, driver: Package) -> bool | None:
    """Return whether the firmware's version file lists this driver; None if it has no list, or if that is unclear.

    Its list has releases without their patches: "24.1" means every 24.1.…. So the result is False only if the list has
    no release of that year and number.
    """
    if firmware.release and firmware.release == driver.release:
        return True
    releases = [bounds[0].lower() for bounds in firmware.takes_driver]
    version = driver.version.lower()
    if any(f"{version}.".startswith(f"{name}.") for name in releases):
        return True
    if not releases or not numbers(version) or any(numbers(name)[:2] == numbers(version)[:2] for name in releases):
        return None
    return False


def cann_fits(driver: Package, cann: Package) -> bool | None:
    """Return whether driver and CANN list each other, by inner versions (V100R001C19…); None if neither has a list.

    The later package lists the earlier one. One list is enough: this is inferred from pairs that work.
    """
    if not (driver.inner and cann.takes) and not (cann.inner and driver.takes):
        return None
    return _named(driver.inner, cann.takes) or _named(cann.inner, driver.takes)


def numbers(version: str) -> tuple[int, ...]:
    """Return (7, 1, 0) for 7.1.0.11.220; empty if the version begins with no number."""
    match = re.match(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,2}", version)
    return tuple(map(int, match.group().split("."))) if match else ()


def _inner(version: str) -> tuple[int, ...]:
    """Return (100, 1, 19) for V100R001C19SPC001B145."""
    match = re.match(r"V([0-9]{1,6})R([0-9]{1,6})C([0-9]{1,6})", version)
    return tuple(map(int, match.groups())) if match else ()


def _named(inner: str, ranges: Ranges) -> bool:
    wanted = _inner(inner)
    return bool(wanted) and any(_inner(bounds[0]) <= wanted <= _inner(bounds[-1]) for bounds in ranges)
