"""Checks of the files that a job may open: device files, the driver's files in a container, /dev/shm."""

import shlex
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
    """Why: The files /dev/davinciN belong to the user HwHiAiUser, and users outside its group cannot open them. Jobs of
    other users get 507033, "ret is -8005", or no devices. The same happens to root without the capability to bypass
    permissions. The kernel compares the group's number, not its name, and an image often has a different number.

    Result: FAIL if the jobs' user may not open a device file.

    Check manually: As the jobs' user, where jobs run:
      ls -ln /dev/davinci*
      id

    Fix: Add the jobs' user (USER) to the group, then log in again. For a container, use docker's --group-add with the
    group's number, or --cap-add DAC_OVERRIDE. If the group itself has no access to the files, reinstall the driver.
      usermod -aG HwHiAiUser USER
    """
    if not device_nodes.nodes:
        yield scribe.skip("the host has no NPU device files")
        return
    closed = [node for node in device_nodes.nodes if not _may_open(node, job)]
    if closed:
        node = closed[0]
        groups = ",".join(map(str, job.groups))
        remedy, commands = _permission_fix(node, job)
        no_capability = ("root does not have CAP_DAC_OVERRIDE, so the permissions of the files also apply to root",)
        yield scribe.bad(
            f"{scribe.host.name}: user {job.user} cannot open {node.path}"
            + (f" and {len(closed) - 1} more device files" if len(closed) > 1 else ""),
            expected=f"uid {node.uid}, or group {node.gid} ({node.group or 'no name'})",
            found=f"uid {job.uid}, groups {groups}",
            evidence=(no_capability if job.uid == 0 else ())
            + tuple(
                f"{entry.path} {entry.mode:04o} {entry.user}:{entry.group} ({entry.uid}:{entry.gid})"
                for entry in closed
            ),
            remedy=remedy,
            commands=tuple(scribe.on(scribe.host.name, command) for command in commands),
        )


def _permission_fix(node: DeviceNode, job: Job) -> tuple[str, tuple[str, ...]]:
    """Return the remedy and its commands. A group is offered only where it helps and gives no rights over the rest of
    the host."""
    if node.gid == 0 or node.mode >> 3 & 0o6 != 0o6:
        remedy = "reinstall the NPU driver, or correct the udev rule for its device files"
        return f"{remedy} (group HwHiAiUser, mode 0660)", ()
    if job.contained:
        capability = " or --cap-add DAC_OVERRIDE" if job.uid == 0 else ""
        return f"start the container with --group-add {node.gid}{capability}", ()
    named = node.group and not node.group.isdecimal()
    group, user = shlex.quote(node.group if named else "npu"), shlex.quote(job.user)
    new_group = () if named else (f"groupadd -g {node.gid} {group}",)
    remedy = f"add user {job.user} to group {node.group if named else node.gid}, then log in again"
    return remedy, (*new_group, f"usermod -aG {group} {user}")


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
    -8020", and the runtime finds no devices. If a mounted file does not exist on the host, docker creates an empty
    folder instead.

    Result: FAIL if a file is missing or is such an empty folder. WARN if a container does not have /etc/hccn.conf,
    because only tools that write rank tables need that file.

    Check manually: Where jobs run:
      ls -ld /usr/local/dcmi /etc/ascend_install.info /etc/hccn.conf
      ls -ld /usr/local/Ascend/driver/lib64

    Fix: Mount each path with docker run -v, or use the vendor's container runtime, which mounts all of them.
    """
    install = device_nodes.install.value if device_nodes else None
    paths = npu_files(install.path) if install and install.path else NPU_FILES
    errors = {path: error for path in paths if (error := _error(job.files.get(path)))}
    if errors:
        unread, reason = ", ".join(errors), next(iter(errors.values()))
        yield scribe.unknown(f"{scribe.host.name}: {unread} could not be checked where jobs run: {reason}")
    kinds = {path: job.files[path].kind for path in paths if path not in errors}
    yield from _missing(scribe, job, kinds)
    yield from _folders(scribe, job, kinds)


def _error(file: SeenFile | None) -> str:
    return "not collected" if file is None else file.error


def _missing(scribe: Here, job: Job, kinds: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about missing files. A file counts with its folder."""
    missing = [path for path, kind in kinds.items() if kind == "missing" and kinds.get(_parent(path)) != "missing"]
    if _HCCN_CONF in missing:
        missing.remove(_HCCN_CONF)  # on the host itself NPU104 reports it
        if job.contained:
            yield scribe.warn(
                f"{scribe.host.name}: {_HCCN_CONF} is missing from the jobs' container",
                found="missing",
                remedy=f"start the container with -v {_HCCN_CONF}:{_HCCN_CONF}",
            )
    if missing:
        binds = " ".join(f"-v {path}:{path}" for path in missing)
        yield scribe.bad(
            f"{scribe.host.name}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing "
            f"{_missing_from(job)}",
            found="missing",
            remedy=f"start the container with {binds}" if job.contained else "install the NPU driver",
        )


def _folders(scribe: Here, job: Job, kinds: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about folders that docker made in place of files."""
    for path in (_INSTALL_INFO, _HCCN_CONF):
        if kinds.get(path) == "folder":
            yield scribe.bad(
                f"{scribe.host.name}: {path} is a folder {_job_location(job)}",
                found="a folder",
                expected="a file",
                cause="the host did not have the file when the container was created" if job.contained else "",
                remedy=f"replace the folder {path} on the host with the file, then recreate the container",
            )


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _missing_from(job: Job) -> str:
    return "from the jobs' container" if job.contained else "where jobs run"


def _job_location(job: Job) -> str:
    return "in the jobs' container" if job.contained else "where jobs run"


@host_check("HST115", "Shared memory size", severity=Outcome.WARN)
def shared_memory(scribe: Here, limits: Limits) -> Iterator[Finding]:
    """Why: The processes of a data loader exchange tensors through /dev/shm. Docker gives a container 64 MiB of it by
    default. The first batch that does not fit ends a loader process with "Bus error", immediately or hours into the
    job.

    Result: WARN if /dev/shm has less than 1 GiB, in total or free.

    Check manually: Where jobs run:
      df -h /dev/shm

    Fix: Start the container with docker's --shm-size=64g or --ipc=host. In a pod, mount an emptyDir with medium: Memory
    at /dev/shm. If /dev/shm is full, remove files that no process has open.
      ls -l /dev/shm
    """
    size = limits.shm_bytes
    if size < SHM_ENOUGH:
        of_docker = size == SHM_OF_DOCKER
        yield scribe.bad(
            f"{scribe.host.name}: /dev/shm has only {size >> 20} MiB where jobs run",
            expected="1 GiB or more",
            found=f"{size >> 20} MiB",
            cause="the container has Docker's default size" if of_docker else "",
            remedy="start the container with --shm-size=64g or --ipc=host" if of_docker else "enlarge /dev/shm",
            commands=() if of_docker else (scribe.on(scribe.host.name, "mount -o remount,size=50% /dev/shm"),),
        )
    elif limits.shm and limits.shm.free < SHM_ENOUGH:
        yield scribe.bad(
            f"{scribe.host.name}: /dev/shm has only {limits.shm.free >> 20} of {size >> 20} MiB free",
            expected="1 GiB or more",
            found=f"{limits.shm.free >> 20} MiB",
            remedy="remove the files in /dev/shm that no process has open",
            commands=tuple(
                scribe.on(scribe.host.name, command) for command in ("ls -l /dev/shm", "fuser -v /dev/shm/*")
            ),
        )
