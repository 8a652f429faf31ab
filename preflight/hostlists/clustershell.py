"""Groups of ClusterShell, lines `name: nodes` (groups.d/local.cfg).

Nodes are node sets, in which @group and @source:group stand for others, and `,` `!` `&` `^` add, take away, intersect
and exclude, from the left (clustershell.readthedocs.io, config.html and nodeset.html).
"""

import re
from collections.abc import Mapping

from preflight.hostlists.listed import Listed, ListedHost, Source
from preflight.inventory.errors import InventoryError
from preflight.inventory.folding import fold
from preflight.inventory.hostset import MOST_HOSTS, expand

_GROUP = re.compile(r"(?P<name>[0-9A-Za-z_.-]+):(?P<nodes>.*)", re.DOTALL)
_OPERAND = re.compile(r"(?P<operator>[,!&^\s]*)(?P<set>@?(?:[^,!&^\s\[\]]|\[[^\[\]]*\])+|[\[\]])")
ALL = "all"
_MOST_NAMES = 4 * MOST_HOSTS  # of all groups together, in which hosts may be several times

Group = list[tuple[str, int]]  # its texts, each with the offset at which it stands
Groups = dict[str, Group]


def read(source: Source) -> Listed:
    """`name: nodes` a line; lines of the same name add up, as ClusterShell's sed has it."""
    groups: Groups = {}
    for line in source.lines():
        match = _GROUP.fullmatch(line.text)
        if match is None:
            source.wrong(line.at, "wants lines like: compute: node[01-16]")
        nodes = match["nodes"]
        at = line.at + match.start("nodes") + len(nodes) - len(nodes.lstrip())
        groups.setdefault(match["name"], []).append((nodes.strip(), at))
    return listed_of(source, {"": groups}, "")


def write(listed: Listed) -> str:
    return f"{ALL}: {fold(host.name for host in listed.hosts)}\n"


def listed_of(source: Source, sources: Mapping[str, Groups], default: str) -> Listed:
    """The group that was asked for; without one `all`, else every group in turn."""
    sets = _Sets(source, sources)
    groups = sources[default]
    wanted = source.group.removeprefix("@") or (ALL if ALL in groups else "*")
    names = sets.group(wanted, default, 0)
    if len(names) > MOST_HOSTS:
        raise InventoryError(f"{source.name}: more than {MOST_HOSTS} hosts")
    if not names:
        raise InventoryError(f"{source.name}: the group {wanted} has no host")
    notes = ("the hosts of all groups; name one with --group",) if wanted == "*" and len(groups) > 1 else ()
    return source.listed(Listed(tuple(map(ListedHost, names)), notes=notes))


class _Sets:
    """Groups written out, each once; dicts without values stand for sets that keep their order."""

    def __init__(self, source: Source, sources: Mapping[str, Groups]) -> None:
        self._source = source
        self._sources = sources
        self._done: dict[tuple[str, str], dict[str, None]] = {}
        self._begun: set[tuple[str, str]] = set()
        self._written = 0  # names that ranges were expanded to

    def group(self, name: str, here: str, at: int) -> dict[str, None]:
        """`name` as @ has it, with its source or without: then of the source `here`. `*`: all groups."""
        of, colon, group = name.rpartition(":")
        of = of if colon else here
        groups = self._sources.get(of)
        if groups is None or (group not in groups and group != "*"):
            self._source.wrong(at, f"there is no group @{name[:60]}")
        key = (of, group)
        if key not in self._done:
            if key in self._begun:
                self._source.wrong(at, f"the group @{name} contains itself")
            self._begun.add(key)
            parts = [part for texts in groups.values() for part in texts] if group == "*" else groups[group]
            self._done[key] = {host: None for text, place in parts for host in self._set(text, of, place)}
        return self._done[key]

    def _set(self, text: str, here: str, at: int) -> dict[str, None]:
        found: dict[str, None] = {}
        end = 0
        for operand in _OPERAND.finditer(text):
            place, word = at + operand.start("set"), operand["set"]
            other = self.group(word[1:], here, place) if word.startswith("@") else self._nodes(word, place)
            operator = operand["operator"].strip(", \t\n") or ","
            if operator == ",":
                found |= other
            elif operator == "!":
                found = {name: None for name in found if name not in other}
            elif operator == "&":
                found = {name: None for name in found if name in other}
            elif operator == "^":
                both = found | other
                found = {name: None for name in both if (name in found) != (name in other)}
            else:
                self._source.wrong(at + operand.start(), f"{operator!r} is no operator; one of , ! & ^")
            end = operand.end()
        if text[end:].strip(", \t\n"):
            self._source.wrong(at + end, f"{text[end:].strip()[:20]!r} has nothing behind it")
        return found

    def _nodes(self, word: str, at: int) -> dict[str, None]:
        try:
            names = dict.fromkeys(expand(word))
        except ValueError as error:
            self._source.wrong(at, str(error))
        self._written += len(names)
        if self._written > _MOST_NAMES:
            self._source.wrong(at, f"up to here the groups name more than {_MOST_NAMES} hosts, however often each")
        return names
