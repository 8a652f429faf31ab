"""Output of `ss -Htan` and `ss -Htanp`: TCP sockets in any state."""

import re

from preflight.facts.types import Missing, Socket
from preflight.model.text import quote

_LINE = re.compile(
    r"([A-Z][A-Z0-9-]{2,12})\s+\d{1,12}\s+\d{1,12}\s+(\S{1,90}):(\d{1,5})\s+(\S{1,90}):(\d{1,5}|\*)(\s.*)?"
)
_USER = re.compile(r'users:\(\("((?:[^"\\]|\\.){0,60})",(?:pid=)?(\d{1,9}),')  # old releases print no "pid="


def tcp(text: str) -> tuple[Socket, ...] | Missing:
    """Parse one socket a line; of several processes with one socket the first counts. A heading is passed over."""
    sockets = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("State "):
            continue
        match = _LINE.fullmatch(line.strip())
        if not match:
            return Missing(f"ss: {quote(line)} is not recognized")
        state, local, local_port, remote, remote_port, process = match.groups()
        user = _USER.search(process or "")
        sockets.append(
            Socket(
                state=state,
                local_address=local,
                local_port=int(local_port),
                remote_address=remote,
                remote_port=0 if remote_port == "*" else int(remote_port),
                process=user.group(1) if user else None,
                pid=int(user.group(2)) if user else None,
            )
        )
    return tuple(sockets)
