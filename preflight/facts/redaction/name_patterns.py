"""Where known names of machines and domains stand in a text. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator

from preflight.facts.redaction.identities import Known
from preflight.facts.redaction.public_names import COMMON

_SHORT = 4  # letters: an account with fewer may be any word
# Machines may be called like what the tools' answers are made of: such a name tells nobody anything, and is looked for
# only where a name is expected.
_TOOLS_WORDS = frozenset(
    (
        "access",
        "active",
        "address",
        "alarm",
        "arp",
        "auto",
        "bandwidth",
        "board",
        "bus",
        "chip",
        "count",
        "critical",
        "default",
        "detect",
        "device",
        "down",
        "driver",
        "duplex",
        "dynamic",
        "enabled",
        "error",
        "eth",
        "exist",
        "fault",
        "fec",
        "flags",
        "full",
        "gateway",
        "half",
        "health",
        "host",
        "id",
        "iface",
        "info",
        "init",
        "interface",
        "ip",
        "ipaddr",
        "link",
        "lldp",
        "local",
        "mac",
        "memory",
        "mode",
        "mtu",
        "name",
        "netdetect",
        "netmask",
        "node",
        "none",
        "npu",
        "ok",
        "open",
        "optical",
        "port",
        "present",
        "priority",
        "process",
        "public",
        "root",
        "route",
        "rule",
        "scope",
        "speed",
        "state",
        "static",
        "status",
        "success",
        "switch",
        "system",
        "table",
        "tcp",
        "temperature",
        "time",
        "type",
        "udp",
        "unknown",
        "up",
        "usage",
        "vendor",
        "version",
        "warning",
        "zone",
    )
)


# What may stand directly before a name though it ends in a letter: \n in JSON within JSON, and what sets a colour.
_BEGIN = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=\x1b\[\dm)|(?<=\x1b\[\d\dm)|(?<=;\d\dm))"
# Where an account is meant, whatever it is called.
_ACCOUNT = r"(?:(?<=home/)|(?<=~)|(?<=\d\()|(?<=[Uu]ser=)|(?<=USER=)|(?<=[Uu]ser: )|(?<=-u )|(?<=-U )|(?<=-l ))"


class Names:
    """A name with a digit, a dash or a dot in it is one wherever it stands as a word, with whatever is hung on
    (`node01-ib`). A plain word, such as `master`, is none inside a longer word, nor as the key of something
    (`"master": "bond0"`, `master = 1`). With a name goes the domain behind it. An account that is called like many
    others (`train`) is looked for only where an account is meant."""

    def __init__(self, known: Known) -> None:
        machines = {name for name in (*known.names, *known.others) if not name.isdigit()} - _TOOLS_WORDS
        common = {name for name in known.users if name in COMMON | _TOOLS_WORDS or len(name) < _SHORT}
        domain = rf"(?:[\w-]{{1,63}}\.){{0,4}}{_any(known.domains)}" if known.domains else ""
        names = machines | (known.users - common)
        parts = [*_words(names, rf"(?:\.{domain})?" if domain else ""), *_accounts(common), *_stems(machines)]
        parts += _domains(domain, known) if domain else []
        self._pattern = re.compile("|".join(parts), re.IGNORECASE | re.ASCII) if parts else None

    def replaced(self, text: str, by: Callable[[str], str]) -> str:
        """`by`: name, without the domain behind it → what is to stand there."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: by(match[match.lastindex or 0]), text)

    def stand_in(self, text: str) -> bool:
        return self._pattern is not None and self._pattern.search(text) is not None


def _words(names: set[str], behind: str) -> Iterator[str]:
    """Yield patterns of names as words. `behind`: of the domain that may follow."""
    plain = {name for name in names if name.isalpha()}
    if names - plain:
        yield rf"{_BEGIN}({_any(names - plain)}){behind}(?![A-Za-z0-9])"
    if plain:
        key = r"\\?[\"'][ \t]{0,9}:|[ \t]{0,9}="
        yield rf"(?:(?<![\w-])|(?<=\\[nrt]))({_any(plain)}){behind}(?![A-Za-z0-9_]|{key})"


def _accounts(names: set[str]) -> Iterator[str]:
    """Yield patterns of names where an account is meant."""
    if names:
        yield rf"{_ACCOUNT}({_any(names)})(?![\w-])"
        yield rf"(?<![\w.-])({_any(names)})(?=@\w)"


def _stems(names: Iterable[str]) -> Iterator[str]:
    """Yield a pattern of what is before the numbers of names: of bj-train-07 it finds bj-train-[01-08]."""
    stems = {name.rstrip("0123456789") for name in names}
    words = {stem: stem.strip("-_.") for stem in stems - set(names)}
    telling = {stem for stem, word in words.items() if len(word) >= _SHORT and word not in COMMON | _TOOLS_WORDS}
    if telling:
        yield rf"{_BEGIN}({_any(telling)})(?=\[\d)"


def _domains(domain: str, known: Known) -> Iterator[str]:
    """Yield patterns of names in a domain, and of domains backwards, as Java has them."""
    yield rf"(?:(?<![\w.-])|(?<=\\[nrt]))({domain})(?![\w-])"
    if backwards := _any(".".join(reversed(name.split("."))) for name in known.domains if "." in name):
        yield rf"(?<![\w.-])({backwards}(?:\.[\w-]{{1,63}}){{0,4}})(?![\w-])"


def _any(words: Iterable[str]) -> str:
    """A pattern for any of the words, the longest first. Beginnings that they share are tried once: a site has
    thousands of names."""
    by_first: dict[str, set[str]] = {}
    for word in words:
        by_first.setdefault(word[:1], set()).add(word[1:])
    ends = by_first.pop("", None) is not None
    parts = [
        re.escape(first) + (_any(endings) if endings != {""} else "") for first, endings in sorted(by_first.items())
    ]
    return f"(?:{'|'.join(parts)}){'?' if ends else ''}" if parts else ""
