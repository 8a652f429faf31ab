"""ssh_config(5): every name that a `Host` line has without a wildcard is a host. Names that lead to the same address
are one host: the first is its name, the others are left out."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from preflight.hostlists import jump
from preflight.hostlists.listed import Line, Listed, ListedHost, Source, whole_number

_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9]*)(?:\s*=\s*|\s+|$)")  # ForwardX11
_WILDCARD = re.compile(r"[*?!]")
_TAKEN = ("hostname", "port", "user", "identityfile", "proxyjump")
_USUAL_PORT = 22
_ALIASES_SHOWN = 5


@dataclass
class _Block:
    """What stands below a `Host` or `Match`. `by_address`: its patterns are held against HostName (`Match host`).
    `named`: it is a `Host`, so that its patterns without a wildcard are hosts."""

    patterns: tuple[str, ...]
    settings: dict[str, tuple[str, int]] = field(default_factory=dict)  # keyword → value, and its offset
    by_address: bool = False
    named: bool = True

    @property
    def is_plain(self) -> bool:
        return self.named and not any(map(_WILDCARD.search, self.patterns))

    def applies_to(self, name: str) -> bool:
        """A pattern with `!` in front takes out what it matches."""
        if any(_matches(name, pattern[1:]) for pattern in self.patterns if pattern.startswith("!")):
            return False
        return any(_matches(name, pattern) for pattern in self.patterns)


def read(source: Source) -> Listed:
    """Of several values the first one counts, also those of `Host *`, as ssh has it."""
    notes: set[str] = set()
    names: dict[str, int] = {}
    blocks = list(_blocks(source, names, notes))
    by_name: dict[str, list[int]] = defaultdict(list)  # most blocks are of one host, and there may be thousands
    for number, block in enumerate(blocks):
        for pattern in block.patterns if block.is_plain else ():
            by_name[pattern].append(number)
    others = [number for number, block in enumerate(blocks) if not block.is_plain]

    hosts: dict[tuple[object, ...], ListedHost] = {}
    aliases: dict[str, str] = {}
    for name, at in names.items():
        found = [blocks[n] for n in sorted({*by_name[name], *others})]
        host, way = _host(source, name, at, found, notes)
        first = hosts.setdefault((host.address or name, host.port or _USUAL_PORT, *way), host)
        if first is not host:
            aliases[name] = first.name
    told = sorted(notes) + _left_out(aliases)
    return source.listed(Listed(tuple(hosts.values()), notes=tuple(told)))


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern.replace("[", "[[]"))  # a bracket is a letter to ssh


def _left_out(aliases: Mapping[str, str]) -> list[str]:
    """Return a sentence on the names that lead to a host which has another name already."""
    told = [f"{alias} ({name})" for alias, name in aliases.items()]
    more = f" and {len(told) - _ALIASES_SHOWN} more" if len(told) > _ALIASES_SHOWN else ""
    few = ", ".join(told[:_ALIASES_SHOWN])
    return [f"left out, second names of hosts: {few}{more}"] if told else []


def write(listed: Listed) -> str:
    return "\n".join("".join(_block(host)) for host in listed.hosts)


def _blocks(source: Source, names: dict[str, int], notes: set[str]) -> Iterator[_Block]:
    block = _Block(("*",))  # what stands above the first Host is for all
    for line in source.lines():
        keyword = _SETTING.match(line.text)
        if keyword is None:
            source.wrong(line.at, f"is no setting of ssh_config: {line.text[:40]!r}")
        key, words = keyword[1].lower(), _words(source, line, keyword.end())
        if key == "include":
            source.wrong(line.at, "Include is not followed; import the files that name hosts one by one, without it")
        if not words:
            source.wrong(line.at, f"{keyword[1]} has no value")
        if key in ("host", "match"):
            yield block
            block = _Block(words) if key == "host" else _match(line, words, notes)
            for name in block.patterns if block.named else ():
                if not _WILDCARD.search(name):
                    names.setdefault(name, line.at)
        elif key in _TAKEN:
            block.settings.setdefault(key, (words[0], line.at))
        elif key == "proxycommand":
            block.settings.setdefault(key, (line.text[keyword.end() :], line.at))
            notes.add(f'left out, ProxyCommand on line {line.number}: say transport = "openssh" under [ssh] to use it')
    yield block


def _match(line: Line, words: tuple[str, ...], notes: set[str]) -> _Block:
    """Read `Match all`, `Match host` and `Match originalhost`; other criteria are known only when ssh connects."""
    kind, *lists = (words[0].lower(), *words[1:])
    if kind == "all" and not lists:
        return _Block(("*",), named=False)
    if kind in ("host", "originalhost") and len(lists) == 1:
        return _Block(tuple(lists[0].split(",")), by_address=kind == "host", named=False)
    notes.add(f"left out, Match on line {line.number}: what it says of hosts depends on who asks")
    return _Block((), named=False)


def _words(source: Source, line: Line, at: int) -> tuple[str, ...]:
    text = line.text[at:]
    if text.count('"') % 2:
        source.wrong(line.at + at, "a quote is opened, and not closed")
    return tuple(quoted or bare for quoted, bare in _WORD.findall(text))


def _host(
    source: Source, name: str, at: int, blocks: Sequence[_Block], notes: set[str]
) -> tuple[ListedHost, tuple[str, str]]:
    """Return the host, and the way to it (ProxyJump and ProxyCommand): behind another gateway the same address is
    another host. `blocks`: those that may apply to it, in their order."""
    source.checked(name, at)
    said: dict[str, tuple[str, int]] = {}
    for block in blocks:
        known = _filled_in(source, *said["hostname"], name) if block.by_address and "hostname" in said else name
        if block.applies_to(known):
            said = {**block.settings, **said}
    way = (said.get("proxyjump", ("",))[0], said.pop("proxycommand", ("",))[0])
    if "identityfile" in said:
        _drop_key(said, notes)
    values = {key: _filled_in(source, value, place, name) for key, (value, place) in said.items()}
    address = values.get("hostname")
    if address:
        source.checked(address, said["hostname"][1])
    port = values.get("port")
    if port is not None and whole_number(port, 1, 65535) is None:
        source.wrong(said["port"][1], f"Port should be a number from 1 to 65535, found {port[:40]!r}")
    host = ListedHost(
        name,
        None if address == name else address,
        user=values.get("user"),
        port=int(port) if port else None,
        key=values.get("identityfile"),
        bastion=jump.of_value(values["proxyjump"], notes) if "proxyjump" in values else None,
    )
    return host, way


def _drop_key(said: dict[str, tuple[str, int]], notes: set[str]) -> None:
    """Take IdentityFile away where it is "none", or ssh fills something in that is known only when it connects."""
    value = said["identityfile"][0]
    if value.lower() == "none":
        del said["identityfile"]
    elif re.search(r"%[^h%]|\$\{", value.replace("%%", "")):
        notes.add(f"left out, IdentityFile {value[:80]}: ssh fills in a part of it when it connects")
        del said["identityfile"]


def _filled_in(source: Source, value: str, at: int, name: str) -> str:
    """%h is the name, %% a percent sign; the others are not known before somebody connects."""
    if other := re.search(r"%[^h%]|%$", value.replace("%%", "")):
        source.wrong(at, f"{other[0]} is filled in only by ssh; write out what it stands for")
    return value.replace("%%", "\0").replace("%h", name).replace("\0", "%")


def _block(host: ListedHost) -> Iterator[str]:
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
    """Raises ValueError for what ssh_config cannot say."""
    if re.search(r'["#]', value):
        raise ValueError(f"{value!r} cannot stand there: ssh_config has no way to write it")
    text = value.replace("%", "%%")
    return f'"{text}"' if re.search(r"\s", text) else text
