"""DIR/lab.json: the lab's state, written before anything is put up, so that `down` works after any crash."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from preflight.lab.spec import LabNames, Spec
from preflight.model.errors import UsageError

FILE = "lab.json"
SCHEMA = 1


@dataclass(frozen=True)
class Break:
    """One active fault: its place, and the values that are needed to undo it."""

    fault: str
    host: str
    device: int | None
    undo: dict[str, Any]


@dataclass(frozen=True)
class State:
    """One lab. `network` is the management network, or "" until it is chosen. `ready` is set at the end of `up`."""

    id: str
    spec: Spec
    made_directory: bool
    network: str = ""
    ready: bool = False
    breaks: tuple[Break, ...] = field(default=())

    @property
    def names(self) -> LabNames:
        """The kernel names of this lab."""
        return LabNames(self.id)

    def save(self, directory: Path) -> None:
        """Write the file whole or not at all."""
        unfinished = directory / f"{FILE}.new"
        with unfinished.open("w") as file:
            json.dump({"schema": SCHEMA, **asdict(self)}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(directory / FILE)

    def with_breaks(self, breaks: tuple[Break, ...]) -> "State":
        """Return the same lab with other faults."""
        return replace(self, breaks=breaks)


def load(directory: Path) -> State:
    """Return the lab of a directory. Raise UsageError if there is no readable one."""
    try:
        text = (directory / FILE).read_text()
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"there is no lab in {directory}. To start one, run `preflight lab up --dir {directory}`."
        ) from None
    try:
        data = json.loads(text)
        if data.pop("schema") != SCHEMA:
            raise UsageError(f"the lab in {directory} was made by another version of preflight.")
        spec, breaks = Spec(**data.pop("spec")), data.pop("breaks")
        return State(spec=spec, breaks=tuple(Break(**entry) for entry in breaks), **data)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(
            f"{directory / FILE} was not written by `preflight lab up`, so the state of the lab is unknown."
        ) from None


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock for changes of a lab. It is on the directory itself and ends with its holder."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
