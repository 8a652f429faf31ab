"""What hosts and nodes are called."""

import re


def short(name: str) -> str:
    """What stands before the first dot of a name; an address as it is."""
    return name if re.fullmatch(r"[\d.]+", name) else name.partition(".")[0]
