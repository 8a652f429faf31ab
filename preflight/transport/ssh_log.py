"""Transport errors from the log of ssh. Reads no files but known_hosts.

Texts of OpenSSH 9.2 at LogLevel DEBUG1: ssh.c, sshconnect.c, sshconnect2.c, clientloop.c.
Lines with text of the server start with "debug1: Remote:"; none of the patterns below matches them.
"""

import re
from pathlib import Path

from preflight.model.text import last_line
from preflight.transport import errors
from preflight.transport.errors import Target
from preflight.transport.known_hosts import parse
from preflight.transport.ssh_files import LARGEST_KNOWN_HOSTS, text_of
from preflight.transport.types import Options, TransportError


def logged_in(log: str) -> bool:
    return bool(re.search(r"^Authenticated to ", log, re.MULTILINE))


def reached(log: str) -> bool:
    """Return true if an ssh server answered."""
    return bool(re.search(r"^debug1: Remote protocol version ", log, re.MULTILINE))


def program_ended(log: str) -> bool:
    """Return true if the exit code is the program's. ssh's own is 255, which a program may use as well."""
    return bool(
        re.search(r"^debug1: (Exit status \d|client_input_channel_req: .* rtype exit-signal)", log, re.MULTILINE)
    )


def accepted_key(log: str, target: Target) -> str:
    """Return the notice for a host key that ssh accepted as new; empty if there is none."""
    added = re.search(r"^Warning: Permanently added .* to the list of known hosts", log, re.MULTILINE)
    key_type, fingerprint = _shown_key(log)
    return errors.key_accepted(target, key_type, fingerprint) if added else ""


def failure(log: str, target: Target, options: Options, known_hosts: tuple[str, ...]) -> TransportError:
    """Return why ssh ended before the program did."""
    if logged_in(log):
        return errors.closed(target, _last_message(log))
    if host_key_error := _host_key_failure(log, target, known_hosts):
        return host_key_error
    if unresolved := re.search(r"^ssh: Could not resolve hostname \S+: (.+)", log, re.MULTILINE):
        return errors.unresolved(target, last_line(unresolved[1]))
    if denied := re.search(r"^\S+: Permission denied \(.+\)|: Too many authentication failures", log, re.MULTILINE):
        return errors.not_let_in(target, last_line(denied[0].partition(": ")[2]))
    if re.search(r"^(ssh: connect to host .*: )?Connection timed out", log, re.MULTILINE):
        stage = "the ssh banner" if "debug1: Connection established" in log else "the TCP connection"
        return errors.timed_out(target, options.connect_timeout, stage)
    if refused := re.search(r"^ssh: connect to host .* port \d+: (.+)", log, re.MULTILINE):
        return errors.refused(target, last_line(refused[1]))
    return errors.hung_up(target, _last_message(log))


def _host_key_failure(log: str, target: Target, known_hosts: tuple[str, ...]) -> TransportError | None:
    key_type, fingerprint = _shown_key(log)
    if re.search(r"^@ +WARNING: REVOKED HOST KEY", log, re.MULTILINE):
        return errors.key_revoked(target, fingerprint, " or ".join(known_hosts) or "a known_hosts file")
    if changed := re.search(r"^Offending \S+ key in (.+:\d+)$", log, re.MULTILINE):
        return errors.key_changed(target, key_type, fingerprint, _recorded_key(changed[1]), changed[1])
    if re.search(r"^No \S+ host key is known for |^Host key verification failed", log, re.MULTILINE):
        return errors.key_unknown(target, key_type, fingerprint, known_hosts)
    return None


def bastion_failure(
    log: str, target: Target, bastion: Target, options: Options, known_hosts: tuple[str, ...]
) -> TransportError:
    """Return why the bastion does not forward, from the log of the ssh that connects to it."""
    if not logged_in(log):
        return errors.bastion_failed(target, failure(log, bastion, options, known_hosts))
    refusal = re.search(r"open failed: (administratively prohibited|connect failed): (.*)", log)
    if refusal and refusal[1] == "connect failed":
        return errors.refused(target, last_line(refusal[2]))
    return errors.bastion_forbids(target, last_line(refusal[2]) if refusal else _last_message(log))


def _shown_key(log: str) -> tuple[str, str]:
    """Return type and fingerprint of the key that the host showed."""
    key = re.search(r"^debug1: Server host key: (\S+) (\S+)", log, re.MULTILINE)
    return (key[1], key[2]) if key else ("", "fingerprint unknown")


def _recorded_key(at: str) -> str:
    """Return type and fingerprint of the key in FILE:LINE."""
    file, _, line = at.rpartition(":")
    text = text_of(Path(file), LARGEST_KNOWN_HOSTS)
    entry = next((entry for entry in parse(text, file) if entry.line == int(line)), None)
    return f"{entry.key_type} {entry.host_key.fingerprint}" if entry and entry.host_key else "another key"


def _last_message(log: str) -> str:
    """Return the last line that is not debug output."""
    lines = [line for line in log.splitlines() if not re.match(r"debug\d: |Transferred: |Bytes per second: ", line)]
    return last_line("\n".join(lines)) or "the server closed the connection"
