"""Reader and index of known_hosts files. Format: sshd(8), section "SSH_KNOWN_HOSTS FILE FORMAT".

paramiko's own reader is not used. It builds a key object for each line: 4,000 lines cost 1.35 s at every connection.
It stops at lines that it cannot decode, knows neither markers nor patterns, and does not keep line numbers.
"""

import base64
import binascii
import hmac
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from preflight.transport.ssh_files import LARGEST_KNOWN_HOSTS, text_of


@dataclass(frozen=True)
class HostKey:
    """Public key of a server: `type` ("ssh-ed25519") and the bytes of its wire format."""

    type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint as `ssh-keygen -l` prints it."""
        return "SHA256:" + base64.b64encode(sha256(self.blob).digest()).decode().rstrip("=")


@dataclass(frozen=True)
class KnownHostsLine:
    """One valid line. `marker` is empty, "@revoked" or "@cert-authority".

    `hosts` are patterns separated by commas, or one hashed name. `key` is in base64, decoded only for comparison.
    """

    file: str
    line: int
    marker: str
    hosts: str
    key_type: str
    key: str

    @property
    def at(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def host_key(self) -> HostKey | None:
        """Return the key; None if the base64 text is damaged."""
        try:
            return HostKey(self.key_type, base64.b64decode(self.key, validate=True))
        except binascii.Error:
            return None


class KeyStatus(StrEnum):
    """Status of a server's key in the known_hosts files."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class KeyVerdict:
    """Status of a key with the line that decides. For UNKNOWN, `entry` is the host's @cert-authority line, if any."""

    status: KeyStatus
    entry: KnownHostsLine | None = None


@dataclass
class KnownHosts:
    """The entries of one or several files, indexed by host name."""

    _named: dict[str, list[KnownHostsLine]] = field(default_factory=lambda: defaultdict(list))
    _hashed: list[tuple[bytes, bytes, KnownHostsLine]] = field(default_factory=list)  # salt, HMAC-SHA1 of the name
    _patterns: list[KnownHostsLine] = field(default_factory=list)
    # Cache of `entries` by name: 4,000 hashes cost 10 ms for each name.
    _cache: dict[str, list[KnownHostsLine]] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Iterable[str]) -> "KnownHosts":
        """Read the files. Missing or unreadable ones count as empty, as in ssh. Raises UsageError for endless ones."""
        known_hosts = cls()
        for file in files:
            for entry in parse(text_of(Path(file), LARGEST_KNOWN_HOSTS), file):
                known_hosts._add(entry)
        return known_hosts

    def _add(self, entry: KnownHostsLine) -> None:
        if entry.hosts.startswith("|"):
            hashed = _hashed_name(entry.hosts)
            if hashed:
                self._hashed.append((*hashed, entry))
        elif any(special in entry.hosts for special in "*?!"):
            self._patterns.append(entry)
        else:
            for host in entry.hosts.lower().split(","):
                self._named[host].append(entry)

    def entries(self, name: str) -> list[KnownHostsLine]:
        """Return all lines for `name`, which is "host", or "[host]:port" if the port is not 22."""
        name = name.lower()
        if name not in self._cache:
            entries = list(self._named.get(name, ()))
            entries += [entry for salt, mac, entry in self._hashed if hmac.digest(salt, name.encode(), "sha1") == mac]
            entries += [entry for entry in self._patterns if _matches(name, entry.hosts)]
            self._cache[name] = entries
        return self._cache[name]

    def judge(self, name: str, key: HostKey) -> KeyVerdict:
        """Return the verdict of the files on the `key` of host `name`.

        This follows ssh, with one stricter rule: a key of a type that is not on record counts as changed, not as new.
        `key_types` makes the server show a recorded key if it still has it.
        """
        by_marker: dict[str, list[KnownHostsLine]] = defaultdict(list)
        for entry in self.entries(name):
            by_marker[entry.marker].append(entry)
        plain = [entry for entry in by_marker[""] if entry.host_key is not None]
        if revoked := _line_with(key, by_marker["@revoked"]):
            return KeyVerdict(KeyStatus.REVOKED, revoked)
        if trusted := _line_with(key, plain + self._without_port(name)):
            return KeyVerdict(KeyStatus.TRUSTED, trusted)
        if plain:
            same_type = (entry for entry in plain if entry.key_type == key.type)
            return KeyVerdict(KeyStatus.CHANGED, next(same_type, plain[0]))
        return KeyVerdict(KeyStatus.UNKNOWN, next(iter(by_marker["@cert-authority"]), None))

    def key_types(self, name: str) -> tuple[str, ...]:
        """Return the types of the keys on record for `name`, each once, in the order of the files.

        The client requests these first: a server with keys of several types could show one that is not on record.
        """
        entries = [entry for entry in self.entries(name) if not entry.marker] or self._without_port(name)
        return tuple(dict.fromkeys(entry.key_type for entry in entries))

    def _without_port(self, name: str) -> list[KnownHostsLine]:
        """Return the lines for the host without its port: ssh accepts the same key on any port."""
        bare = re.fullmatch(r"\[(.+)\]:\d+", name)
        return [entry for entry in self.entries(bare[1]) if not entry.marker] if bare else []


def _line_with(key: HostKey, entries: Iterable[KnownHostsLine]) -> KnownHostsLine | None:
    return next((entry for entry in entries if entry.host_key == key), None)


def parse(text: str, file: str) -> Iterator[KnownHostsLine]:
    """Yield the valid lines; skip comments, damaged lines and unknown markers."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(None, 4)
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or marker not in ("", "@revoked", "@cert-authority"):
            continue
        yield KnownHostsLine(file, number, marker, *words[:3])


def line_for(name: str, key: HostKey, *, hashed: bool) -> str:
    """Return the line to append for a new host. `hashed` hides its name."""
    if hashed:
        salt = os.urandom(20)
        digest = hmac.digest(salt, name.lower().encode(), "sha1")
        name = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
    return f"{name} {key.type} {base64.b64encode(key.blob).decode()}\n"


def _hashed_name(hosts: str) -> tuple[bytes, bytes] | None:
    """Return salt and digest of "|1|SALT|DIGEST"."""
    parts = hosts.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return None
    try:
        return base64.b64decode(parts[2], validate=True), base64.b64decode(parts[3], validate=True)
    except binascii.Error:
        return None


def _matches(name: str, patterns: str) -> bool:
    """Return true if the name matches ssh's patterns: `*`, `?`, and `!` for exclusion. [ ] are plain characters."""
    matched = False
    for pattern in patterns.lower().split(","):
        expression = re.escape(pattern.removeprefix("!")).replace(r"\*", ".*").replace(r"\?", ".")
        if re.fullmatch(expression, name):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched
