"""Whether a text is an IP address, or a name."""

from ipaddress import IPv4Address, ip_address


def is_address(text: str) -> bool:
    """Of IPv4 or IPv6."""
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
