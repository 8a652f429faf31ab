"""Checks of the jobs' inputs: the files, folders and packages of [job] are equal on all hosts."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.shared.majority import Odd, odd_ones
from preflight.facts.sections.job import Job, SeenFile, SeenFolder
from preflight.model.finding import Finding
from preflight.model.text import quote


@cluster_check("HST113", "Requirements and data sets", blocks=False)
def same_inputs(scribe: All, job: Mapping[str, Job]) -> Iterator[Finding]:
    r"""Why: Ranks with different packages or an incomplete copy of a data set fail late, or train on different data
    without an error. The check compares files by their bytes. It compares folders by the names and sizes of the files
    in them.

    Result: FAIL if a file or folder is missing or differs between hosts.

    Check manually: Run these where jobs run. Replace FILE or FOLDER with the path in the finding.
      sha256sum FILE
      find FOLDER -type f -printf '%P %s\n' | sort | sha256sum

    Fix: Copy the file or folder again from one host. Replace HOST and FOLDER in the command.
      rsync -a --checksum HOST:FOLDER/ FOLDER/
    """
    for path in (*scribe.cluster.job.requirements, *scribe.cluster.job.datasets):
        digests: dict[str, str] = {}  # host → digest; "" for a missing file
        for host, job_of_host in job.items():
            file = job_of_host.files.get(path, SeenFile(path, "unread"))
            if error := _error(file):
                yield scribe.unknown(f"{host}: {path} could not be compared: {error}", host=host)
            else:
                digests[host] = file.digest
        if digests and not any(digests.values()):
            for host in digests:
                remedy = f"copy {path} to every host, or correct its path under [job] in the inventory"
                yield scribe.bad(f"{host}: {path} is missing where jobs run", host=host, remedy=remedy)
            continue
        for odd in odd_ones(digests):
            yield scribe.bad(
                f"{odd.host}: {path} {_difference(odd)}",
                host=odd.host,
                peer=odd.others[0],
                remedy=f"copy {path} again from a host with the correct copy",
            )


def _error(file: SeenFile) -> str:
    """Return why a file cannot be compared; "" if it can."""
    if file.error or file.kind == "missing" or file.digest:
        return file.error
    return "it was not read"


def _difference(odd: Odd[str]) -> str:
    if not odd.value:
        return f"is missing, but present on {odd.elsewhere}"
    return (
        f"is present, but missing on {odd.elsewhere}" if not odd.usual else f"differs from the copy on {odd.elsewhere}"
    )


# Types of file systems that are one host's own; all others are shared (nfs4, lustre, gpfs, ceph, fuse.glusterfs …).
_OWN = frozenset(
    {
        "ext2",
        "ext3",
        "ext4",
        "xfs",
        "btrfs",
        "zfs",
        "f2fs",
        "bcachefs",
        "tmpfs",
        "ramfs",
        "overlay",
        "aufs",
        "squashfs",
        "rootfs",
        "vfat",
    }
)
_ALIAS = {"nfs4": "nfs"}  # the version that a client and its server agree on


@cluster_check("HST120", "Project and Python file systems", several=False, blocks=False)
def same_project(scribe: All, job: Mapping[str, Job]) -> Iterator[Finding]:
    """Why: The launcher starts the same command in the same folder on every host. If a mount is missing, the job ends
    with "cd: No such file or directory". If a host has a different mount, or a folder on its own disk instead, its
    ranks run old code.

    Result: FAIL if the folder is unusable, or is on a different file system than on other hosts. WARN if the jobs'
    Python is on a different file system. Copies on the local disks of all hosts pass.

    Check manually: Run these where jobs run. Replace FOLDER with the folder in the finding.
      findmnt -T FOLDER
      ls FOLDER

    Fix: Mount the same file system on every host. Also mount it at boot, with a line in /etc/fstab or in the
    automounter's map.
    """
    wanted = scribe.cluster.job.project
    folders: dict[str, SeenFolder] = {}
    for host, job_of_host in job.items():
        project = job_of_host.project
        if project is None:
            if wanted:
                yield scribe.unknown(f"{host}: the project folder {wanted} was not checked", host=host)
        elif project.error:
            yield scribe.bad(
                f"{host}: the project folder {wanted} cannot be used where jobs run: {project.error}",
                host=host,
                cause="the file system is not mounted" if _is_unmounted(project) else "",
                remedy="mount the file system as on the other hosts",
                commands=(scribe.on(host, f"findmnt -T {shlex.quote(wanted)}"),),
            )
        else:
            folders[host] = project
    remedy = "mount the same file system on every host"
    for odd, details in _other_filesystems(scribe, folders, remedy):
        yield scribe.bad(f"{odd.host}: the project folder {wanted} is on {_places(odd)}", **details)
    environments = {host: job_of_host.environment for host, job_of_host in job.items() if job_of_host.environment}
    remedy = "install the jobs' Python (probe.python in the inventory) in the same way on every host"
    for odd, details in _other_filesystems(scribe, environments, remedy):
        path = environments[odd.host].path
        yield scribe.warn(f"{odd.host}: the jobs' Python in {path} is on {_places(odd)}", **details)


def _other_filesystems(
    scribe: All, folders: Mapping[str, SeenFolder], remedy: str
) -> Iterator[tuple[Odd[str], dict[str, Any]]]:
    """Yield the hosts with a folder on another file system, with the details of the finding."""
    for odd in odd_ones({host: _filesystem(folder) for host, folder in folders.items()}):
        commands = (scribe.on(odd.host, f"df -hT {shlex.quote(folders[odd.host].path)}"),)
        yield odd, {"host": odd.host, "peer": odd.others[0], "remedy": remedy, "commands": commands}


def _places(odd: Odd[str]) -> str:
    return f"{odd.value}. On {odd.elsewhere}, it is on {odd.usual}"


def _is_unmounted(folder: SeenFolder) -> bool:
    """Return whether the folder is missing, and would be on the host's own disk."""
    return folder.error.startswith("No such file") and folder.filesystem in _OWN


def _filesystem(folder: SeenFolder) -> str:
    """Return a name for the file system of a folder, equal for the same file system."""
    if not folder.filesystem:
        return "an unknown file system"
    kind = _ALIAS.get(folder.filesystem, folder.filesystem)
    return "a local file system" if kind in _OWN else f"{kind} {quote(folder.source)}"


@host_check("HST121", "Python imports of the job", blocks=False)
def imports(scribe: Here, job: Job) -> Iterator[Finding]:
    """Why: A package may be installed for another Python, or only on the other hosts. The ranks on one host then end
    with ModuleNotFoundError, and all other ranks wait for them.

    Result: FAIL if a package is missing. Like an import, the check searches the project folder first. It uses the jobs'
    Python, and setup and exec under [probe] in the inventory. It does not import anything.

    Check manually: Run this where jobs run, with the package in the finding (here torch):
      python3 -c 'import importlib.util as u; print(u.find_spec("torch"))'

    Fix: Install the package (here torch) for the jobs' Python. If jobs use another Python, correct python, setup and
    exec under [probe] in the inventory.
      python3 -m pip install torch
    """
    missing = [name for name in scribe.cluster.job.imports if not job.imports.get(name)]
    if missing:
        prefix = f" in {job.environment.path}" if job.environment else ""
        yield scribe.bad(
            f"{scribe.host.name}: the jobs' Python{prefix} cannot find {', '.join(missing)}",
            remedy=f"install {', '.join(missing)} for the jobs' Python, or correct [probe] in the inventory",
        )
