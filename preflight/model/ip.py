"""Tests for IP addresses, which tell them from names."""

from ipaddress import IPv4Address, ip_address


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
