"""The network of the machine that preflight runs on; a host compares it with its own.

Counterpart on the hosts: preflight/remote/apply/network.py.
"""

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/net")


def network_id() -> str:
    """Return this boot and this network namespace as one text, empty if the kernel does not give them."""
    try:
        return f"{_BOOT_ID.read_text().strip()} {_NAMESPACE.readlink()}"
    except OSError:
        return ""
