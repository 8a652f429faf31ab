"""Host names and addresses → pseudonyms: the same for the same, and a subnet stays one. Pure.

An address keeps its first byte, its last one, and how many leading bits it shares with any other address: so networks,
gateways and pairs in one subnet are what they were. Addresses that mean something by themselves stay: loopback,
multicast, masks, and those that Ascend's driver gives itself. A MAC address keeps its vendor.
"""

import hmac
import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Any

_IPV4 = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?:/(\d{1,2}))?(?!\.?\w)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])")
_MAC = re.compile(r"(?<![\w:])([0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){2})((?::[0-9A-Fa-f]{2}){3})(?![\w:])")
_MASK = re.compile(r"(?<![\w.])(?:255\.){1,3}(?:255|254|252|248|240|224|192|128|0)(?:\.0){0,2}(?![\w.])")
_VERSION = re.compile("version", re.IGNORECASE)  # a line with it holds numbers with dots that are no addresses

# Network → how many of its leading bits stay; 32: these are nobody's, or everybody's.
_KEPT = (
    (IPv4Network("0.0.0.0/8"), 32),
    (IPv4Network("127.0.0.0/8"), 32),
    (IPv4Network("169.254.0.0/16"), 32),
    (IPv4Network("172.16.0.0/12"), 12),
    (IPv4Network("192.168.0.0/21"), 32),  # vNICs that Ascend's driver makes, in every server alike
    (IPv4Network("192.0.0.0/8"), 16),
    (IPv4Network("224.0.0.0/3"), 32),  # multicast, and masks
    (IPv4Network("0.0.0.0/0"), 8),
)
_LIKE_THE_DRIVER_S = IPv4Network("192.0.0.0/8")
_UNCHANGED_KEYS = ("driver", "packages", "cann_files", "release", "kernel")  # versions, not addresses


def _length(mask: str) -> int:
    """Leading bits of 255.255.252.0; 32 for what is no mask."""
    try:
        return IPv4Network(f"0.0.0.0/{mask}").prefixlen
    except ValueError:
        return 32


def _is_vnic(address: IPv4Address) -> bool:
    """Of a server in a super-pod, 192.<server>.<2 + die>.<199 - device>: what the driver computes names nobody."""
    first, _, third, last = address.packed
    return first == 192 and third in (2, 3) and 199 - 16 < last <= 199


class Pseudonyms:
    """`key`: whoever has it can tell which address was which. `names`: each that a host is known by → its pseudonym."""

    def __init__(self, key: bytes, names: Mapping[str, str]) -> None:
        self._key = key
        self._names = names
        known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        self._known = re.compile(rf"(?<![\w-])(?:{known})(?![\w-])") if known else None

    def value(self, value: Any) -> Any:
        """The same for what JSON can hold; keys may be names, too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): item if key in _UNCHANGED_KEYS else self.value(item) for key, item in value.items()}
        return value

    def text(self, text: str) -> str:
        return "".join(map(self._line, text.splitlines(keepends=True)))

    def _line(self, line: str) -> str:
        if self._known:
            line = self._known.sub(lambda match: self._names[match[0]], line)
        line = _MAC.sub(self._mac, line)
        line = _IPV6.sub(self._ipv6, line)
        if _VERSION.search(line):
            return line
        mask = _MASK.search(line)
        length = _length(mask[0]) if mask else 32
        return _IPV4.sub(lambda match: self._ipv4(match, length), line)

    def _random(self, what: str) -> int:
        return int.from_bytes(hmac.digest(self._key, what.encode(), "sha256")[:8], "big")

    def _mac(self, match: re.Match[str]) -> str:
        text = match[0].lower()
        if text in ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"):
            return match[0]
        tail = self._random(text).to_bytes(8, "big")[:3]
        return match[1] + "".join(f":{byte:02x}" for byte in tail)

    def _ipv4(self, match: re.Match[str], length: int) -> str:
        """`length`: of the mask that stands in the line, for addresses that have none of their own."""
        try:
            number = int(IPv4Address(match[1]))
        except AddressValueError:
            return match[0]
        found = self._mapped(number)
        host_bits = (1 << (32 - min(int(match[2] or length), 32))) - 1
        if not number & host_bits:  # a network stays one
            found &= ~host_bits
        return str(IPv4Address(found)) + match[0][len(match[1]) :]

    def _mapped(self, number: int) -> int:
        """Prefix-preserving: whether a bit is turned depends on those before it."""
        address = IPv4Address(number)
        if _is_vnic(address):
            return number
        kept = next(bits for network, bits in _KEPT if address in network)
        found = number
        for position in range(kept, 24):
            before = number >> (32 - position)
            # A byte's first one stays there: no other address gets into 192.168.0.0/21.
            leading = address in _LIKE_THE_DRIVER_S and not before & ((1 << position % 8) - 1)
            if not leading and self._random(f"{position}:{before}") & 1:
                found ^= 1 << (31 - position)
        return found

    def _ipv6(self, match: re.Match[str]) -> str:
        """Group by group, each by those before it; the first says of what kind it is."""
        try:
            address = IPv6Address(match[0])
        except AddressValueError:
            return match[0]
        if address.is_multicast or int(address) < 1 << 32:
            return match[0]
        groups = address.exploded.split(":")
        found = [groups[0]]
        for at in range(1, 8):
            before = ":".join(groups[: at + 1])
            found.append(f"{self._random(before) & 0xFFFF or 1:04x}" if int(groups[at], 16) else "0000")
        return str(IPv6Address(":".join(found)))
