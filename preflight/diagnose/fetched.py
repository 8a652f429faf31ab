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
class FetchedLog:
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
    copies: list[FetchedLog] = field(default_factory=list)
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
class HostLogs:
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


def take(answers: Mapping[str, HostLogs], globs: Sequence[str], into: Fetched) -> None:
    """Add the hosts' logs to `into`, with notes on them.

    `answers`: by host. `globs`: the operator's patterns of files on the hosts.
    """
    hosts = _hosts_of_globs(answers)
    shared_keys: set[tuple[object, ...]] = set()  # a file in a file system of all hosts is one file, and no host's
    for name, answer in answers.items():
        for log in answer.kept:
            file = log.file
            # A path may lead to another folder on each host (a volume's part, a container's layers).
            key = (file.shared, file.path, file.inode)
            if file.shared and key in shared_keys:
                continue
            shared_keys.add(key)
            # A launcher's output is on one host, and is of all ranks; other hosts may have an older one there.
            is_own = not file.shared and (file.glob is None or len(hosts[file.glob]) == len(answers))
            _take_file(log, name, into, is_own=is_own)
        if answer.kernel:
            into.sources.append(Source(answer.kernel, f"{name}:{KERNEL}", Who(host=name)))
            into.copies.append(FetchedLog(name, KERNEL, answer.kernel.stat().st_size))
        into.unread.extend(answer.unread)
    _note_globs(answers, globs, into)
    _note_clocks(answers, into)


def _hosts_of_globs(answers: Mapping[str, HostLogs]) -> Mapping[int | None, set[str]]:
    """Return the hosts with a file that is not shared, by the number of the pattern that it belongs to."""
    hosts = defaultdict(set)
    for name, answer in answers.items():
        for log in answer.kept:
            if not log.file.shared:
                hosts[log.file.glob].add(name)
    return hosts


def _take_file(log: Kept, host: str, into: Fetched, *, is_own: bool) -> None:
    """Add a file to `into`. `is_own`: its lines are of this host."""
    file = log.file
    path = file.path + (" (in the container)" if log.inside else "")
    writer = replace(about(file.path.lstrip("/")), host=host if is_own else "")
    into.sources.append(Source(log.path, f"{host}:{path}", writer))
    into.copies.append(FetchedLog(host, path, file.size, file.begin))
    if file.begin:
        why = f"only the last {file.size / (1 << 20):.1f} MiB were fetched, and line numbers start there"
        into.unread.append(Unread(f"{host}:{path}", why))


def _note_globs(answers: Mapping[str, HostLogs], globs: Sequence[str], into: Fetched) -> None:
    """Report patterns without a file, and files that were too old."""
    for glob in globs:
        lacking = sum(glob in answer.nothing for answer in answers.values())
        if lacking and lacking == len(answers):
            into.unread.append(Unread(glob, "no file matches on any host"))
        elif lacking:
            into.notes.append(f"no file matches {glob} on {lacking} of {len(answers)} hosts")
    if older := sum(answer.older for answer in answers.values()):
        into.notes.append(f"{older} older logs on the hosts were not fetched (--since)")


def _note_clocks(answers: Mapping[str, HostLogs], into: Fetched) -> None:
    """Report clocks and time zones that differ."""
    if answers:
        first = max(answers, key=lambda name: answers[name].ahead[0])
        last = min(answers, key=lambda name: answers[name].ahead[1])
        skew = answers[first].ahead[0] - answers[last].ahead[1]
        if skew > _CLOCKS:
            into.notes.append(
                f"the clock of {first} is at least {skew:.0f} s ahead of the clock of {last}, so it is uncertain which "
                "error came first (HST102)"
            )
    if len({answer.zone for answer in answers.values()}) > 1:
        into.notes.append("the hosts use different time zones, so the order of errors on different hosts is unknown")
