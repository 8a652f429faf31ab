"""Pseudonyms of names and addresses: equal ones stay equal, and a subnet stays a subnet. Pure.

An address keeps its first byte, its last one, and the number of leading bits that it shares with any other address. So
networks, gateways and pairs in one subnet stay what they are. Addresses with a fixed meaning are kept: loopback,
multicast, masks, and those that Ascend's driver assigns itself. A MAC address keeps its vendor.

A pseudonym can look like another host's real address. So `hide` first replaces names and addresses by marks, which look
like no real name. `shown` later replaces the marks by their pseudonyms. Between these steps, a search finds remaining
names and addresses (preflight/facts/redaction/anonymity.py).
"""

import hmac
import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Any

from preflight.facts.redaction import encodings
from preflight.facts.redaction.identities import Known
from preflight.facts.redaction.name_patterns import Names
from preflight.facts.redaction.public_names import is_common

IPV4 = re.compile(r"(?<!\d)(\d{1,3})([._-])(\d{1,3})\2(\d{1,3})\2(\d{1,3})(?!\d)(?:/(\d{1,2})(?!\d))?", re.ASCII)
IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:]|\.\d)")
# aa:bb:cc:dd:ee:ff, also with dashes or more bytes (InfiniBand); aabb.ccdd.eeff, enxaabbccddeeff and bare digits.
MAC = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4,40}"
    r"|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}|(?:enx|wlx)[0-9A-Fa-f]{12}|(?P<bare>[0-9A-Fa-f]{12}))(?![0-9A-Za-z])"
)
_MASK = re.compile(r"(?<![\w.])(?:255\.){1,3}(?:255|254|252|248|240|224|192|128|0)(?:\.0){0,2}(?![\w.])")
# Numbers with dots directly after it are no addresses: "Software Version : 25.2.0.1".
_VERSION = re.compile(r"version\w{0,20}[\"']?[ \t]{0,40}[:=]?[ \t]{0,9}[\[\"'<>=v~ ]{0,9}$", re.IGNORECASE)
# Escapes that may directly precede a word though they end in a letter: see _BEGIN of name_patterns.
_ESCAPE = re.compile(r"(?:\\[nrtbf]|%[0-9A-Fa-f]{2}|\x1b\[[\d;]{0,9}m)$")
_BACKWARDS = re.compile(r"(?<![\w.])((?:\d{1,3}\.){2,4})in-addr\.arpa(?![\w-])", re.IGNORECASE | re.ASCII)
_BACKWARDS_6 = re.compile(r"(?<![\w.])((?:[0-9a-f]\.){32})ip6\.arpa(?![\w-])", re.IGNORECASE | re.ASCII)
# A file's name may have an address of a private network. A package's number and kind follow a version.
_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15")))
_AHEAD = re.compile(r"\.[A-Za-z]|[_-]|$|[^\w.]")
_OF_PACKAGE = re.compile(
    r"[-.~+]\d|[-_.](?:rpm|deb|whl|so|run|tar|t?gz|zip|x86_64|aarch64|noarch|amd64|arm64|linux|el|oe)"
)
# Comments of settings, of nft and of iptables. ufw keeps its rules in lines with ###.
_COMMENT = re.compile(
    r"((?:^|(?<=\s))#(?!## tuple)[^\n]{1,4096}|(?:^|(?<=\s));[^\n]{1,4096}"
    r"|\bcomment \\?\"[^\"\n]{1,512}|/\*.{1,4096}?\*/)",
    re.MULTILINE,
)
_MACHINE = re.compile(r"(?<![\w.@/\ue000-])[A-Za-z][A-Za-z_-]*\d[\w-]*(?![\w/\ue001]|\.\w)", re.ASCII)
_MARK = re.compile("\ue000(\\d{1,9})\ue001")

# Network → how many leading bits of its addresses are kept. 32: the addresses identify no site.
_KEPT = (
    (IPv4Network("0.0.0.0/8"), 32),
    (IPv4Network("127.0.0.0/8"), 32),
    (IPv4Network("169.254.0.0/16"), 32),
    (IPv4Network("172.16.0.0/12"), 12),
    (IPv4Network("192.168.0.0/21"), 32),  # vNICs that Ascend's driver makes, the same in every server
    (IPv4Network("192.0.0.0/8"), 16),
    (IPv4Network("224.0.0.0/3"), 32),  # multicast, and masks
    (IPv4Network("0.0.0.0/0"), 8),
)
_LIKE_THE_DRIVER_S = IPv4Network("192.0.0.0/8")
_VERSIONS = ("driver", "packages", "cann_files", "release", "kernel")  # their numbers with dots are no addresses
_ACCOUNTS = ("user", "group", "owner", "username")
_WORDS = ("kind", "trouble", "product", "fabric", "policy", "backend")  # their values are preflight's own words


def _length(mask: str) -> int:
    """Return the number of leading bits of a mask such as 255.255.252.0; 32 for any other text."""
    try:
        return IPv4Network(f"0.0.0.0/{mask}").prefixlen
    except ValueError:
        return 32


def is_word(key: str, value: Any) -> bool:
    """Return whether the value of a document's key is one of preflight's own words, and so no name."""
    return key in _WORDS and isinstance(value, str)


def is_our_key(key: str) -> bool:
    """Return whether the key of a document is a word of preflight or of a tool, and so holds no name."""
    return re.fullmatch("[A-Za-z_]+", key) is not None


def kept_bits(address: IPv4Address) -> int:
    """Return how many leading bits of an address are kept.

    Those of a server in a super-pod, 192.<server>.<2 + die>.<199 - device>, keep all bits: the driver computes them, so
    they identify no site.
    """
    first, _, third, last = address.packed
    if first == 192 and third in (2, 3) and 199 - 16 < last <= 199:
        return 32
    return next(bits for network, bits in _KEPT if address in network)


def _is_private(text: str) -> bool:
    try:
        return any(IPv4Address(text) in network for network in _PRIVATE)
    except AddressValueError:
        return False


class Pseudonyms:
    """The pseudonyms of a document. `key`: a secret that reveals which pseudonym belongs to which address."""

    def __init__(self, key: bytes, known: Known) -> None:
        self._key = key
        self.known = known
        self.names = Names(known)
        self._marks: dict[str, int] = {}  # pseudonym → its number
        self._mapped = lru_cache(maxsize=1 << 16)(self._map)

    def text(self, text: str) -> str:
        return self.shown(self.hide(text))

    def shown(self, text: str) -> str:
        """Return the text with pseudonyms in place of their marks."""
        pseudonyms = list(self._marks)

        def pseudonym(match: re.Match[str]) -> str:
            number = int(match[1])
            return pseudonyms[number] if number < len(pseudonyms) else match[0]

        return _MARK.sub(pseudonym, text)

    def value(self, value: Any) -> Any:
        """Return a JSON or TOML value with marks. Keys that are words stay, except names of hosts below `cluster`."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {key if is_our_key(key) else self.hide(key): self._of_key(key, item) for key, item in value.items()}
        return value

    def _of_key(self, key: str, value: Any) -> Any:
        if is_word(key, value):
            return value
        if key in _VERSIONS:
            return self._names_in(value)
        if key in _ACCOUNTS and isinstance(value, str) and value.lower() in self.known.users:
            return self._pseudonym(value)
        if key == "cluster" and isinstance(value, dict) and all(isinstance(item, list) for item in value.values()):
            return {self.name(name): self.value(item) for name, item in value.items()}
        return self.value(value)

    def _names_in(self, value: Any) -> Any:
        """Return the value with marks for names, but not for addresses."""
        if isinstance(value, str):
            return self.names.replaced(value, self._pseudonym)
        if isinstance(value, list):
            return [self._names_in(item) for item in value]
        return {key: self._names_in(item) for key, item in value.items()} if isinstance(value, dict) else value

    def name(self, name: str) -> str:
        """Return the mark of a text that is a host's name."""
        return self._pseudonym(name) if name.lower() in self.known.names else self.hide(name)

    def hide(self, text: str) -> str:
        """Return the text with marks in place of names and addresses."""
        if text.lower() in self.known.names:
            return self.name(text)
        return self._plain(encodings.replaced(text, self._encoded))

    def _encoded(self, text: str) -> str:
        return self.shown(self._plain(text))

    def _plain(self, text: str) -> str:
        text = self.names.replaced(text, self._pseudonym)
        text = _COMMENT.sub(lambda match: _MACHINE.sub(self._machine, match[0]), text)
        return "".join(map(self._line, text.splitlines(keepends=True)))

    def _machine(self, match: re.Match[str]) -> str:
        """Return the mark of a word in a comment that looks like a machine's name; a common word stays."""
        return match[0] if is_common(match[0].lower()) else self._pseudonym(match[0])

    def _line(self, line: str) -> str:
        if ".arpa" in line.lower():
            line = _BACKWARDS_6.sub(self._backwards_6, _BACKWARDS.sub(self._backwards, line))
        line = MAC.sub(self._mac, line)
        line = IPV6.sub(self._ipv6, line)
        mask = _MASK.search(line)
        length = _length(mask[0]) if mask else 32
        return IPV4.sub(lambda match: self._ipv4(match, length), line)

    def _mark(self, pseudonym: str) -> str:
        return f"\ue000{self._marks.setdefault(pseudonym, len(self._marks))}\ue001"

    def _pseudonym(self, name: str) -> str:
        """Return the mark of a name's pseudonym. Other machines, domains and users than the hosts get a random one."""
        name = name.lower()
        short = name.partition(".")[0]
        if name not in self.known.names and (short in self.known.names or short in self.known.others):
            name = short
        kind = "user" if name in self.known.users else "name"
        return self._mark(self.known.names.get(name) or f"{kind}-{self._random(name) & 0xFFFFFF:06x}")

    def _random(self, what: str) -> int:
        return int.from_bytes(hmac.digest(self._key, what.encode(), "sha256")[:8], "big")

    def _mac(self, match: re.Match[str]) -> str:
        """Return the mark of a MAC address with other digits in its last three bytes, for any separators."""
        text = match[0].lower()
        positions = [position for position, char in enumerate(text) if char in "0123456789abcdef"][-12:]
        digits = "".join(text[position] for position in positions)
        if (match["bare"] and digits not in self.known.macs) or digits in ("0" * 12, "f" * 12):
            return match[0]
        chars = list(match[0])
        for position, digit in zip(positions[-6:], f"{self._random(digits) & 0xFFFFFF:06x}", strict=True):
            chars[position] = digit
        return self._mark("".join(chars))

    def _ipv4(self, match: re.Match[str], length: int) -> str:
        """Return the mark of an address. `length`: that of the line's mask, for addresses without a prefix length."""
        separator = match[2]
        text = ".".join(match.group(1, 3, 4, 5))
        before, after = (
            match.string[max(0, match.start() - 80) : match.start()],
            match.string[match.end(5) : match.end(5) + 9],
        )
        if text not in self.known.addresses and not self._is_address(text, separator, before, after):
            return match[0]
        try:
            number = int(IPv4Address(text))
        except AddressValueError:
            return match[0]
        mapped = self._mapped(number)
        host_bits = (1 << (32 - min(int(match[6] or length), 32))) - 1
        if not number & host_bits:  # a network's address stays one
            mapped &= ~host_bits
        return self._mark(str(IPv4Address(mapped)).replace(".", separator)) + match[0][match.end(5) - match.start() :]

    def _is_address(self, text: str, separator: str, before: str, after: str) -> bool:
        """Return whether unknown numbers with dots are an address, by the text around them."""
        before = _ESCAPE.sub("", before)
        is_suffix = re.search(r"[A-Za-z0-9][-_]$", before)
        if _VERSION.search(before) or (is_suffix and _OF_PACKAGE.match(after)):
            return False
        if separator == "." and not re.search(r"[\w.]$", before) and not re.match(r"\.?\w", after):
            return True
        in_file_name = is_suffix or not re.search(r"[\w.]$", before)
        return bool(in_file_name and _AHEAD.match(after) and _is_private(text))

    def _backwards(self, match: re.Match[str]) -> str:
        """Return 4.3.2.1.in-addr.arpa, also of a network, with the mark of the mapped address in reverse order."""
        parts = match[1].rstrip(".").split(".")[::-1]
        try:
            address = IPv4Address(".".join([*parts, "0", "0"][:4]))
        except AddressValueError:
            return match[0]
        mapped_parts = str(IPv4Address(self._mapped(int(address)))).split(".")[: len(parts)]
        return self._mark(".".join(mapped_parts[::-1])) + match[0][len(match[1]) - 1 :]

    def _backwards_6(self, match: re.Match[str]) -> str:
        address = IPv6Address(int(match[1].replace(".", "")[::-1], 16))
        pseudonym = IPv6Address(self.shown(self._plain(str(address))))
        digits = pseudonym.exploded.replace(":", "")[::-1]
        return self._mark(".".join(digits)) + match[0][len(match[1]) - 1 :]

    def _map(self, number: int) -> int:
        """Return the mapped address. The mapping preserves prefixes: a bit's flip depends on the bits before it."""
        address = IPv4Address(number)
        mapped = number
        for position in range(kept_bits(address), 24):
            before = number >> (32 - position)
            # Here a byte's bits up to its first 1 stay, so no other address is mapped into 192.168.0.0/21.
            is_leading = address in _LIKE_THE_DRIVER_S and not before & ((1 << position % 8) - 1)
            if not is_leading and self._random(f"{position}:{before}") & 1:
                mapped ^= 1 << (31 - position)
        return mapped

    def _ipv6(self, match: re.Match[str]) -> str:
        """Return the mark of an address. Its first group, the kind of address, stays; others depend on those before."""
        try:
            address = IPv6Address(match[0])
        except AddressValueError:
            return match[0]
        if address.is_multicast or int(address) < 1 << 32:
            return match[0]
        if address.ipv4_mapped:  # a GID of RoCE stays that of the interface's address
            number = self._mapped(int(address.ipv4_mapped))
            return self._mark(f"::ffff:{number >> 16:x}:{number & 0xFFFF:x}")
        groups = address.exploded.split(":")
        mapped_groups = [groups[0]]
        for index in range(1, 8):
            prefix = ":".join(groups[: index + 1])
            mapped_groups.append(f"{self._random(prefix) & 0xFFFF or 1:04x}" if int(groups[index], 16) else "0000")
        return self._mark(str(IPv6Address(":".join(mapped_groups))))
