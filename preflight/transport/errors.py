"""Error messages of the transports: one sentence and one remedy for each kind of failure.

All texts of the transports are in this module. Text from a host is passed through `one_line` before it is shown.
"""

import shlex
from dataclasses import dataclass

from preflight.model.text import last_line
from preflight.transport.types import ErrorKind, Program, TransportError


@dataclass(frozen=True)
class Target:
    """Host that a message is about: its name in the inventory, and the address that was tried."""

    host: str
    address: str
    port: int | None = None  # None: whatever ssh's configuration says (openssh transport)
    user: str | None = None
    via: str = ""  # the bastion, where there is one

    @property
    def where(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        where = f"{address}:{self.port}" if self.port else address
        return f"{where} (through {self.via})" if self.via else where

    @property
    def known_as(self) -> str:
        """Return the name under which known_hosts files keep the host's key."""
        return self.address if self.port in (None, 22) else f"[{self.address}]:{self.port}"

    @property
    def login(self) -> str:
        return f"{self.user}@{self.address}" if self.user else self.address

    def ssh(self, *options: str) -> str:
        """Return an ssh command that a person can type to see the same failure."""
        port = ("-p", str(self.port)) if self.port not in (None, 22) else ()
        return shlex.join(("ssh", *options, *port, self.login))


def unresolved(target: Target, reason: str) -> TransportError:
    return TransportError(
        ErrorKind.RESOLVE,
        f"{target.host}: the name {target.address} does not resolve ({reason})",
        "correct the host's address in the inventory, or make this succeed: "
        + shlex.join(("getent", "hosts", target.address)),
    )


def refused(target: Target, reason: str) -> TransportError:
    return TransportError(
        ErrorKind.REFUSED,
        f"{target.host}: no ssh server takes the connection at {target.where} ({reason})",
        "check address and port in the inventory, and on the host: systemctl status ssh sshd; ss -ltn",
    )


def hung_up(target: Target, reason: str) -> TransportError:
    """Return the error for a connection that was made and ended before the login."""
    return TransportError(
        ErrorKind.REFUSED,
        f"{target.host}: the server at {target.where} ended the connection before login ({reason})",
        "look into sshd's log on the host: MaxStartups reached, the address denied, or no common algorithm",
    )


def timed_out(target: Target, seconds: float, waiting_for: str) -> TransportError:
    return TransportError(
        ErrorKind.TIMEOUT,
        f"{target.host}: nothing after {seconds:.0f} s from {target.where} while waiting for {waiting_for}",
        f"see whether the host is up and its load bearable: {target.ssh('-v')} true",
    )


def abandoned(host: str, seconds: float, waiting_for: str) -> TransportError:
    """Return the error for a host that a fan-out abandons: its transport did not return before the outer deadline."""
    return TransportError(
        ErrorKind.TIMEOUT,
        f"{host}: given up after {seconds:.0f} s while waiting for {waiting_for}",
        "see whether the host is up and its load bearable, or leave it out with --limit",
    )


def key_unknown(
    target: Target, key_type: str, fingerprint: str, files: tuple[str, ...], note: str = ""
) -> TransportError:
    where = " or ".join(files) or "any known_hosts file"
    return TransportError(
        ErrorKind.HOST_KEY_UNKNOWN,
        f"{target.host}: the {key_type} host key of {target.where}, {fingerprint}, is not in {where}{note}",
        "compare it with the host's own (there: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub; likewise the other "
        "types), then run again with --accept-new",
    )


def key_accepted(target: Target, key_type: str, fingerprint: str, file: str = "") -> str:
    """Return the notice for a key that was accepted as new."""
    into = f", into {file}" if file else ""
    return f"{target.host}: accepted the new {key_type} host key of {target.where}, {fingerprint}{into}"


def key_changed(target: Target, key_type: str, fingerprint: str, recorded: str, at: str) -> TransportError:
    """Return the error for a changed key. `recorded` is the fingerprint on record, `at` its file:line."""
    file = at.rpartition(":")[0]
    return TransportError(
        ErrorKind.HOST_KEY_CHANGED,
        f"{target.host}: the host key of {target.where} has changed: it shows {key_type} {fingerprint}, "
        f"{at} holds {recorded}",
        "somebody may be listening in; if the host was reinstalled: "
        + shlex.join(("ssh-keygen", "-R", target.known_as, "-f", file)),
    )


def key_revoked(target: Target, fingerprint: str, at: str) -> TransportError:
    return TransportError(
        ErrorKind.HOST_KEY_CHANGED,
        f"{target.host}: the host key of {target.where}, {fingerprint}, is revoked at {at}",
        "give the host a new key (ssh-keygen -A after removing the old ones); do not connect to it before",
    )


def not_let_in(target: Target, reason: str, encrypted_key: str = "") -> TransportError:
    """Return the error for a failed login. `encrypted_key`: a key file without a known passphrase."""
    login = f"make this succeed without a password: {target.ssh('-o', 'BatchMode=yes')} true"
    return TransportError(
        ErrorKind.AUTHENTICATION,
        f"{target.host}: {target.where} does not let {target.user or 'the user'} in: {reason}",
        f"give it to the agent: {shlex.join(('ssh-add', encrypted_key))}" if encrypted_key else login,
    )


def no_python(target: Target, program: Program, stderr: bytes) -> TransportError:
    """Return the error for a missing Python. It names the inventory's keys only where the program uses them.

    Facts always run in the host's `python3`.
    """
    message = last_line(stderr)
    keys = [
        key for key, differs in (("python", program.python != Program.python), ("exec", program.wrapper)) if differs
    ]
    correct = f"correct {' and '.join(keys)} under [probe] in the inventory, or "
    return TransportError(
        ErrorKind.NO_PYTHON,
        f"{target.host}: {program.python} could not be started on the host" + (f" ({message})" if message else ""),
        f"{correct if keys else ''}install Python 3.6 or newer {'where jobs run' if keys else 'there, as python3'}",
    )


def _sudoers_line(target: Target, user: str) -> str:
    return f"by a line in /etc/sudoers.d on the host: {target.user or 'USER'} ALL=({user}) NOPASSWD: ALL"


def sudo_refused(target: Target, user: str, stderr: bytes) -> TransportError:
    """Return the error for `sudo -n` to `user`. Without a password sudo does not report the permissions of a user."""
    login_user = target.user or "the login user"
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo does not make {login_user} {user} without a password ({last_line(stderr)})",
        f"run again with --ask-sudo-password (-K), or allow it without one {_sudoers_line(target, user)}",
    )


def sudo_forbids(target: Target, user: str, stderr: bytes) -> TransportError:
    login_user = target.user or "the login user"
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo does not allow {login_user} to become {user} ({last_line(stderr)})",
        f"allow it {_sudoers_line(target, user)}",
    )


def sudo_wants_terminal(target: Target) -> TransportError:
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo does nothing without a terminal there (requiretty in its sudoers)",
        f"exempt the login user by a line in /etc/sudoers.d on the host: Defaults:{target.user or 'USER'} !requiretty",
    )


def sudo_missing(target: Target) -> TransportError:
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo is not installed there",
        'install it, or log in as root: user = "root" under [ssh] in the inventory',
    )


def sudo_password_refused(target: Target, stderr: bytes) -> TransportError:
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo refused the password ({last_line(stderr)})",
        f"run again with the password that {target.user or 'the login user'} has there; it was sent once, and to no "
        "further host",
    )


def sudo_wants_second_factor(target: Target, user: str) -> TransportError:
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo asks for more than a password, such as a second factor",
        f"allow it without {_sudoers_line(target, user)}",
    )


def sudo_password_not_sent(target: Target, refused_by: str) -> TransportError:
    where = "here before" if refused_by == target.host else f"on {refused_by}"
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo wants a password, and the one typed was refused {where}, so it was not sent",
        f"run again with the right password; if it is another one on {refused_by}, leave that out with --limit",
    )


def closed(target: Target, reason: str) -> TransportError:
    return TransportError(
        ErrorKind.CLOSED,
        f"{target.host}: the connection to {target.where} broke while the program ran ({reason})",
        "run again; if it happens again, look into the host's journal for a restart, a killed sshd or a full memory",
    )


def bastion_failed(target: Target, cause: TransportError) -> TransportError:
    return TransportError(
        ErrorKind.BASTION,
        f"{target.host}: not reached, because of {cause.summary}",
        cause.remedy,
    )


def bastion_forbids(target: Target, reason: str) -> TransportError:
    return TransportError(
        ErrorKind.BASTION,
        f"{target.host}: the bastion does not forward to {target.address}:{target.port} ({reason})",
        "allow it in the bastion's sshd_config: AllowTcpForwarding, PermitOpen",
    )


def proxy_command(target: Target) -> TransportError:
    return TransportError(
        ErrorKind.BASTION,
        f"{target.host}: ~/.ssh/config reaches {target.address} through a ProxyCommand, which only ssh itself can run",
        'set transport = "openssh" under [ssh] in the inventory, or name its bastion there: bastion = "HOST"',
    )


def too_many_bastions(target: Target, limit: int) -> TransportError:
    return TransportError(
        ErrorKind.BASTION,
        f"{target.host}: ~/.ssh/config sends the connection over more than {limit} bastions, or in a circle",
        f"look at ProxyJump in: ssh -G {shlex.quote(target.address)}",
    )
