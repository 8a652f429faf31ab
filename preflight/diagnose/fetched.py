"""Logs that hosts sent, as files to be read and notes on them. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from preflight.diagnose.paths import about
from preflight.diagnose.reading import Source, Unread
from preflight.diagnose.types import Who

KERNEL = "the kernel's log"
_CLOCKS = 1.0  # seconds that clocks of two hosts may differ unnoticed


@dataclass(frozen=True)
class Copy:
    """A log that came. `size`: its bytes. `begin`: the byte from which on it came."""

    host: str
    file: str
    size: int
    begin: int = 0


@dataclass(frozen=True)
class Fetched:
    """Logs that were fetched.

    `sources` are read as local files are. `unread`: hosts and files, or parts of them, that did not come.
    """

    sources: list[Source] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class File:
    """A file as the host sent it: see preflight/remote/fetch_logs/main.py."""

    path: str
    glob: int | None
    shared: str
    inode: int
    changed: float
    size: int
    begin: int
    text: bytes


@dataclass(frozen=True)
class Kept:
    """A file that came, and the path of its text here. `inside`: it is the container's."""

    file: File
    path: Path
    inside: bool


@dataclass(frozen=True)
class Came:
    """A host's answer.

    `nothing`: patterns without a file. `ahead`: seconds by which its clock is ahead of this machine's, at least and at
    most. `unread`: files that did not come.
    """

    kept: tuple[Kept, ...]
    kernel: Path | None
    nothing: frozenset[str]
    older: int
    zone: int
    ahead: tuple[float, float]
    unread: tuple[Unread, ...]


def take(came: Mapping[str, Came], globs: Sequence[str], into: Fetched) -> None:
    """Add the hosts' logs to `into`, with notes on them.

    `came`: host → its answer. `globs`: the operator's patterns of files on the hosts.
    """
    on = defaultdict(set)  # number of a pattern → hosts with a file that is not shared and belongs to it
    for name, answer in came.items():
        for log in answer.kept:
            if not log.file.shared:
                on[log.file.glob].add(name)
    shared_keys: set[tuple[object, ...]] = set()  # a file in a file system of all hosts is one file, and no host's
    for name, answer in came.items():
        for log in answer.kept:
            file = log.file
            # A path may lead to another folder on each host (a volume's part, a container's layers).
            key = (file.shared, file.path, file.inode)
            if file.shared and key in shared_keys:
                continue
            shared_keys.add(key)
            # A launcher's output is on one host, and is of all ranks; other hosts may have an older one there.
            own = not file.shared and (file.glob is None or len(on[file.glob]) == len(came))
            shown = f"{name}:{file.path}" + (" (in the container)" if log.inside else "")
            into.sources.append(
                Source(log.path, shown, replace(about(file.path.lstrip("/")), host=name if own else ""))
            )
            into.copies.append(Copy(name, shown.removeprefix(f"{name}:"), file.size, file.begin))
            if file.begin:
                why = f"only its last {file.size / (1 << 20):.1f} MiB came: line numbers are counted from there"
                into.unread.append(Unread(shown, why))
        if answer.kernel:
            into.sources.append(Source(answer.kernel, f"{name}:{KERNEL}", Who(host=name)))
            into.copies.append(Copy(name, KERNEL, answer.kernel.stat().st_size))
        into.unread.extend(answer.unread)
    _note(came, globs, into)


def _note(came: Mapping[str, Came], globs: Sequence[str], into: Fetched) -> None:
    for glob in globs:
        lacking = [name for name, answer in came.items() if glob in answer.nothing]
        if lacking and len(lacking) == len(came):
            into.unread.append(Unread(glob, "there is no such file on any host"))
        elif lacking:
            into.notes.append(f"no {glob} on {len(lacking)} of {len(came)} hosts")
    if older := sum(answer.older for answer in came.values()):
        into.notes.append(f"{older} older logs on the hosts were not fetched (--since)")
    if came:
        first, last = max(came, key=lambda name: came[name].ahead[0]), min(came, key=lambda name: came[name].ahead[1])
        skew = came[first].ahead[0] - came[last].ahead[1]
        if skew > _CLOCKS:
            into.notes.append(
                f"the clock of {first} is {skew:.0f} s or more ahead of {last}'s: which error came first is not sure "
                "(HST102)"
            )
    if len({answer.zone for answer in came.values()}) > 1:
        into.notes.append(
            "the hosts' clocks are in different time zones: what came first on different hosts is not known"
        )
