"""Groups of ClusterShell, lines `name: nodes` (groups.d/local.cfg).

Nodes are node sets, in which @group and @source:group are other groups. The operators `,` `!` `&` `^` are union,
difference, intersection and symmetric difference, from the left (clustershell.readthedocs.io, config.html and
nodeset.html).
"""

import re
from collections.abc import Mapping
from itertools import chain

from preflight.hostlists.host_list import HostList, ListedHost, ListSource
from preflight.inventory.errors import InventoryError
from preflight.inventory.hostset import MOST_HOSTS, expand
from preflight.inventory.name_ranges import fold

_GROUP = re.compile(r"(?P<name>[0-9A-Za-z_.-]+):(?P<nodes>.*)", re.DOTALL)
_OPERAND = re.compile(r"(?P<operator>[,!&^\s]*)(?P<set>@?(?:[^,!&^\s\[\]]|\[[^\[\]]*\])+|[\[\]])")
_OPERATORS = (",", "!", "&", "^")
ALL = "all"
_MOST_NAMES = 4 * MOST_HOSTS  # of all groups together, in which hosts may be several times

Group = list[tuple[str, int]]  # its texts, each with its offset
Groups = dict[str, Group]
_Names = dict[str, None]  # a set that keeps its order


def read(source: ListSource) -> HostList:
    """Read `name: nodes` lines. Lines of the same name add up, as in ClusterShell."""
    groups: Groups = {}
    for line in source.lines():
        match = _GROUP.fullmatch(line.text)
        if match is None:
            source.fail(line.at, "expected lines such as compute: node[01-16]")
        nodes = match["nodes"]
        at = line.at + match.start("nodes") + len(nodes) - len(nodes.lstrip())
        groups.setdefault(match["name"], []).append((nodes.strip(), at))
    return read_groups(source, {"": groups}, "")


def write(host_list: HostList) -> str:
    return f"{ALL}: {fold(host.name for host in host_list.hosts)}\n"


def read_groups(source: ListSource, sources: Mapping[str, Groups], default: str) -> HostList:
    """Return the hosts of the group that was asked for, else those of `all`, else those of every group in turn."""
    groups = sources[default]
    group = source.group.removeprefix("@") or (ALL if ALL in groups else "*")
    names = _GroupReader(source, sources).group(group, default, 0)
    if len(names) > MOST_HOSTS:
        raise InventoryError(f"{source.name}: more than {MOST_HOSTS} hosts")
    if not names:
        raise InventoryError(f"{source.name}: group {group} has no hosts")
    notes = (
        ("hosts of all groups were imported. Select one group with --group",)
        if group == "*" and len(groups) > 1
        else ()
    )
    return source.valid_list(HostList(tuple(map(ListedHost, names)), notes=notes))


class _GroupReader:
    """Groups with all names expanded, each once."""

    def __init__(self, source: ListSource, sources: Mapping[str, Groups]) -> None:
        self._source = source
        self._sources = sources
        self._expanded: dict[tuple[str, str], _Names] = {}
        self._begun: set[tuple[str, str]] = set()
        self._count = 0  # names that ranges were expanded to

    def group(self, name: str, default: str, at: int) -> _Names:
        """Return the hosts of a group. `name`: with its source or without, then of the source `default`; `*`: all."""
        named_source, colon, group = name.rpartition(":")
        key = (named_source if colon else default, group)
        groups = self._sources.get(key[0])
        if groups is None or (group not in groups and group != "*"):
            self._source.fail(at, f"there is no group @{name[:60]}")
        if key not in self._expanded:
            if key in self._begun:
                self._source.fail(at, f"group @{name} contains itself")
            self._begun.add(key)
            parts = chain.from_iterable(groups.values()) if group == "*" else groups[group]
            self._expanded[key] = {host: None for text, place in parts for host in self._nodes(text, key[0], place)}
        return self._expanded[key]

    def _nodes(self, text: str, default: str, at: int) -> _Names:
        names: _Names = {}
        end = 0
        for operand in _OPERAND.finditer(text):
            place, word = at + operand.start("set"), operand["set"]
            operator = operand["operator"].strip(", \t\n") or ","
            right = self.group(word[1:], default, place) if word.startswith("@") else self._expand(word, place)
            if operator not in _OPERATORS:
                self._source.fail(at + operand.start(), f"{operator!r} is not an operator. Use one of , ! & ^")
            names = _combine(names, operator, right)
            end = operand.end()
        if text[end:].strip(", \t\n"):
            self._source.fail(at + end, f"expected a node set after {text[end:].strip()[:20]!r}")
        return names

    def _expand(self, word: str, at: int) -> _Names:
        try:
            names = dict.fromkeys(expand(word))
        except ValueError as error:
            self._source.fail(at, str(error))
        self._count += len(names)
        if self._count > _MOST_NAMES:
            self._source.fail(at, f"the groups up to here list more than {_MOST_NAMES} hosts, repeated ones included")
        return names


def _combine(left: _Names, operator: str, right: _Names) -> _Names:
    if operator == "!":
        return dict.fromkeys(name for name in left if name not in right)
    if operator == "&":
        return dict.fromkeys(name for name in left if name in right)
    if operator == "^":
        return dict.fromkeys(name for name in left | right if (name in left) != (name in right))
    return left | right
