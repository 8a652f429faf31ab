"""What `iptables-save` and `iptables -S` print: only whether the host's own input is filtered at all."""

import re

from preflight.facts.quote import quote
from preflight.facts.types import Missing

_KNOWN = re.compile(r"#.*|\*\w+|COMMIT|:\S+ \S+.*|-[PNA] .*")
_FILTERING = re.compile(r":INPUT (?!ACCEPT)\S+.*|-P INPUT (?!ACCEPT).*|-A INPUT .*")


def filters_input(text: str) -> bool | Missing:
    """Whether the chain INPUT holds a rule or does not accept by default."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if strange := next((line for line in lines if not _KNOWN.fullmatch(line)), None):
        return Missing(f"iptables: {quote(strange)} is not understood")
    return any(_FILTERING.fullmatch(line) for line in lines)
