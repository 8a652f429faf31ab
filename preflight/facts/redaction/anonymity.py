"""Known names and addresses that remain in an anonymous document. Pure."""

from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any

from preflight.facts.redaction.encodings import decoded
from preflight.facts.redaction.pseudonyms import IPV4, IPV6, MAC, Pseudonyms, is_our_key, is_word, kept_bits


def left(document: Any, pseudonyms: Pseudonyms) -> Iterator[str]:
    """Yield the kind and place of each remaining name or address, never the name or address itself.

    An example is "an IPv4 address in hosts.….sections.os". `document`: with marks instead of pseudonyms, as a pseudonym
    may look like a real name or address.
    """
    for place, text in _texts(document, ""):
        for kind in _kinds(text, pseudonyms):
            yield f"{kind} in {pseudonyms.shown(place)}"


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, place)
    elif isinstance(value, dict):
        for key, item in value.items():
            item_place = f"{place}.{key}" if place else key
            if not is_our_key(key):
                yield item_place, key
            if not is_word(key, item):
                yield from _texts(item, item_place)


def _kinds(text: str, pseudonyms: Pseudonyms) -> Iterator[str]:
    yield from _kinds_of_plain(text, pseudonyms)
    for word in decoded(text):
        if any(_kinds_of_plain(word, pseudonyms)):
            yield "something known in another encoding"


def _kinds_of_plain(text: str, pseudonyms: Pseudonyms) -> Iterator[str]:
    identities = pseudonyms.known
    if text.lower() in identities.names or pseudonyms.names.stand_in(text):
        yield "the name of a machine or a domain"
    if any(_ipv4(".".join(match.group(1, 3, 4, 5))) in identities.addresses for match in IPV4.finditer(text)):
        yield "an IPv4 address"
    if any(_ipv6(match[0]) in identities.addresses for match in IPV6.finditer(text)):
        yield "an IPv6 address"
    if any(_digits(match[0]) in identities.macs for match in MAC.finditer(text)):
        yield "a MAC address"


def _ipv4(text: str) -> str:
    """Return the address; empty if it is none, or if pseudonyms keep it, as 127.0.0.1."""
    try:
        return text if kept_bits(IPv4Address(text)) < 32 else ""
    except AddressValueError:
        return ""


def _ipv6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return ""
    return "" if address.is_multicast or int(address) < 1 << 32 else str(address)


def _digits(text: str) -> str:
    digits = "".join(char for char in text.lower() if char in "0123456789abcdef")[-12:]
    return "" if digits == "f" * 12 else digits
