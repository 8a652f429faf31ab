"""The text of a rank table → types. What hinders reading is a problem, and so is a number where HCCL wants a string."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from preflight.facts.quote import quote
from preflight.ranktable.syntax import NotJsonError, parse
from preflight.ranktable.types import (
    OLD,
    VERSIONS,
    Address,
    Count,
    Path,
    Problem,
    Rank,
    RankedDevice,
    RankTable,
    Server,
    SuperPod,
    spelled,
)

_LONGEST = 64  # characters of a text: no address is longer, and server_id is not allowed to be
_LONGEST_ID = 256  # of server_id: longer by far than is allowed, so that a rule can say it
_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}


@dataclass(frozen=True)
class Reading:
    """What a text says as a rank table. `table` is None where it is none, or of a version that is not read; then
    `problems` say why. They are about the form alone: preflight/ranktable/rules.py has the rest.

    `is_json`: whether it is JSON at all; `status`: "completed" where the table is whole; None where it has none."""

    table: RankTable | None
    problems: tuple[Problem, ...]
    is_json: bool = True
    status: str | None = None

    @property
    def why(self) -> str:
        """Why there is no table, in a few words."""
        return self.problems[0].text if self.problems else ""


class _Form(Exception):  # noqa: N818  (it carries a problem, and ends the reading)
    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.problem = Problem("form", text, path)


@lru_cache(maxsize=4)  # all hosts of a cluster have the same text
def read(text: str) -> Reading:
    """What `text` says as a rank table of any version. Raises nothing."""
    try:
        value, problems = parse(text)
    except NotJsonError as error:
        return Reading(None, (error.problem,), is_json=False)
    status = str(value["status"]) if isinstance(value, dict) and "status" in value else None
    reader = _Reader()
    try:
        table = reader.table(value)
    except _Form as error:
        return Reading(None, (*problems, error.problem, *reader.problems), status=status)
    return Reading(table, (*problems, *reader.problems), status=status)


@dataclass
class _Reader:
    """`problems`: what of the form is wrong and can be read all the same."""

    problems: list[Problem] = field(default_factory=list)
    numbers: bool = False  # whether numbers are numbers: from version 2.0 on

    def table(self, value: Any) -> RankTable:
        if not isinstance(value, dict):
            raise _Form((), f"this is no rank table: it is {_kind(value)}, not an object")
        if "version" not in value and "group_list" in value:
            return self._old(value)
        if "version" not in value:
            raise _Form((), "this is no rank table: it has neither version nor group_list")
        version = value["version"]
        if not isinstance(version, str):
            raise _Form(("version",), f"version is {quote(str(version))}, {_kind(version)}: it has to be a string")
        if version not in VERSIONS:
            raise _Form(("version",), f"version {quote(version)} is not read, only {', '.join(VERSIONS)}")
        return self._ranks(value) if version == "2.0" else self._servers(value, version)

    def _servers(self, table: dict[str, Any], version: str) -> RankTable:
        servers = tuple(self._server(entry, path) for entry, path in _entries(table, "server_list", ()))
        pods = tuple(self._pod(entry, path) for entry, path in _entries(table, "super_pod_list", (), needed=False))
        count = self._count(table, "server_count", len(servers), ())
        return RankTable(version, servers, pods if version == "1.2" else (), counts=(count,))

    def _server(self, entry: dict[str, Any], path: Path) -> Server:
        id_ = self._text(entry, "server_id", path, longest=_LONGEST_ID)
        devices = tuple(
            self._device(device, place, self._number(device, "rank_id", place))
            for device, place in _entries(entry, "device", path)
        )
        type_ = entry.get("hardware_type")  # any other tool's affair: of whatever form it is, HCCL passes over it
        return Server(
            id_, devices, path, self._text(entry, "host_ip", path), self._text(entry, "container_ip", path),
            type_[:_LONGEST] if isinstance(type_, str) else "",
        )  # fmt: skip

    def _device(self, entry: dict[str, Any], path: Path, rank: int) -> RankedDevice:
        keys = ("device_ip", "super_device_id", "device_port", "host_port", "backup_device_ip", "backup_device_port")
        return RankedDevice(
            rank, self._number(entry, "device_id", path), path, **{key: self._text(entry, key, path) for key in keys}
        )

    def _pod(self, entry: dict[str, Any], path: Path) -> SuperPod:
        servers = _entries(entry, "server_list", path)
        return SuperPod(
            self._text(entry, "super_pod_id", path),
            tuple(self._text(server, "server_id", place) for server, place in servers), path,
        )  # fmt: skip

    def _old(self, table: dict[str, Any]) -> RankTable:
        """A group_list has no ranks: they follow from the order. The first group is that of all devices."""
        groups = _entries(table, "group_list", ())
        counts = [self._count(table, "group_count", len(groups), ())]
        worlds: list[tuple[Server, ...]] = []
        for group, path in groups:
            servers: list[Server] = []
            rank = 0
            for instance, place in _entries(group, "instance_list", path):
                devices = []
                for device, at in _entries(instance, "devices", place):
                    devices.append(self._device(device, at, rank))
                    rank += 1
                id_ = self._text(instance, "server_id", place, longest=_LONGEST_ID)
                servers.append(Server(id_, tuple(devices), place))
            counts.append(self._count(group, "instance_count", len(servers), path))
            counts.append(self._count(group, "device_count", rank, path))
            worlds.append(tuple(servers))
        return RankTable(OLD, worlds[0] if worlds else (), counts=tuple(counts))

    def _ranks(self, table: dict[str, Any]) -> RankTable:
        self.numbers = True
        ranks = tuple(self._rank(entry, path) for entry, path in _entries(table, "rank_list", ()))
        return RankTable("2.0", ranks=ranks, counts=(self._count(table, "rank_count", len(ranks), ()),))

    def _rank(self, entry: dict[str, Any], path: Path) -> Rank:
        addresses = tuple(
            Address(self._text(one, "addr_type", at), self._text(one, "addr", at), at)
            for level, place in _entries(entry, "level_list", path)
            for one, at in _entries(level, "rank_addr_list", place)
        )
        return Rank(self._number(entry, "rank_id", path), self._number(entry, "device_id", path), addresses, path)

    def _count(self, entry: dict[str, Any], key: str, counted: int, path: Path) -> Count:
        given = self._number(entry, key, path) if key in entry else None
        return Count(key, given, counted, (*path, key))

    def _number(self, entry: dict[str, Any], key: str, path: Path) -> int:
        place = (*path, key)
        if key not in entry:
            raise _Form(path, f"{spelled(path)} has no {key}")
        value = entry[key]
        text = value if isinstance(value, str) else str(value) if type(value) is int else ""
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise _Form(place, f"{spelled(place)} is {quote(str(value))}, which is no number")
        if isinstance(value, str) is self.numbers:
            self._wrong_kind(value, place)
        return int(text)

    def _text(self, entry: dict[str, Any], key: str, path: Path, *, longest: int = _LONGEST) -> str:
        value = entry.get(key)
        if isinstance(value, str):
            return value[:longest]
        if key not in entry:
            return ""
        place = (*path, key)
        if type(value) is not int:
            raise _Form(place, f"{spelled(place)} is {_kind(value)}, not a string")
        self._wrong_kind(value, place)
        return str(value)[:longest]

    def _wrong_kind(self, value: Any, place: Path) -> None:
        wanted = f"the number {int(value)}" if self.numbers and str(value).isdigit() else f'the string "{value}"'
        text = f"{spelled(place)} is {_kind(value)}: it has to be {wanted}, as all numbers of this version"
        self.problems.append(Problem("strings", text, place))


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "null")


def _entries(entry: dict[str, Any], key: str, path: Path, *, needed: bool = True) -> list[tuple[dict[str, Any], Path]]:
    """The objects of a list, each with where it stands. Raises _Form."""
    place = (*path, key)
    if key not in entry:
        if needed:
            raise _Form(path, f"{spelled(path)} has no {key}")
        return []
    value = entry[key]
    if not isinstance(value, list):
        raise _Form(place, f"{spelled(place)} is {_kind(value)}, not a list")
    for number, one in enumerate(value):
        if not isinstance(one, dict):
            raise _Form((*place, number), f"{spelled((*place, number))} is {_kind(one)}, not an object")
    return [(one, (*place, number)) for number, one in enumerate(value)]
