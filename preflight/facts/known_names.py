"""Where known names of machines and domains stand in a text. Pure."""

import re
from collections.abc import Callable, Iterable

from preflight.facts.identities import Known

# Machines may be called like what the tools' answers are made of: such a name tells nobody anything, and is looked for
# only where a name is expected.
_TOOLS_WORDS = frozenset((
    "access", "active", "address", "alarm", "arp", "auto", "bandwidth", "board", "bus", "chip", "count", "critical",
    "default", "detect", "device", "down", "driver", "duplex", "dynamic", "enabled", "error", "eth", "exist",
    "fault", "fec", "flags", "full", "gateway", "half", "health", "host", "id", "iface", "info", "init",
    "interface", "ip", "ipaddr", "link", "lldp", "local", "mac", "memory", "mode", "mtu", "name", "netdetect",
    "netmask", "node", "none", "npu", "ok", "open", "optical", "port", "present", "priority", "process", "public",
    "root", "route", "rule", "scope", "speed", "state", "static", "status", "success", "switch", "system", "table",
    "tcp", "temperature", "time", "type", "udp", "unknown", "up", "usage", "vendor", "version", "warning", "zone",
))  # fmt: skip


class Names:
    """A name with a digit, a dash or a dot in it is one wherever it stands as a word, with whatever is hung on
    (`node01-ib`). A plain word, such as `master`, is none inside a longer word, nor as the key of something
    (`"master": "bond0"`, `master = 1`). With a name goes the domain behind it."""

    def __init__(self, known: Known) -> None:
        names = {name for name in (*known.names, *known.others) if not name.isdigit()} - _TOOLS_WORDS
        plain = {name for name in names if name.isalpha()}
        domain = rf"(?:[\w-]{{1,63}}\.){{0,4}}{_any(known.domains)}" if known.domains else ""
        behind = rf"(?:\.{domain})?" if domain else ""
        parts = []
        if names - plain:
            parts.append(rf"(?<![A-Za-z0-9])({_any(names - plain)}){behind}(?![A-Za-z0-9])")
        if plain:
            key = r"\\?[\"'][ \t]{0,9}:|[ \t]{0,9}="
            parts.append(rf"(?<![\w-])({_any(plain)}){behind}(?![A-Za-z0-9_]|{key})")
        if domain:
            parts.append(rf"(?<![\w.-])({domain})(?![\w-])")
        self._pattern = re.compile("|".join(parts), re.IGNORECASE | re.ASCII) if parts else None

    def replaced(self, text: str, by: Callable[[str], str]) -> str:
        """`by`: name, without the domain behind it → what is to stand there."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: by(match[match.lastindex or 0]), text)

    def stand_in(self, text: str) -> bool:
        return self._pattern is not None and self._pattern.search(text) is not None


def _any(words: Iterable[str]) -> str:
    """A pattern for any of the words, the longest first. Beginnings that they share are tried once: a site has
    thousands of names."""
    by_first: dict[str, set[str]] = {}
    for word in words:
        by_first.setdefault(word[:1], set()).add(word[1:])
    ends = by_first.pop("", None) is not None
    parts = [re.escape(first) + (_any(rest) if rest != {""} else "") for first, rest in sorted(by_first.items())]
    return f"(?:{'|'.join(parts)}){'?' if ends else ''}" if parts else ""
