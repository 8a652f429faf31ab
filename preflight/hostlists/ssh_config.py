"""ssh_config(5): every name that a `Host` line has without a wildcard is a host."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from preflight.hostlists import jump
from preflight.hostlists.listed import Line, Listed, ListedHost, Source, whole_number

_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_SETTING = re.compile(r"([A-Za-z]+)(?:\s*=\s*|\s+|$)")
_WILDCARD = re.compile(r"[*?!]")
_TAKEN = ("hostname", "port", "user", "identityfile", "proxyjump")


@dataclass
class _Block:
    patterns: tuple[str, ...]
    settings: dict[str, tuple[str, int]] = field(default_factory=dict)  # keyword → value, and its offset

    @property
    def is_plain(self) -> bool:
        return not any(map(_WILDCARD.search, self.patterns))

    def applies_to(self, name: str) -> bool:
        """A pattern with `!` in front takes out what it matches."""
        if any(fnmatchcase(name, pattern[1:]) for pattern in self.patterns if pattern.startswith("!")):
            return False
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


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

    def of(name: str) -> list[_Block]:
        return [blocks[n] for n in sorted({*by_name[name], *others}) if blocks[n].applies_to(name)]

    hosts = tuple(_host(source, name, at, of(name), notes) for name, at in names.items())
    return source.listed(Listed(hosts, notes=tuple(sorted(notes))))


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
            source.wrong(line.at, "Include is not followed; give the files that name hosts one by one")
        if not words:
            source.wrong(line.at, f"{keyword[1]} has no value")
        if key in ("host", "match"):
            yield block
            block = _Block(words if key == "host" else ())
            if key == "match":
                notes.add(f"left out, Match on line {line.number}: what it says of hosts depends on who asks")
            for name in block.patterns:
                if not _WILDCARD.search(name):
                    names.setdefault(name, line.at)
        elif key in _TAKEN:
            block.settings.setdefault(key, (words[0], line.at))
        elif key == "proxycommand":
            notes.add(f'left out, ProxyCommand on line {line.number}: say transport = "openssh" under [ssh] to use it')
    yield block


def _words(source: Source, line: Line, at: int) -> tuple[str, ...]:
    text = line.text[at:]
    if text.count('"') % 2:
        source.wrong(line.at + at, "a quote is opened, and not closed")
    return tuple(quoted or bare for quoted, bare in _WORD.findall(text))


def _host(source: Source, name: str, at: int, blocks: Sequence[_Block], notes: set[str]) -> ListedHost:
    """`blocks`: those that apply to it, in their order."""
    source.checked(name, at)
    said: dict[str, tuple[str, int]] = {}
    for block in blocks:
        said = {**block.settings, **said}
    values = {key: _filled_in(source, value, place, name) for key, (value, place) in said.items()}
    address = values.get("hostname")
    if address:
        source.checked(address, said["hostname"][1])
    port = values.get("port")
    if port is not None and whole_number(port, 1, 65535) is None:
        source.wrong(said["port"][1], f"Port should be a number from 1 to 65535, found {port[:40]!r}")
    return ListedHost(
        name,
        None if address == name else address,
        user=values.get("user"),
        port=int(port) if port else None,
        key=values.get("identityfile"),
        bastion=jump.of_value(values["proxyjump"], notes) if "proxyjump" in values else None,
    )


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
