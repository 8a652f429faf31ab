"""Host files of MPI and its kind: a host and its slots a line, or all on one line behind `-H`.

Open MPI's prte_hostfile(5), Hydra's -f, `_parse_hostfile` of DeepSpeed's launcher/runner.py, Horovod's parse_hosts.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from preflight.hostlists.listed import Line, Listed, ListedHost, Source, whole_number

MOST_SLOTS = 4096
_OPTION = re.compile(r"\s+([A-Za-z_-]+)\s*=\s*(\S+)")
_MPI_HOST = re.compile(r"(?:(?P<user>[^\s@:=-][^\s@:=]*)@)?(?P<name>[^\s@=]+)")
OPTION = re.compile(r"^\s*(?:-H|--?hosts?)(?:\s+|\s*=\s*)")  # as it stands in a command, in front of its value
_HYDRA_HOST = re.compile(r"(?P<name>[^\s:=]+)(?::(?P<slots>\S+))?")
_DEEPSPEED = re.compile(r"(?P<name>\S+)\s+slots=(?P<slots>[0-9]+)")
_OF_OPEN_MPI, _OF_HYDRA = ("slots", "user", "username"), ("user",)


class _Entry(NamedTuple):
    host: ListedHost
    at: int
    unused: tuple[str, ...] = ()  # options that an inventory has no place for


def read_open_mpi(source: Source) -> Listed:
    """`host slots=8 max_slots=8`, or user@host. Lines of one host add up, as Open MPI has it."""
    return _added_up(source, (_mpi_entry(source, line, _MPI_HOST, _OF_OPEN_MPI) for line in source.lines()))


def read_hydra(source: Source) -> Listed:
    """`host:8 user=me` of MPICH, Intel MPI and MVAPICH. Lines of one host add up."""
    return _added_up(source, (_mpi_entry(source, line, _HYDRA_HOST, _OF_HYDRA) for line in source.lines()))


def read_deepspeed(source: Source) -> Listed:
    """`worker-0 slots=8` and nothing else; a host that stands there twice is an error, as it is for DeepSpeed."""
    entries = []
    for line in source.lines():
        match = _DEEPSPEED.fullmatch(line.text)
        if match is None:
            source.wrong(line.at, "DeepSpeed wants lines like: worker-0 slots=8")
        entries.append(_entry(source, line.at, match["name"], match["slots"]))
    return source.listed(Listed(tuple(entry.host for entry in _once(source, entries))))


def read_option(source: Source) -> Listed:
    """`a:8,b:8`, what stands behind -H of horovodrun, perseusrun and mpirun, or begins with it."""
    entries = []
    option = OPTION.match(source.text)
    for word in re.compile(r"[^,\s]+").finditer(source.text, option.end() if option else 0):
        name, colon, slots = word[0].partition(":")
        entries.append(_entry(source, word.start(), name, slots if colon else None))
    bare = [entry for entry in entries if entry.host.slots is None]
    if 0 < len(bare) < len(entries):
        text = f"{bare[0].host.name} has no :N, others have: mpirun takes that for :1, horovodrun for a mistake"
        source.wrong(bare[0].at, f"{text}; write one")
    return source.listed(Listed(tuple(entry.host for entry in _once(source, entries))))


def write_open_mpi(listed: Listed) -> str:
    return _lines(listed, lambda host: (f"{host.user}@" if host.user else "") + host.name, " slots=")


def write_hydra(listed: Listed) -> str:
    return "".join(_word(host) + (f" user={host.user}" if host.user else "") + "\n" for host in _without_colons(listed))


def write_deepspeed(listed: Listed) -> str:
    """Raises ValueError where a host's slots are not known."""
    if unsaid := next((host.name for host in listed.hosts if host.slots is None), None):
        raise ValueError(f"DeepSpeed wants the slots of every host; {unsaid} has none")
    return _lines(listed, lambda host: host.name, " slots=")


def write_option(listed: Listed) -> str:
    """Raises ValueError where slots are known of only some hosts."""
    bare = [host.name for host in listed.hosts if host.slots is None]
    if 0 < len(bare) < len(listed.hosts):
        raise ValueError(f"-H wants the slots of every host, or of none; {bare[0]} has none")
    return ",".join(map(_word, _without_colons(listed))) + "\n"


def _mpi_entry(source: Source, line: Line, form: re.Pattern[str], known: tuple[str, ...]) -> _Entry:
    host = form.match(line.text)
    end = host.end() if host else 0
    options: dict[str, str] = {}
    while option := _OPTION.match(line.text, end):
        options[option[1].lower()] = option[2]
        end = option.end()
    if host is None or end < len(line.text):
        source.wrong(line.at + end, f"is not understood: {line.text[end:][:40].strip()!r}")
    said = host.groupdict()
    user = options.get("user") or options.get("username") or said.get("user")
    unused = tuple(sorted(options.keys() - set(known)))
    return _entry(source, line.at, host["name"], options.get("slots") or said.get("slots"), user, unused)


def _entry(
    source: Source, at: int, name: str, slots: str | None, user: str | None = None, unused: tuple[str, ...] = ()
) -> _Entry:
    number = None if slots is None else whole_number(slots, 1, MOST_SLOTS)
    if slots is not None and number is None:
        source.wrong(at, f"slots of {name!r} should be a number from 1 to {MOST_SLOTS}, found {slots[:40]!r}")
    return _Entry(ListedHost(source.checked(name, at), slots=number, user=user), at, unused)


def _added_up(source: Source, entries: Iterable[_Entry]) -> Listed:
    """Lines of the same host with the same slots count together. With different ones somebody has made a mistake, says
    this program, though MPI would add them up silently."""
    first: dict[str, _Entry] = {}
    lines: dict[str, int] = {}
    unused: set[str] = set()
    for entry in entries:
        name = entry.host.name
        other = first.setdefault(name, entry)
        if other.host != entry.host:
            line = source.text.count("\n", 0, other.at) + 1
            source.wrong(entry.at, f"{name} stands on line {line} with other slots or another user; write one line")
        lines[name] = lines.get(name, 0) + 1
        unused |= set(entry.unused)
    hosts = tuple(_times(entry.host, lines[name]) for name, entry in first.items())
    twice = [name for name, count in lines.items() if count > 1]
    notes = [f"{twice[0]} stands there {lines[twice[0]]} times: its slots were added up"] if twice else []
    notes += [f"left out, since an inventory has no place for it: {', '.join(sorted(unused))}"] if unused else []
    return source.listed(Listed(hosts, notes=tuple(notes)))


def _times(host: ListedHost, lines: int) -> ListedHost:
    """A line without slots counts one, where there are several."""
    return host if lines == 1 else ListedHost(host.name, slots=(host.slots or 1) * lines, user=host.user)


def _once(source: Source, entries: Iterable[_Entry]) -> Iterator[_Entry]:
    first: dict[str, _Entry] = {}
    for entry in entries:
        other = first.setdefault(entry.host.name, entry)
        if other is not entry:
            line = source.text.count("\n", 0, other.at) + 1
            slots = "other" if other.host.slots != entry.host.slots else "the same"
            source.wrong(entry.at, f"{entry.host.name} stands there already, on line {line}, with {slots} slots")
        yield entry


def _lines(listed: Listed, name: Callable[[ListedHost], str], slots: str) -> str:
    return "".join(name(host) + ("" if host.slots is None else f"{slots}{host.slots}") + "\n" for host in listed.hosts)


def _word(host: ListedHost) -> str:
    return host.name if host.slots is None else f"{host.name}:{host.slots}"


def _without_colons(listed: Listed) -> tuple[ListedHost, ...]:
    if wrong := next((host.name for host in listed.hosts if ":" in host.name), None):
        raise ValueError(f"{wrong} cannot stand there: what follows a colon are slots")
    return listed.hosts
