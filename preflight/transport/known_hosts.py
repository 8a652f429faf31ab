"""known_hosts files: read once, looked up often, appended to. Format: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.

paramiko's own reader is not used: it builds a key object per line (4,000 lines cost 1.35 s for every connection),
stops at lines it cannot decode, knows neither markers nor patterns, and forgets which line a key came from.
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
    """A public key as a server shows it: `type` ("ssh-ed25519") and the bytes of its wire format."""

    type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it."""
        return "SHA256:" + base64.b64encode(sha256(self.blob).digest()).decode().rstrip("=")


@dataclass(frozen=True)
class KnownHostsLine:
    """One line that could be understood."""

    file: str
    line: int
    marker: str  # "", "@revoked" or "@cert-authority"
    hosts: str  # comma-separated patterns, or one hashed name
    key_type: str
    key: str  # base64, decoded only when it is compared

    @property
    def at(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def host_key(self) -> HostKey | None:
        """None where the base64 text is damaged."""
        try:
            return HostKey(self.key_type, base64.b64decode(self.key, validate=True))
        except binascii.Error:
            return None


class KeyStatus(StrEnum):
    """What is known about a key that a server shows."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class KeyVerdict:
    """`entry`: the line that decides; for UNKNOWN a @cert-authority line that vouches for the host, if any."""

    standing: KeyStatus
    entry: KnownHostsLine | None = None


@dataclass
class KnownHosts:
    """The entries of one or several files, indexed by host name."""

    _named: dict[str, list[KnownHostsLine]] = field(default_factory=lambda: defaultdict(list))
    _hashed: list[tuple[bytes, bytes, KnownHostsLine]] = field(default_factory=list)  # salt, HMAC-SHA1 of the name
    _patterns: list[KnownHostsLine] = field(default_factory=list)
    _found: dict[str, list[KnownHostsLine]] = field(
        default_factory=dict
    )  # name → its entries; 4,000 hashes cost 10 ms a name

    @classmethod
    def read(cls, files: Iterable[str]) -> "KnownHosts":
        """Files that do not exist or may not be read count as empty, as ssh has it. Raises UsageError for one without
        an end."""
        known = cls()
        for file in files:
            for entry in parse(text_of(Path(file), LARGEST_KNOWN_HOSTS), file):
                known._add(entry)
        return known

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
        """All lines for `name`, which is "host", or "[host]:port" where the port is not 22."""
        name = name.lower()
        if name not in self._found:
            found = list(self._named.get(name, ()))
            found += [entry for salt, mac, entry in self._hashed if hmac.digest(salt, name.encode(), "sha1") == mac]
            found += [entry for entry in self._patterns if _matches(name, entry.hosts)]
            self._found[name] = found
        return self._found[name]

    def judge(self, name: str, key: HostKey) -> KeyVerdict:
        """What the files say of `key` shown by host `name`.

        As ssh does it, with one difference on the safe side: a key of another type than the ones on record counts as
        changed, not as new; `key_types` has the server show a recorded one if it still has it.
        """
        entries = self.entries(name)
        for entry in entries:
            if entry.marker == "@revoked" and entry.host_key == key:
                return KeyVerdict(KeyStatus.REVOKED, entry)
        plain = [entry for entry in entries if not entry.marker and entry.host_key is not None]
        for entry in plain + self._without_port(name):
            if entry.host_key == key:
                return KeyVerdict(KeyStatus.TRUSTED, entry)
        if plain:
            same_type = (entry for entry in plain if entry.key_type == key.type)
            return KeyVerdict(KeyStatus.CHANGED, next(same_type, plain[0]))
        authorities = (entry for entry in entries if entry.marker == "@cert-authority")
        return KeyVerdict(KeyStatus.UNKNOWN, next(authorities, None))

    def key_types(self, name: str) -> tuple[str, ...]:
        """The types of the keys on record for `name`, each once, in the order of the files.

        The server is asked for these first: one with keys of several types would otherwise show one not on record.
        """
        entries = [entry for entry in self.entries(name) if not entry.marker] or self._without_port(name)
        return tuple(dict.fromkeys(entry.key_type for entry in entries))

    def _without_port(self, name: str) -> list[KnownHostsLine]:
        """ssh accepts the key recorded for the bare host on any port, if it is the same one."""
        bare = re.fullmatch(r"\[(.+)\]:\d+", name)
        return [entry for entry in self.entries(bare[1]) if not entry.marker] if bare else []


def parse(text: str, file: str) -> Iterator[KnownHostsLine]:
    """The lines that can be understood; comments, damaged lines and unknown markers are passed over."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(None, 4)
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or marker not in ("", "@revoked", "@cert-authority"):
            continue
        yield KnownHostsLine(file, number, marker, *words[:3])


def line_for(name: str, key: HostKey, *, hashed: bool) -> str:
    """The line to append for a host seen for the first time; `hashed`: without its name in clear."""
    if hashed:
        salt = os.urandom(20)
        digest = hmac.digest(salt, name.lower().encode(), "sha1")
        name = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
    return f"{name} {key.type} {base64.b64encode(key.blob).decode()}\n"


def _hashed_name(hosts: str) -> tuple[bytes, bytes] | None:
    """Salt and digest of "|1|SALT|DIGEST"."""
    parts = hosts.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return None
    try:
        return base64.b64decode(parts[2], validate=True), base64.b64decode(parts[3], validate=True)
    except binascii.Error:
        return None


def _matches(name: str, patterns: str) -> bool:
    """ssh's pattern lists: `*` and `?`, and `!` before a pattern that rules the whole line out. [ ] are plain."""
    matched = False
    for pattern in patterns.lower().split(","):
        expression = re.escape(pattern.removeprefix("!")).replace(r"\*", ".*").replace(r"\?", ".")
        if re.fullmatch(expression, name):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched
