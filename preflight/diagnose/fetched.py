"""What hosts sent of their logs, as files to be read and what is to be said of them. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from preflight.diagnose.paths import about
from preflight.diagnose.reading import Source, Unread
from preflight.diagnose.types import Who

KERNEL = "the kernel's log"
_CLOCKS = 1.0  # seconds that clocks of two hosts may differ without anybody noticing


@dataclass(frozen=True)
class Copy:
    """A log that came: `size` bytes of it, from byte `begin` on."""

    host: str
    file: str
    size: int
    begin: int = 0


@dataclass(frozen=True)
class Fetched:
    """`sources` are read as local files are. `unread`: hosts and files, or parts of them, that did not come."""

    sources: list[Source] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class File:
    """As the host sent it: see preflight/remote/fetch_logs/main.py."""

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
    """A file that came, and where its text lies here; `inside`: it is the container's."""

    file: File
    path: Path
    inside: bool


@dataclass(frozen=True)
class Came:
    """What a host sent. `nothing`: patterns to which no file belongs; `ahead`: seconds by which its clock is ahead of
    this machine's, at least and at most; `unread`: what did not come."""

    kept: tuple[Kept, ...]
    kernel: Path | None
    nothing: frozenset[str]
    older: int
    zone: int
    ahead: tuple[float, float]
    unread: tuple[Unread, ...]


def take(came: Mapping[str, Came], globs: Sequence[str], into: Fetched) -> None:
    """`came`: host → what it sent; `globs`: as the operator named files on the hosts."""
    on = defaultdict(set)  # number of a pattern → hosts with a file of their own that belongs to it
    for name, it in came.items():
        for one in it.kept:
            if not one.file.shared:
                on[one.file.glob].add(name)
    seen: set[tuple[object, ...]] = set()  # what lies in a file system of all hosts is one file, and nobody's
    for name, it in came.items():
        for one in it.kept:
            file = one.file
            # A path may lead to another folder on each host (a volume's part, a container's layers).
            same = (file.shared, file.path, file.inode)
            if file.shared and same in seen:
                continue
            seen.add(same)
            # The output of a launcher lies on one host, and is of the ranks of all; others may have an older one there.
            own = not file.shared and (file.glob is None or len(on[file.glob]) == len(came))
            shown = f"{name}:{file.path}" + (" (in the container)" if one.inside else "")
            into.sources.append(
                Source(one.path, shown, replace(about(file.path.lstrip("/")), host=name if own else ""))
            )
            into.copies.append(Copy(name, shown.removeprefix(f"{name}:"), file.size, file.begin))
            if file.begin:
                why = f"only its last {file.size / (1 << 20):.1f} MiB came: line numbers are counted from there"
                into.unread.append(Unread(shown, why))
        if it.kernel:
            into.sources.append(Source(it.kernel, f"{name}:{KERNEL}", Who(host=name)))
            into.copies.append(Copy(name, KERNEL, it.kernel.stat().st_size))
        into.unread.extend(it.unread)
    _note(came, globs, into)


def _note(came: Mapping[str, Came], globs: Sequence[str], into: Fetched) -> None:
    for glob in globs:
        lacking = [name for name, it in came.items() if glob in it.nothing]
        if lacking and len(lacking) == len(came):
            into.unread.append(Unread(glob, "there is no such file on any host"))
        elif lacking:
            into.notes.append(f"no {glob} on {len(lacking)} of {len(came)} hosts")
    if older := sum(it.older for it in came.values()):
        into.notes.append(f"{older} older logs on the hosts were not fetched (--since)")
    if came:
        first, last = max(came, key=lambda name: came[name].ahead[0]), min(came, key=lambda name: came[name].ahead[1])
        apart = came[first].ahead[0] - came[last].ahead[1]
        if apart > _CLOCKS:
            into.notes.append(
                f"the clock of {first} is {apart:.0f} s or more ahead of {last}'s: which error came first is not sure "
                "(HST102)"
            )
    if len({it.zone for it in came.values()}) > 1:
        into.notes.append(
            "the hosts' clocks are in different time zones: what came first on different hosts is not known"
        )
