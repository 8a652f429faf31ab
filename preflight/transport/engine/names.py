"""Names of hosts and nodes."""

import re


def short(name: str) -> str:
    """Return the name up to its first dot; an address unchanged."""
    return name if re.fullmatch(r"[\d.]+", name) else name.partition(".")[0]
