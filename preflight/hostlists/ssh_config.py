"""ssh_config(5): every name without a wildcard in a `Host` line is a host.

Names with the same address are one host. The first is its name, and the others are left out.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from heapq import merge
from operator import itemgetter

from preflight.hostlists import proxy_jump
from preflight.hostlists.host_list import HostList, ListedHost, ListSource, TextLine, whole_number

_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9]*)(?:\s*=\s*|\s+|$)")  # ForwardX11
_WILDCARD = re.compile(r"[*?!]")
_ONLY_SSH_KNOWS = re.compile(r"%[^h%]|%$")
_KEYWORDS = ("hostname", "port", "user", "identityfile", "proxyjump")
_USUAL_PORT = 22
_ALIASES_SHOWN = 5

_Settings = dict[str, tuple[str, int]]  # keyword → value, and its offset


@dataclass
class _Block:
    """The settings of a `Host` or `Match`. `by_address`: its patterns are compared with HostName (`Match host`).

    `is_host`: it is a `Host`, so that its patterns without a wildcard are hosts.
    """

    patterns: tuple[str, ...]
    settings: _Settings = field(default_factory=dict)
    by_address: bool = False
    is_host: bool = True

    @cached_property
    def host_names(self) -> list[str]:
        return [pattern for pattern in self.patterns if self.is_host and not _WILDCARD.search(pattern)]

    @property
    def is_plain(self) -> bool:
        return self.is_host and len(self.host_names) == len(self.patterns)

    def applies_to(self, name: str) -> bool:
        """Return whether a pattern matches, and none with `!` in front does."""
        if any(_matches(name, pattern[1:]) for pattern in self.patterns if pattern.startswith("!")):
            return False
        return any(_matches(name, pattern) for pattern in self.patterns)


class _Blocks:
    """The blocks of a file by the hosts that they may apply to: most are of one host, and there may be thousands.

    `names`: the hosts, each with the offset of its first block.
    """

    def __init__(self, blocks: Iterable[tuple[_Block, int]]) -> None:
        self.names: dict[str, int] = {}
        self._blocks: dict[str, list[tuple[int, _Block]]] = defaultdict(list)  # with positions; "*": of any host
        for position, (block, at) in enumerate(blocks):
            for name in block.host_names:
                self.names.setdefault(name, at)
            for key in block.host_names if block.is_plain else ("*",):
                self._blocks[key].append((position, block))

    def candidates(self, name: str) -> Iterator[_Block]:
        """Yield the blocks that may apply to a host, in the order of the file."""
        for _, block in merge(self._blocks[name], self._blocks["*"], key=itemgetter(0)):
            yield block


def read(source: ListSource) -> HostList:
    """Read the hosts. The first of several values counts, also those of `Host *`, as for ssh."""
    notes: set[str] = set()
    blocks = _Blocks(_blocks(source, notes))
    hosts: dict[tuple[object, ...], ListedHost] = {}
    aliases: dict[str, str] = {}
    for name, at in blocks.names.items():
        settings = _settings_of(source, source.valid_host(name, at), blocks.candidates(name))
        # Behind another gateway, the same address is another host.
        gateway = (settings.get("proxyjump", ("",))[0], settings.pop("proxycommand", ("",))[0])
        host = _host(source, name, settings, notes)
        first = hosts.setdefault((host.address or name, host.port or _USUAL_PORT, *gateway), host)
        if first is not host:
            aliases[name] = first.name
    return source.valid_list(HostList(tuple(hosts.values()), notes=(*sorted(notes), *_alias_notes(aliases))))


def write(host_list: HostList) -> str:
    return "\n".join("".join(_lines(host)) for host in host_list.hosts)


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern.replace("[", "[[]"))  # a bracket is a letter to ssh


def _alias_notes(aliases: Mapping[str, str]) -> list[str]:
    """Return a sentence on further names of hosts."""
    names = [f"{alias} ({name})" for alias, name in aliases.items()]
    hidden = f" and {len(names) - _ALIASES_SHOWN} more" if len(names) > _ALIASES_SHOWN else ""
    return [f"aliases of hosts were left out: {', '.join(names[:_ALIASES_SHOWN])}{hidden}"] if names else []


def _blocks(source: ListSource, notes: set[str]) -> Iterator[tuple[_Block, int]]:
    """Yield the blocks, each with the offset of its line. Settings above the first `Host` apply to all hosts."""
    block, at = _Block(("*",)), 0
    for line in source.lines():
        keyword = _SETTING.match(line.text)
        if keyword is None:
            source.fail(line.at, f"not an ssh_config setting: {line.text[:40]!r}")
        key, words = keyword[1].lower(), _words(source, line, keyword.end())
        if key == "include":
            source.fail(line.at, "Include is not supported. Import each file with hosts separately, without Include")
        if not words:
            source.fail(line.at, f"{keyword[1]} has no value")
        if key in ("host", "match"):
            yield block, at
            block, at = _Block(words) if key == "host" else _match(line, words, notes), line.at
        elif key in _KEYWORDS:
            block.settings.setdefault(key, (words[0], line.at))
        elif key == "proxycommand":
            block.settings.setdefault(key, (line.text[keyword.end() :], line.at))
            notes.add(
                f'ProxyCommand on line {line.number} was left out. To use it, set transport = "openssh" under [ssh]'
            )
    yield block, at


def _match(line: TextLine, words: tuple[str, ...], notes: set[str]) -> _Block:
    """Read `Match all`, `Match host` and `Match originalhost`. Only ssh knows other criteria, when it connects."""
    kind, *lists = (words[0].lower(), *words[1:])
    if kind == "all" and not lists:
        return _Block(("*",), is_host=False)
    if kind in ("host", "originalhost") and len(lists) == 1:
        return _Block(tuple(lists[0].split(",")), by_address=kind == "host", is_host=False)
    notes.add(f"Match on line {line.number} was left out, because only ssh can evaluate its criteria")
    return _Block((), is_host=False)


def _words(source: ListSource, line: TextLine, at: int) -> tuple[str, ...]:
    text = line.text[at:]
    if text.count('"') % 2:
        source.fail(line.at + at, "the quote is never closed")
    return tuple(quoted or bare for quoted, bare in _WORD.findall(text))


def _settings_of(source: ListSource, name: str, blocks: Iterable[_Block]) -> _Settings:
    """Return the settings of a host from the blocks that may apply to it, in their order."""
    settings: _Settings = {}
    for block in blocks:
        by_address = block.by_address and "hostname" in settings
        if block.applies_to(_expanded(source, *settings["hostname"], name) if by_address else name):
            settings = {**block.settings, **settings}
    return settings


def _host(source: ListSource, name: str, settings: _Settings, notes: set[str]) -> ListedHost:
    settings = {
        key: setting for key, setting in settings.items() if key != "identityfile" or _is_key(setting[0], notes)
    }
    values = {key: _expanded(source, value, at, name) for key, (value, at) in settings.items()}
    address = values.get("hostname")
    if address:
        source.valid_host(address, settings["hostname"][1])
    return ListedHost(
        name,
        None if address == name else address,
        user=values.get("user"),
        port=_port(source, values["port"], settings["port"][1]) if "port" in values else None,
        key=values.get("identityfile"),
        bastion=proxy_jump.of_value(values["proxyjump"], notes) if "proxyjump" in values else None,
    )


def _port(source: ListSource, text: str, at: int) -> int:
    port = whole_number(text, 1, 65535)
    if port is None:
        source.fail(at, f"Port should be a number from 1 to 65535, found {text[:40]!r}")
    return port


def _is_key(value: str, notes: set[str]) -> bool:
    """Return whether IdentityFile is a file, with a name that is known before ssh connects."""
    if value.lower() == "none":
        return False
    if re.search(r"%[^h%]|\$\{", value.replace("%%", "")):
        notes.add(f"IdentityFile {value[:80]} was left out, because only ssh can fill in its variables")
        return False
    return True


def _expanded(source: ListSource, value: str, at: int, name: str) -> str:
    """Replace %h by the name, and %% by a percent sign. Only ssh knows the other tokens, when it connects."""
    if token := _ONLY_SSH_KNOWS.search(value.replace("%%", "")):
        source.fail(at, f"only ssh can fill in {token[0]}. Write the value itself")
    return value.replace("%%", "\0").replace("%h", name).replace("\0", "%")


def _lines(host: ListedHost) -> Iterator[str]:
    yield f"Host {host.name}\n"
    settings = {
        "HostName": host.address,
        "Port": host.port,
        "User": host.user,
        "IdentityFile": host.key,
        "ProxyJump": host.bastion,
    }
    for key, value in settings.items():
        if value is not None:
            yield f"    {key} {_quoted(str(value))}\n"


def _quoted(value: str) -> str:
    """Raise ValueError for characters that ssh_config cannot have."""
    if re.search(r'["#]', value):
        raise ValueError(f"{value!r} cannot be written, because ssh_config cannot quote it")
    text = value.replace("%", "%%")
    return f'"{text}"' if re.search(r"\s", text) else text
