"""IP addresses of texts. Those of interfaces are read once: checks ask for the same ones again and again."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Interface, IPv6Interface, ip_address, ip_interface

_MOST = 1 << 17  # interfaces that are kept: those of 4,000 hosts with 16 devices, twice


@lru_cache(maxsize=_MOST)
def read_interface(text: str) -> IPv4Interface | IPv6Interface:
    """Return the address with the network of a text such as "10.1.0.2/16". Raises ValueError."""
    return ip_interface(text)


@lru_cache(maxsize=_MOST)
def read_ipv4_interface(text: str) -> IPv4Interface:
    """Return the IPv4 address with the network of a text, also with a mask: "10.1.0.2/255.255.0.0". Raises
    ValueError."""
    return IPv4Interface(text)


def is_address(text: str) -> bool:
    """Return whether the text is an address of IPv4 or IPv6."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True
