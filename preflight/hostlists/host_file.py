"""Host files of MPI and similar launchers: a host and its slots a line, or all on one line as the value of `-H`.

Open MPI's prte_hostfile(5), Hydra's -f, `_parse_hostfile` of DeepSpeed's launcher/runner.py, Horovod's parse_hosts.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from preflight.hostlists.host_list import HostList, ListedHost, ListSource, TextLine, whole_number

MOST_SLOTS = 4096
OPTION = re.compile(r"^\s*(?:-H|--?hosts?)(?:\s+|\s*=\s*)")  # before its value in a command
_ASSIGNMENT = re.compile(r"\s+([A-Za-z_-]+)\s*=\s*(\S+)")
_MPI_HOST = re.compile(r"(?:(?P<user>[^\s@:=-][^\s@:=]*)@)?(?P<name>[^\s@=]+)")
_HYDRA_HOST = re.compile(r"(?P<name>[^\s:=]+)(?::(?P<slots>\S+))?")
_DEEPSPEED = re.compile(r"(?P<name>\S+)\s+slots=(?P<slots>[0-9]+)")


class _Entry(NamedTuple):
    host: ListedHost
    at: int
    unused: frozenset[str] = frozenset()  # options that an inventory has no place for


def read_open_mpi(source: ListSource) -> HostList:
    """Read `host slots=8 max_slots=8`, or user@host. Lines of one host add up, as in Open MPI."""
    return _add_up(source, (_mpi_entry(source, line, _MPI_HOST, "slots", "username") for line in source.lines()))


def read_hydra(source: ListSource) -> HostList:
    """Read `host:8 user=me` of MPICH, Intel MPI and MVAPICH. Lines of one host add up."""
    return _add_up(source, (_mpi_entry(source, line, _HYDRA_HOST) for line in source.lines()))


def read_deepspeed(source: ListSource) -> HostList:
    """Read `worker-0 slots=8` lines, where a repeated host is an error, as for DeepSpeed."""
    entries = []
    for line in source.lines():
        match = _DEEPSPEED.fullmatch(line.text)
        if match is None:
            source.fail(line.at, "expected lines such as worker-0 slots=8")
        entries.append(_Entry(_host(source, line.at, match["name"], match["slots"]), line.at))
    return _each_once(source, entries)


def read_option(source: ListSource) -> HostList:
    """Read `a:8,b:8`, the value of -H of horovodrun, perseusrun and mpirun, with the option or without."""
    entries = []
    option = OPTION.match(source.text)
    for word in re.compile(r"[^,\s]+").finditer(source.text, option.end() if option else 0):
        name, colon, slots = word[0].partition(":")
        entries.append(_Entry(_host(source, word.start(), name, slots if colon else None), word.start()))
    bare = [entry for entry in entries if entry.host.slots is None]
    if 0 < len(bare) < len(entries):
        text = f"{bare[0].host.name} has no :N, but other hosts have. mpirun assumes :1, and horovodrun rejects it"
        source.fail(bare[0].at, f"{text}. Add :N")
    return _each_once(source, entries)


def write_open_mpi(host_list: HostList) -> str:
    return "".join(
        (f"{host.user}@" if host.user else "") + host.name + _slots(" slots=", host) + "\n" for host in host_list.hosts
    )


def write_hydra(host_list: HostList) -> str:
    hosts = _without_colons(host_list)
    return "".join(host.name + _slots(":", host) + (f" user={host.user}" if host.user else "") + "\n" for host in hosts)


def write_deepspeed(host_list: HostList) -> str:
    """Raise ValueError if the slots of a host are not known."""
    if without := next((host.name for host in host_list.hosts if host.slots is None), None):
        raise ValueError(f"DeepSpeed needs slots for every host, but {without} has none")
    return "".join(f"{host.name} slots={host.slots}\n" for host in host_list.hosts)


def write_option(host_list: HostList) -> str:
    """Raise ValueError if the slots of only some hosts are known."""
    bare = [host.name for host in host_list.hosts if host.slots is None]
    if 0 < len(bare) < len(host_list.hosts):
        raise ValueError(f"-H needs slots for all hosts or for none, but {bare[0]} has none")
    return ",".join(host.name + _slots(":", host) for host in _without_colons(host_list)) + "\n"


def _mpi_entry(source: ListSource, line: TextLine, form: re.Pattern[str], *used: str) -> _Entry:
    """Read a host and its options. `used`: the options besides `user` that an inventory has a place for."""
    match = form.match(line.text)
    end = match.end() if match else 0
    options: dict[str, str] = {}
    while option := _ASSIGNMENT.match(line.text, end):
        options[option[1].lower()] = option[2]
        end = option.end()
    if match is None or end < len(line.text):
        source.fail(line.at + end, f"unknown setting: {line.text[end:][:40].strip()!r}")
    own = match.groupdict()
    user = options.get("user") or options.get("username") or own.get("user")
    host = _host(source, line.at, match["name"], options.get("slots") or own.get("slots"), user)
    return _Entry(host, line.at, frozenset(options.keys() - {"user", *used}))


def _host(source: ListSource, at: int, name: str, slots: str | None, user: str | None = None) -> ListedHost:
    number = None if slots is None else whole_number(slots, 1, MOST_SLOTS)
    if slots is not None and number is None:
        source.fail(at, f"slots of {name!r} should be a number from 1 to {MOST_SLOTS}, found {slots[:40]!r}")
    return ListedHost(source.valid_host(name, at), slots=number, user=user)


def _add_up(source: ListSource, entries: Iterable[_Entry]) -> HostList:
    """Add up the slots of a host's lines. Refuse lines that differ: MPI adds them up, but they are likely a mistake."""
    first: dict[str, _Entry] = {}
    lines: Counter[str] = Counter()
    unused: set[str] = set()
    for entry in entries:
        name = entry.host.name
        before = first.setdefault(name, entry)
        if before.host != entry.host:
            line = source.text.count("\n", 0, before.at) + 1
            source.fail(entry.at, f"{name} is also on line {line}, with different slots or another user. Keep one line")
        lines[name] += 1
        unused |= entry.unused
    notes = [
        f"{name} is listed {count} times, so its slots were added up" for name, count in lines.items() if count > 1
    ][:1]
    notes += (
        [f"settings without an equivalent in the inventory were left out: {', '.join(sorted(unused))}"]
        if unused
        else []
    )
    hosts = tuple(_times(entry.host, lines[name]) for name, entry in first.items())
    return source.valid_list(HostList(hosts, notes=tuple(notes)))


def _times(host: ListedHost, lines: int) -> ListedHost:
    """Multiply the slots of a host with several lines, of which one without slots counts one."""
    return host if lines == 1 else ListedHost(host.name, slots=(host.slots or 1) * lines, user=host.user)


def _each_once(source: ListSource, entries: Sequence[_Entry]) -> HostList:
    first: dict[str, _Entry] = {}
    for entry in entries:
        before = first.setdefault(entry.host.name, entry)
        if before is not entry:
            line = source.text.count("\n", 0, before.at) + 1
            slots = "different" if before.host.slots != entry.host.slots else "the same"
            source.fail(entry.at, f"{entry.host.name} is already listed on line {line}, with {slots} slots")
    return source.valid_list(HostList(tuple(entry.host for entry in entries)))


def _slots(before: str, host: ListedHost) -> str:
    return "" if host.slots is None else f"{before}{host.slots}"


def _without_colons(host_list: HostList) -> tuple[ListedHost, ...]:
    if name := next((host.name for host in host_list.hosts if ":" in host.name), None):
        raise ValueError(f"{name} cannot be written, because this format puts slots after a colon")
    return host_list.hosts
