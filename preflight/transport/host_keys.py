"""Policy for host keys: strict. New keys are accepted only on request, changed or revoked keys never.

One object serves all threads: each set of files is read once, and new keys are accepted under one lock.
"""

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

from preflight.transport import errors
from preflight.transport.errors import Target
from preflight.transport.known_hosts import HostKey, KeyStatus, KeyVerdict, KnownHosts, line_for
from preflight.transport.ssh_config import Endpoint
from preflight.transport.types import TransportError


class HostKeys:
    """Checks of host keys. `accept_new` records the key of an unknown host, and reports it to `notice`."""

    def __init__(self, *, accept_new: bool, notice: Callable[[str], None]) -> None:
        self._accept_new = accept_new
        self._notice = notice
        self._lock = threading.Lock()
        self._read: dict[tuple[str, ...], KnownHosts] = {}

    def known(self, files: tuple[str, ...]) -> KnownHosts:
        with self._lock:
            if files not in self._read:
                self._read[files] = KnownHosts.read(files)
            return self._read[files]

    def check(self, endpoint: Endpoint, key: HostKey) -> None:
        """Raise TransportError unless `key` is trusted for the endpoint."""
        target, files = endpoint.target, endpoint.known_hosts
        verdict = self.known(files).judge(endpoint.known_as, key)
        if verdict.status is KeyStatus.UNKNOWN and self._accept_new:
            try:
                verdict = self._accept(endpoint, key)
            except OSError as failure:
                note = f" and cannot be written there: {failure.strerror}"
                raise errors.key_unknown(target, key.type, key.fingerprint, files[:1], note) from None
        error = _refusal(target, key, files, verdict)
        if error:
            raise error

    def _accept(self, endpoint: Endpoint, key: HostKey) -> KeyVerdict:
        """Record the key, unless another thread or another preflight has recorded one for this host meanwhile."""
        name, files = endpoint.known_as, endpoint.known_hosts
        path = Path(files[0])
        with self._lock:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            with path.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                verdict = KnownHosts.read(files).judge(name, key)
                if verdict.status is KeyStatus.UNKNOWN:
                    size = file.seek(0, os.SEEK_END)
                    file.seek(max(0, size - 1))
                    newline = b"" if file.read(1) in (b"", b"\n") else b"\n"
                    file.write(newline + line_for(name, key, hashed=endpoint.hash_names).encode())
                    verdict = KeyVerdict(KeyStatus.TRUSTED)
                    self._notice(errors.key_accepted(endpoint.target, key.type, key.fingerprint, str(path)))
            self._read[files] = KnownHosts.read(files)
        return verdict


def _refusal(target: Target, key: HostKey, files: tuple[str, ...], verdict: KeyVerdict) -> TransportError | None:
    entry = verdict.entry
    match verdict.status:
        case KeyStatus.TRUSTED:
            return None
        case KeyStatus.REVOKED if entry:
            return errors.key_revoked(target, key.fingerprint, entry.at)
        case KeyStatus.CHANGED if entry and entry.host_key:
            recorded = f"{entry.key_type} {entry.host_key.fingerprint}"
            return errors.key_changed(target, key.type, key.fingerprint, recorded, entry.at)
    note = f' ({entry.at} has a certificate for it, which needs transport = "openssh")' if entry else ""
    return errors.key_unknown(target, key.type, key.fingerprint, files, note)
