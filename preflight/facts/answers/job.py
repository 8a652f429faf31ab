"""Limits, versions, environment and files of a job, from the collector's section `job`. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from preflight.facts.parsers.ascend import version_files
from preflight.facts.parsers.ascend.packages import Package, package
from preflight.facts.reading import Found
from preflight.facts.redaction.redact import redacted
from preflight.facts.sections.job import Job, JobRdma, Mpi, Parameter, SeenFile, SeenFolder
from preflight.facts.types import Limits, Missing, Reading, SharedMemory, Versions

_NO_PYTHON = Missing("the Python of the jobs is not installed, so the limits and versions of jobs could not be checked")


@dataclass
class RawMpi:
    mpirun: str
    parameters: list[tuple[str, str, str]]  # name, value, source; the effective one first


@dataclass
class RawDeep:
    """The part of the section that the basic set leaves out."""

    user: str
    uid: int
    groups: list[int]
    capabilities: int
    contained: bool
    variables: dict[str, str]
    files: list[SeenFile]
    devices: list[int]
    hccl_test: str
    mpi: RawMpi = field(default_factory=lambda: RawMpi("", []))
    project: SeenFolder | None = None
    environment: SeenFolder | None = None
    imports: dict[str, str] = field(default_factory=dict)
    nccl_files: dict[str, str] = field(default_factory=dict)
    nccl_ignored: list[tuple[str, str]] = field(default_factory=list)
    rdma: JobRdma | None = None


@dataclass
class RawJob:
    """The section as the collector sends it. `python` None: the jobs' Python is not installed, the rest is unknown."""

    python: str | None
    packages: dict[str, str] = field(default_factory=dict)
    cann_files: list[tuple[str, str]] = field(default_factory=list)
    nofile: tuple[int, int] = (0, 0)
    memlock: tuple[int, int] = (0, 0)
    shm_bytes: int = 0
    stack: int = 0
    shm: SharedMemory | None = None
    deep: RawDeep | None = None


@dataclass
class RawDriver:
    driver: str | None
    firmware: str | None


def limits(raw: RawJob) -> Limits | Missing:
    return _NO_PYTHON if raw.python is None else Limits(*raw.nofile, raw.memlock[0], raw.shm_bytes, raw.stack, raw.shm)


def job_versions(raw: RawJob, driver: RawDriver | Missing | None) -> Versions | Missing:
    """Return the versions that a job uses. `driver` None: the host has no NPUs."""
    cann = version_files.cann(raw.cann_files)
    readings = {"cann": cann}
    if isinstance(driver, Missing):
        return driver
    for name in ("driver", "firmware"):
        text = getattr(driver, name) if driver else None
        readings[name] = Reading() if text is None else version_files.version_info(text)
    if errors := [f"{name}: {reading.error}" for name, reading in readings.items() if reading.error]:
        return Missing("; ".join(errors))
    packages, unread = _packages(raw, driver)
    return Versions(
        python=raw.python,
        torch=raw.packages.get("torch"),
        torch_npu=raw.packages.get("torch_npu"),
        numpy=raw.packages.get("numpy"),
        driver=readings["driver"].value,
        firmware=readings["firmware"].value,
        cann=cann.value,
        packages=packages,
        unread=unread,
    )


def _packages(raw: RawJob, driver: RawDriver | None) -> tuple[dict[str, Package], dict[str, str]]:
    """Return the packages of the version files, and by path why a file is not recognized.

    For CANN the first file with an inner version counts. Its version.cfg has the version alone.
    """
    packages: dict[str, Package] = {}
    unread: dict[str, str] = {}
    for name, path, text in _version_files(raw, driver):
        reading = package(text)
        if reading.error:
            unread[path] = reading.error
        elif reading.value and name not in packages and (name != "cann" or reading.value.inner):
            packages[name] = reading.value
    return packages, unread


def _version_files(raw: RawJob, driver: RawDriver | None) -> Iterator[tuple[str, str, str]]:
    """Yield package, path and text."""
    if driver and driver.driver is not None:
        yield "driver", "driver/version.info", driver.driver
    if driver and driver.firmware is not None:
        yield "firmware", "firmware/version.info", driver.firmware
    for path, text in raw.cann_files:
        if PurePosixPath(path).name != "version.cfg":
            yield "cann", path, text


def job(raw: RawJob) -> Job | Missing:
    if raw.python is None:
        return _NO_PYTHON
    deep = raw.deep
    if deep is None:
        return Missing("the collector did not check the jobs' environment")
    return Job(
        user=deep.user,
        uid=deep.uid,
        groups=tuple(deep.groups),
        capabilities=deep.capabilities,
        contained=deep.contained,
        variables=redacted(dict(sorted(deep.variables.items()))),
        files={file.path: file for file in deep.files},
        packages=dict(sorted(raw.packages.items())),
        devices=tuple(deep.devices),
        hccl_test=Found(deep.hccl_test or None),
        mpi=Mpi(
            deep.mpi.mpirun, {name: Parameter(value, source) for name, value, source in reversed(deep.mpi.parameters)}
        ),
        project=deep.project,
        environment=deep.environment,
        imports=deep.imports,
        nccl_files=deep.nccl_files,
        nccl_ignored=tuple(deep.nccl_ignored),
        rdma=deep.rdma,
    )
