"""Checks of the files that a job may open: device files, the driver's files in a container, /dev/shm."""

from collections.abc import Iterator, Mapping

from preflight.checks.engine.registry import NPU, Here, host_check
from preflight.facts.parsers.ascend.device_nodes import DeviceNode, DeviceNodes
from preflight.facts.sections.job import NPU_FILES, Job, SeenFile, npu_files
from preflight.facts.types import Limits
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

_DAC_OVERRIDE = 1 << 1  # CAP_DAC_OVERRIDE of capability.h
_INSTALL_INFO, _HCCN_CONF = "/etc/ascend_install.info", "/etc/hccn.conf"
SHM_OF_DOCKER = 64 << 20  # bytes of /dev/shm in a container without --shm-size
SHM_ENOUGH = 1 << 30


@host_check("HST109", "Device file permissions", products=NPU)
def may_open_devices(scribe: Here, device_nodes: DeviceNodes, job: Job) -> Iterator[Finding]:
    """Why: The files /dev/davinciN belong to the user HwHiAiUser and are closed to users outside its group. Other users
    get 507033, "ret is -8005", or no devices. So does root without the capability to bypass permissions. The group's
    number counts, not its name, and in an image it often differs.

    Result: FAIL if the jobs' user may not open a device file.

    Check manually: As the jobs' user, where jobs run:
      ls -ln /dev/davinci*
      id

    Fix: Add the jobs' user, here USER, to the group and log in again. For a container, use docker's --group-add with
    the group's number, or --cap-add DAC_OVERRIDE. If the files are closed to their own group, reinstall the driver.
      usermod -aG HwHiAiUser USER
    """
    if not device_nodes.nodes:
        yield scribe.skip("there are no device files of NPUs")
        return
    closed = [node for node in device_nodes.nodes if not _may_open(node, job)]
    if closed:
        node = closed[0]
        groups = ",".join(map(str, job.groups))
        yield scribe.bad(
            f"{scribe.host.name}: {job.user} may not open {node.path}"
            + (f" and {len(closed) - 1} more device files" if len(closed) > 1 else ""),
            expected=f"uid {node.uid}, or group {node.gid} ({node.group or 'without a name'})",
            found=f"uid {job.uid}, groups {groups}",
            cause="root without CAP_DAC_OVERRIDE is a user like any other" if job.uid == 0 else "",
            evidence=tuple(
                f"{entry.path} {entry.mode:04o} {entry.user}:{entry.group} ({entry.uid}:{entry.gid})"
                for entry in closed
            ),
            remedy=_permission_fix(node, job),
        )


def _permission_fix(node: DeviceNode, job: Job) -> str:
    """Return the fix. A group is offered only where it helps and gives no rights over the rest of the host."""
    if node.gid == 0 or node.mode >> 3 & 0o6 != 0o6:
        return (
            f"the driver makes {node.path} for the group HwHiAiUser, mode 0660: install it again, or mend the udev "
            "rule that changes it"
        )
    if job.contained:
        return f"make the container with --group-add {node.gid}" + (" or --cap-add DAC_OVERRIDE" * (job.uid == 0))
    if not node.group or node.group.isdecimal():
        return f"groupadd -g {node.gid} NAME; usermod -aG NAME {job.user}, then log in again"
    return f"usermod -aG {node.group} {job.user}, then log in again"


def _may_open(node: DeviceNode, job: Job) -> bool:
    """Return whether the job may read and write the node, as the kernel decides.

    The owner's bits count for the owner even if they are fewer."""
    if job.capabilities & _DAC_OVERRIDE:
        return True
    shift = 6 if job.uid == node.uid else 3 if node.gid in job.groups else 0
    return node.mode >> shift & 0o6 == 0o6


@host_check("HST111", "NPU driver files", products=NPU, optional=("device_nodes",))
def driver_files(scribe: Here, job: Job, device_nodes: DeviceNodes | None) -> Iterator[Finding]:
    """Why: A container may have the device files without the driver's libraries and files. Then npu-smi reports "ret is
    -8020", and the runtime finds no devices. Docker creates an empty folder if a file did not exist when it was
    mounted.

    Result: FAIL for a missing file or such a folder. WARN if a container lacks /etc/hccn.conf, because only tools that
    write rank tables need it.

    Check manually: Where jobs run:
      ls -ld /usr/local/dcmi /etc/ascend_install.info /etc/hccn.conf
      ls -ld /usr/local/Ascend/driver/lib64

    Fix: Mount each path with docker run -v, or use the vendor's container runtime, which mounts them.
    """
    install = device_nodes.install.value if device_nodes else None
    paths = npu_files(install.path) if install and install.path else NPU_FILES
    errors = {path: error for path in paths if (error := _error(job.files.get(path)))}
    if errors:
        unread, reason = ", ".join(errors), next(iter(errors.values()))
        yield scribe.unknown(f"{scribe.host.name}: {unread} could not be looked at where jobs run: {reason}")
    kinds = {path: job.files[path].kind for path in paths if path not in errors}
    yield from _missing(scribe, job, kinds)
    yield from _folders(scribe, job, kinds)


def _error(file: SeenFile | None) -> str:
    return "not looked at" if file is None else file.error


def _missing(scribe: Here, job: Job, kinds: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about missing files. A file counts with its folder."""
    missing = [path for path, kind in kinds.items() if kind == "missing" and kinds.get(_parent(path)) != "missing"]
    if _HCCN_CONF in missing:
        missing.remove(_HCCN_CONF)  # on the host itself NPU104 reports it
        if job.contained:
            yield scribe.warn(
                f"{scribe.host.name}: there is no {_HCCN_CONF} in the jobs' container",
                found="missing",
                remedy=f"docker run -v {_HCCN_CONF}:{_HCCN_CONF}",
            )
    if missing:
        binds = "docker run " + " ".join(f"-v {path}:{path}" for path in missing)
        yield scribe.bad(
            f"{scribe.host.name}: there is no {', no '.join(missing)} {_job_location(job)}",
            found="missing",
            expected="what the host has",
            remedy=binds if job.contained else "is the driver installed?",
        )


def _folders(scribe: Here, job: Job, kinds: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about folders that docker made in place of files."""
    for path in (_INSTALL_INFO, _HCCN_CONF):
        if kinds.get(path) == "folder":
            yield scribe.bad(
                f"{scribe.host.name}: {path} is a folder {_job_location(job)}",
                found="folder",
                expected="file",
                cause="it was not on the host when the container was made" if job.contained else "",
                remedy=f"remove it, put the file {path} there, and make the container anew",
            )


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _job_location(job: Job) -> str:
    return "in the jobs' container" if job.contained else "where jobs run"


@host_check("HST115", "Shared memory size", severity=Outcome.WARN)
def shared_memory(scribe: Here, limits: Limits) -> Iterator[Finding]:
    """Why: The processes of a data loader pass tensors in /dev/shm. Docker gives a container 64 MiB. The first batch
    that does not fit ends a loader with "Bus error", at once or hours into the job.

    Result: WARN if /dev/shm has less than 1 GiB, in total or free.

    Check manually: Where jobs run:
      df -h /dev/shm

    Fix: Start the container with docker's --shm-size=64g or --ipc=host. In a pod, mount an emptyDir with medium: Memory
    at /dev/shm. If /dev/shm is full, remove files that no process has open.
      ls -l /dev/shm
    """
    size = limits.shm_bytes
    if size < SHM_ENOUGH:
        yield scribe.bad(
            f"{scribe.host.name}: /dev/shm has {size >> 20} MiB where jobs run",
            expected="1 GiB or more",
            found=f"{size} bytes",
            cause="what docker gives by default" if size == SHM_OF_DOCKER else "",
            remedy="docker run --shm-size=64g, or --ipc=host; elsewhere: mount -o remount,size=50% /dev/shm",
        )
    elif limits.shm and limits.shm.free < SHM_ENOUGH:
        yield scribe.bad(
            f"{scribe.host.name}: /dev/shm is full: {limits.shm.free >> 20} MiB of {size >> 20} are left",
            expected="1 GiB or more",
            found=f"{limits.shm.free} bytes",
            remedy="ls -l /dev/shm; remove what nobody has open",
        )
