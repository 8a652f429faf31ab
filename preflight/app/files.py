"""Files that users name: refused where they cannot be written, and written whole or not at all."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from preflight.model.errors import PreflightError, UsageError


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raise UsageError for an existing file, unless `force` is set."""
    if not force and (path.exists() or path.is_symlink()):
        raise UsageError(f"{path} already exists. Choose another file, or overwrite it with --force.")


def refuse_place(path: Path, option: str) -> None:
    """Raise UsageError if `write_whole` could not write the file, before any host is contacted.

    `option` is the option that names the file on the command line.
    """
    try:
        if path.exists() and not path.is_file():
            kind = "a directory. Choose a file in it." if path.is_dir() else "not a regular file. Choose another file."
            raise UsageError(f"{option} {path} is {kind}")
        _partial(path).exists()  # raises where the name is too long
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot write in {path.parent}: {error.strerror}") from None


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


def keep_ssh_paths(tables: dict[str, Any], old: Path, new: Path) -> None:
    """Resolve relative paths under [ssh] from the old inventory's folder, for an inventory in another folder."""
    old_folder, new_folder = old.absolute().parent, new.absolute().parent
    if old_folder == new_folder:
        return
    for table in (tables, *tables["hosts"]):
        ssh = table.get("ssh", {})
        for key in ("key", "known_hosts"):
            if isinstance(ssh.get(key), str) and ssh[key][:1] not in ("/", "~"):
                ssh[key] = str(old_folder / ssh[key])


def write_whole(path: Path, content: str | bytes, what: str, mode: int = 0o644) -> None:
    """Write the file whole or not at all. Raise PreflightError, in which `what` names the content: "the facts".

    A device such as /dev/null is refused, since root would replace it by a file.
    """
    partial = _partial(path)
    try:
        if path.exists() and not path.is_file():
            raise PreflightError(f"cannot write {what} to {path}: not a regular file. Choose another file.")
        partial.unlink(missing_ok=True)  # a file of another user would keep its mode and owner
        data = content if isinstance(content, bytes) else content.encode()
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise PreflightError(f"cannot write {what} to {path}: {error.strerror}") from error
