"""The text of a rank table as types. A problem is what hinders reading, and a number where HCCL wants a string."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from preflight.model.text import quote
from preflight.ranktable.syntax import NotJsonError, parse
from preflight.ranktable.types import (
    OLD,
    VERSIONS,
    Count,
    Path,
    RankAddress,
    RankedDevice,
    RankEntry,
    RankTable,
    Server,
    SuperPodEntry,
    TableProblem,
    format_path,
)

_LONGEST = 64  # characters of a text: no address is longer
_LONGEST_ID = 256  # characters of a server_id: more than the 64 that HCCL takes, so that a rule can report a longer one
_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}
_DEVICE_KEYS = ("device_ip", "super_device_id", "device_port", "host_port", "backup_device_ip", "backup_device_port")

_Entry = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """A table as it was read. `table` is None for other texts and versions, with the reason in `problems`.

    `problems` are those of the form alone: preflight/ranktable/rules.py has the others. `status` is "completed" for a
    finished table, None if it has none.
    """

    table: RankTable | None
    problems: tuple[TableProblem, ...]
    is_json: bool = True
    status: str | None = None

    @property
    def why(self) -> str:
        """The reason why there is no table."""
        return self.problems[0].text if self.problems else ""


class _FormError(Exception):
    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.problem = TableProblem("form", text, path)


@lru_cache(maxsize=4)  # all hosts of a cluster have the same text
def read(text: str) -> Reading:
    """Read a rank table of any version. Raises nothing."""
    try:
        value, problems = parse(text)
    except NotJsonError as error:
        return Reading(None, (error.problem,), is_json=False)
    status = str(value["status"]) if isinstance(value, dict) and "status" in value else None
    reader = _TableReader()
    try:
        table = reader.table(value)
    except _FormError as error:
        return Reading(None, (*problems, error.problem, *reader.problems), status=status)
    return Reading(table, (*problems, *reader.problems), status=status)


@dataclass
class _TableReader:
    """A reader that collects problems which do not hinder reading. `numbers`: version 2.0 has numbers, not strings."""

    problems: list[TableProblem] = field(default_factory=list)
    numbers: bool = False

    def table(self, value: Any) -> RankTable:
        if not isinstance(value, dict):
            raise _FormError((), f"this is not a rank table. It is {_kind(value)}, not an object")
        if "version" not in value and "group_list" in value:
            return self._group_list(value)
        if "version" not in value:
            raise _FormError((), "this is not a rank table. It has neither version nor group_list")
        version = value["version"]
        if not isinstance(version, str):
            raise _FormError(("version",), f"version is {quote(str(version))}, {_kind(version)}. It must be a string")
        if version not in VERSIONS:
            raise _FormError(
                ("version",), f"version {quote(version)} is not supported. Use one of {', '.join(VERSIONS)}"
            )
        return self._rank_list(value) if version == "2.0" else self._server_list(value, version)

    def _server_list(self, table: _Entry, version: str) -> RankTable:
        servers = tuple(self._server(entry, path) for entry, path in _entries(table, "server_list", ()))
        pods = tuple(self._pod(entry, path) for entry, path in _entries(table, "super_pod_list", (), needed=False))
        count = self._count(table, "server_count", len(servers), ())
        return RankTable(version, servers, pods if version == "1.2" else (), counts=(count,))

    def _server(self, entry: _Entry, path: Path) -> Server:
        hardware = entry.get("hardware_type")  # of any form: HCCL does not read it
        return Server(
            self._text(entry, "server_id", path, longest=_LONGEST_ID),
            tuple(
                self._device(device, device_path, self._number(device, "rank_id", device_path))
                for device, device_path in _entries(entry, "device", path)
            ),
            path,
            self._text(entry, "host_ip", path),
            self._text(entry, "container_ip", path),
            hardware[:_LONGEST] if isinstance(hardware, str) else "",
        )

    def _device(self, entry: _Entry, path: Path, rank: int) -> RankedDevice:
        device_id = self._number(entry, "device_id", path)
        return RankedDevice(rank, device_id, path, **{key: self._text(entry, key, path) for key in _DEVICE_KEYS})

    def _pod(self, entry: _Entry, path: Path) -> SuperPodEntry:
        servers = _entries(entry, "server_list", path)
        id_ = self._text(entry, "super_pod_id", path)
        return SuperPodEntry(id_, tuple(self._text(server, "server_id", place) for server, place in servers), path)

    def _group_list(self, table: _Entry) -> RankTable:
        """Read a group_list. Its ranks follow from the order, and its first group has all devices."""
        groups = _entries(table, "group_list", ())
        counts = [self._count(table, "group_count", len(groups), ())]
        worlds: list[tuple[Server, ...]] = []
        for group, group_path in groups:
            servers: list[Server] = []
            rank = 0
            for instance, path in _entries(group, "instance_list", group_path):
                devices = []
                for device, device_path in _entries(instance, "devices", path):
                    devices.append(self._device(device, device_path, rank))
                    rank += 1
                id_ = self._text(instance, "server_id", path, longest=_LONGEST_ID)
                servers.append(Server(id_, tuple(devices), path))
            counts.append(self._count(group, "instance_count", len(servers), group_path))
            counts.append(self._count(group, "device_count", rank, group_path))
            worlds.append(tuple(servers))
        return RankTable(OLD, worlds[0] if worlds else (), counts=tuple(counts))

    def _rank_list(self, table: _Entry) -> RankTable:
        self.numbers = True
        ranks = tuple(self._rank(entry, path) for entry, path in _entries(table, "rank_list", ()))
        return RankTable("2.0", ranks=ranks, counts=(self._count(table, "rank_count", len(ranks), ()),))

    def _rank(self, entry: _Entry, path: Path) -> RankEntry:
        addresses = tuple(
            RankAddress(self._text(address, "addr_type", place), self._text(address, "addr", place), place)
            for level, level_path in _entries(entry, "level_list", path)
            for address, place in _entries(level, "rank_addr_list", level_path)
        )
        return RankEntry(self._number(entry, "rank_id", path), self._number(entry, "device_id", path), addresses, path)

    def _count(self, entry: _Entry, key: str, counted: int, path: Path) -> Count:
        number = self._number(entry, key, path) if key in entry else None
        return Count(key, number, counted, (*path, key))

    def _number(self, entry: _Entry, key: str, path: Path) -> int:
        place = (*path, key)
        if key not in entry:
            raise _FormError(path, f"{format_path(path)} has no {key}")
        value = entry[key]
        text = value if isinstance(value, str) else str(value) if type(value) is int else ""
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise _FormError(place, f"{format_path(place)} is {quote(str(value))}, not a number")
        if isinstance(value, str) is self.numbers:
            self._add_wrong_kind(value, place)
        return int(text)

    def _text(self, entry: _Entry, key: str, path: Path, *, longest: int = _LONGEST) -> str:
        value = entry.get(key)
        if isinstance(value, str):
            return value[:longest]
        if key not in entry:
            return ""
        place = (*path, key)
        if type(value) is not int:
            raise _FormError(place, f"{format_path(place)} is {_kind(value)}, not a string")
        self._add_wrong_kind(value, place)
        return str(value)[:longest]

    def _add_wrong_kind(self, value: Any, place: Path) -> None:
        expected = f"the number {int(value)}" if self.numbers and str(value).isdigit() else f'the string "{value}"'
        text = f"{format_path(place)} is {_kind(value)}. In this version, it must be {expected}"
        self.problems.append(TableProblem("strings", text, place))


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "null")


def _entries(entry: _Entry, key: str, path: Path, *, needed: bool = True) -> list[tuple[_Entry, Path]]:
    """Return the objects of a list with their paths. Raises _FormError."""
    place = (*path, key)
    if key not in entry:
        if needed:
            raise _FormError(path, f"{format_path(path)} has no {key}")
        return []
    value = entry[key]
    if not isinstance(value, list):
        raise _FormError(place, f"{format_path(place)} is {_kind(value)}, not a list")
    entries = [(item, (*place, number)) for number, item in enumerate(value)]
    for item, item_path in entries:
        if not isinstance(item, dict):
            raise _FormError(item_path, f"{format_path(item_path)} is {_kind(item)}, not an object")
    return entries
