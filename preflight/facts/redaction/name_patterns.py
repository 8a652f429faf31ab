"""Patterns of known names of machines and domains in a text. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator

from preflight.facts.redaction.identities import Known
from preflight.facts.redaction.public_names import COMMON

_SHORT = 4  # letters: an account with fewer may be any word
# Machines may have names that are words of the tools' answers. Such a name identifies no site, and is searched only
# where a name is expected.
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


# Escapes that may directly precede a name though they end in a letter: \n in JSON within JSON, and colour codes.
_BEGIN = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=\x1b\[\dm)|(?<=\x1b\[\d\dm)|(?<=;\d\dm))"
# Places of an account, for any name.
_ACCOUNT = r"(?:(?<=home/)|(?<=~)|(?<=\d\()|(?<=[Uu]ser=)|(?<=USER=)|(?<=[Uu]ser: )|(?<=-u )|(?<=-U )|(?<=-l ))"


class Names:
    """The pattern of all known names.

    A name with a digit, a dash or a dot in it matches wherever it begins a word, also with a suffix (`node01-ib`). A
    plain word, such as `master`, matches neither inside a longer word nor as a key (`"master": "bond0"`, `master = 1`).
    The domain after a name belongs to the match. An account with a common name (`train`) matches only in places of an
    account.
    """

    def __init__(self, known: Known) -> None:
        machines = {name for name in (*known.names, *known.others) if not name.isdigit()} - _TOOLS_WORDS
        common_users = {name for name in known.users if name in COMMON | _TOOLS_WORDS or len(name) < _SHORT}
        domain = rf"(?:[\w-]{{1,63}}\.){{0,4}}{_any(known.domains)}" if known.domains else ""
        names = machines | (known.users - common_users)
        parts = [*_words(names, rf"(?:\.{domain})?" if domain else ""), *_accounts(common_users), *_stems(machines)]
        parts += _domains(domain, known) if domain else []
        self._pattern = re.compile("|".join(parts), re.IGNORECASE | re.ASCII) if parts else None

    def replaced(self, text: str, by: Callable[[str], str]) -> str:
        """Return the text with its names replaced. `by`: name without the domain after it → its replacement."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: by(match[match.lastindex or 0]), text)

    def stand_in(self, text: str) -> bool:
        return self._pattern is not None and self._pattern.search(text) is not None


def _words(names: set[str], behind: str) -> Iterator[str]:
    """Yield patterns of names as words. `behind`: the pattern of the domain that may follow."""
    plain = {name for name in names if name.isalpha()}
    if names - plain:
        yield rf"{_BEGIN}({_any(names - plain)}){behind}(?![A-Za-z0-9])"
    if plain:
        key = r"\\?[\"'][ \t]{0,9}:|[ \t]{0,9}="
        yield rf"(?:(?<![\w-])|(?<=\\[nrt]))({_any(plain)}){behind}(?![A-Za-z0-9_]|{key})"


def _accounts(names: set[str]) -> Iterator[str]:
    """Yield patterns of names in places of an account."""
    if names:
        yield rf"{_ACCOUNT}({_any(names)})(?![\w-])"
        yield rf"(?<![\w.-])({_any(names)})(?=@\w)"


def _stems(names: Iterable[str]) -> Iterator[str]:
    """Yield a pattern of the names' parts before their numbers: that of bj-train-07 also finds bj-train-[01-08]."""
    stems = {name.rstrip("0123456789") for name in names}
    words = {stem: stem.strip("-_.") for stem in stems - set(names)}
    specific = {stem for stem, word in words.items() if len(word) >= _SHORT and word not in COMMON | _TOOLS_WORDS}
    if specific:
        yield rf"{_BEGIN}({_any(specific)})(?=\[\d)"


def _domains(domain: str, known: Known) -> Iterator[str]:
    """Yield patterns of names in a domain, and of reversed domains, as Java has them."""
    yield rf"(?:(?<![\w.-])|(?<=\\[nrt]))({domain})(?![\w-])"
    if reversed_domains := _any(".".join(reversed(name.split("."))) for name in known.domains if "." in name):
        yield rf"(?<![\w.-])({reversed_domains}(?:\.[\w-]{{1,63}}){{0,4}})(?![\w-])"


def _any(words: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first.

    Beginnings that words share are tried once, as a site has thousands of names.
    """
    by_first: dict[str, set[str]] = {}
    for word in words:
        by_first.setdefault(word[:1], set()).add(word[1:])
    ends = by_first.pop("", None) is not None
    parts = [
        re.escape(first) + (_any(endings) if endings != {""} else "") for first, endings in sorted(by_first.items())
    ]
    return f"(?:{'|'.join(parts)}){'?' if ends else ''}" if parts else ""
