"""Removal of a lab in any state: half built, without its record, or with parts missing."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from preflight.lab import cgroups, kernel, network, state
from preflight.lab.kernel import Process
from preflight.lab.spec import LabNames
from preflight.model.errors import PreflightError

UNFINISHED = f"{state.FILE}.new"
# Everything that `up` writes into the lab's directory. `down` removes these and nothing else, the record last.
WRITTEN = ("hosts.toml", "id_ed25519", "id_ed25519.pub", "known_hosts", "standins", "hosts", UNFINISHED, state.FILE)


@dataclass(frozen=True)
class Remains:
    """The remains of a lab. `ids` are several if records were lost. `made_directory` is that of its record."""

    directory: Path
    ids: frozenset[str]
    made_directory: bool


def find(directory: Path) -> Remains | None:
    """Return the remains of the lab of a directory, or None if there are none.

    Raise UsageError for a file that is no record, if the kernel shows no lab either.
    """
    recorded, made_directory = _record(directory / state.FILE)
    unfinished, unfinished_made = _record(directory / UNFINISHED)
    running = {_id_of(process) for process in _processes(directory, set())}
    ids = frozenset({recorded, unfinished, *running} - {""})
    record = directory / state.FILE
    if record.exists() and not any(_is_there(lab) for lab in ids) and not _is_spoilt(record):
        state.load(directory)  # raises UsageError for a file that is no record
    if not ids and not record.exists() and not (directory / UNFINISHED).exists():
        return None
    return Remains(directory, ids, made_directory or unfinished_made)


def take_down(remains: Remains) -> None:
    """End all processes of a lab and remove everything that it made.

    A failure does not stop the removal. The first one is raised at the end, and the record stays.
    """
    directory = remains.directory
    failures: list[Exception] = []

    def attempt(step: Callable[[], None]) -> None:
        try:
            step()
        except (PreflightError, OSError) as error:
            failures.append(error)

    names = [LabNames(lab) for lab in sorted(remains.ids)]
    attempt(lambda: _end_processes(directory, names))
    for lab in names:
        attempt(lambda lab=lab: cgroups.remove(lab.prefix))  # type: ignore[misc]
        attempt(lambda lab=lab: network.destroy(lab))  # type: ignore[misc]
    for name in WRITTEN:
        if name != state.FILE or not failures:
            attempt(lambda name=name: _remove(directory / name))  # type: ignore[misc]
    if failures:
        raise PreflightError(
            f"the lab in {directory} is not completely down: {failures[0]} "
            f"Run `preflight lab down --dir {directory}` again."
        )
    if remains.made_directory:
        with suppress(OSError):
            directory.rmdir()


def _record(file: Path) -> tuple[str, bool]:
    """Return the id in a record, "" if there is none, and whether its lab made the directory.

    A spoilt record may have an id.
    """
    with suppress(OSError, ValueError):
        text = file.read_text()
        match = re.search(r'"id": "([0-9a-f]{4})"', text)
        with suppress(ValueError, AttributeError):
            return (match[1] if match else ""), json.loads(text).get("made_directory") is True
        return (match[1] if match else ""), False
    return "", False


def _is_spoilt(record: Path) -> bool:
    """Return whether the file is what a crash leaves of a record: empty, or cut."""
    with suppress(OSError, UnicodeDecodeError):
        text = record.read_text()
        return not text.strip("\0") or (text.startswith('{\n "schema": ') and not text.endswith("}"))
    return False


def _is_there(lab: str) -> bool:
    """Return whether the kernel shows any object of the lab with this id."""
    names = LabNames(lab)
    return bool(kernel.namespaces(names.prefix)) or kernel.has_interface(names.controller)


def _id_of(process: Process) -> str:
    """Return the id of the lab with the process in one of its network namespaces, or "" if there is none."""
    for name in kernel.names_of_namespace(process):
        if match := re.match(r"preflight-([0-9a-f]{4})-", name):
            return match[1]
    return ""


def _processes(directory: Path, namespaces: Iterable[str]) -> set[Process]:
    """Return the processes in the lab's network namespaces, and those of hosts with files in its directory.

    The latter are found even if their namespace has lost its name.
    """
    return {*kernel.processes_in(namespaces), *kernel.processes_with_mount(f"upperdir={directory}/hosts/")}


def _end_processes(directory: Path, names: Iterable[LabNames]) -> None:
    namespaces = [name for lab in names for name in kernel.namespaces(lab.prefix)]
    while processes := _processes(directory, namespaces):
        kernel.kill_and_wait(processes)


def _remove(path: Path) -> None:
    """Remove a file, or a folder with its contents. Mounts of other programs there are detached, not emptied."""
    for mount in kernel.mounts_below(path):
        kernel.run("umount", "-l", mount)
    if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
        path.unlink(missing_ok=True)
        return
    while path.is_dir():
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            continue  # part of it has just been removed
        except PermissionError:
            kernel.run("chattr", "-R", "-f", "-i", "-a", str(path))  # made immutable on a host
            shutil.rmtree(path)
