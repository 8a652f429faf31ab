"""Logins between hosts over ssh without a password: the targets of each host, and the results. Pure.

This is collected only if the inventory's [job] names a launcher that works over ssh. preflight/remote/collect logs in.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from preflight.model.cluster import Host
from preflight.model.text import quote

_SSH = 22  # the default port


class Entry(StrEnum):
    """The result of `ssh HOST true`."""

    IN = "in"
    UNKNOWN_KEY = "unknown host key"
    CHANGED_KEY = "changed host key"
    DENIED = "permission denied"
    NO_NAME = "name does not resolve"
    REFUSED = "connection refused"
    NO_ANSWER = "no answer"
    NO_WAY = "no route"
    DROPPED = "connection dropped"
    NO_SHELL = "no shell"
    OTHER = "other"


@dataclass(frozen=True)
class SshVisit:
    """One login. `host`: the target's name in the inventory. `place`, `port`: ssh's arguments, 0 for no port.

    `said`: ssh's error message, if the login failed.
    """

    host: str
    place: str
    entry: Entry
    said: str = ""
    port: int = 0


@dataclass(frozen=True)
class Neighbours:
    """The logins of one host's `user`, in their order."""

    user: str
    visits: tuple[SshVisit, ...]


@dataclass
class RawVisit:
    """One login as the collector sends it. `trouble`: why ssh did not run to its end."""

    host: str
    place: str
    code: int
    err: str
    trouble: str = ""
    port: int = 0


@dataclass
class RawNeighbours:
    user: str
    visits: list[RawVisit]


def targets(hosts: Sequence[Host], name: str) -> list[tuple[str, str, int]]:
    """Return name, address and port (0 for ssh's default) of the hosts that a host logs in to.

    They are the next and the previous host of the ring, and the first host, where launchers start.
    """
    position = [host.name for host in hosts].index(name)
    ring = (hosts[(position + 1) % len(hosts)], hosts[position - 1], hosts[0])
    partners = {host.name: host for host in ring if host.name != name}
    return [(host.name, host.address, _port(host)) for host in partners.values()]


def _port(host: Host) -> int:
    return host.ssh.port if host.ssh.port and host.ssh.port != _SSH else 0


# Messages of OpenSSH 6.6 to 9.9 (ssh.c, sshconnect.c, sshconnect2.c), the most specific first.
_WORDS = (
    (Entry.CHANGED_KEY, "REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed"),
    (Entry.UNKNOWN_KEY, "host key is known for|Host key verification failed"),
    (Entry.NO_NAME, "Could not resolve hostname"),
    (Entry.DENIED, r"Permission denied \(|Too many authentication failures|No supported authentication methods"),
    (Entry.REFUSED, "Connection refused"),
    (Entry.NO_ANSWER, "timed out"),
    (Entry.NO_WAY, "No route to host|Network is unreachable"),
    (Entry.DROPPED, "kex_exchange_identification|ssh_exchange_identification|Connection reset|Connection closed by"),
)
_SSH_FAILED = 255


def neighbours(raw: RawNeighbours) -> Neighbours:
    return Neighbours(raw.user, tuple(map(_visit, raw.visits)))


def _visit(raw: RawVisit) -> SshVisit:
    entry, message = _entry(raw)
    return SshVisit(raw.host, raw.place, entry, message, raw.port)


def _entry(raw: RawVisit) -> tuple[Entry, str]:
    """Return the result of a login, and ssh's message."""
    if raw.trouble:
        return Entry.NO_ANSWER, raw.trouble
    if raw.code == 0:
        return Entry.IN, ""
    lines = [line for line in raw.err.splitlines() if line.strip()]
    last = quote(lines[-1]) if lines else f"ssh exited with {raw.code}"
    if raw.code != _SSH_FAILED:
        return Entry.NO_SHELL, last
    entries = (entry for entry, words in _WORDS if re.search(words, raw.err))
    return next(entries, Entry.OTHER), last
