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
        f"{target.host}: {target.address} does not resolve ({reason})",
        "correct the host's address in the inventory, or add the name to DNS or /etc/hosts",
        (shlex.join(("getent", "hosts", target.address)),),
    )


def refused(target: Target, reason: str) -> TransportError:
    return TransportError(
        ErrorKind.REFUSED,
        f"{target.host}: ssh connection to {target.where} failed ({reason})",
        "check the address and port in the inventory. Then check on the host's console that sshd is running",
        ("systemctl status ssh sshd", "ss -ltn"),
    )


def hung_up(target: Target, reason: str) -> TransportError:
    """Return the error for a connection that was made and ended before the login."""
    return TransportError(
        ErrorKind.REFUSED,
        f"{target.host}: the ssh server at {target.where} closed the connection before login ({reason})",
        "read sshd's log on the host. Usual reasons: MaxStartups reached, address denied, or no common algorithm",
        ("journalctl -u ssh -u sshd -n 50",),
    )


def timed_out(target: Target, seconds: float, waiting_for: str) -> TransportError:
    return TransportError(
        ErrorKind.TIMEOUT,
        f"{target.host}: {target.where} timed out after {seconds:.0f} s (waiting for {waiting_for})",
        "check that the host is up and not overloaded",
        (f"{target.ssh('-v')} true",),
    )


def abandoned(host: str, seconds: float, waiting_for: str) -> TransportError:
    """Return the error for a host that a fan-out abandons: its transport did not return before the outer deadline."""
    return TransportError(
        ErrorKind.TIMEOUT,
        f"{host}: timed out after {seconds:.0f} s (waiting for {waiting_for})",
        "check that the host is up and not overloaded, or exclude the host with --limit",
    )


def budget_ended(host: str, waiting_for: str) -> TransportError:
    """Return the error for a host without a result when the time of the whole run ends; "": it was not contacted."""
    state = f"preflight still waited for {waiting_for}" if waiting_for else "the host was not contacted"
    return TransportError(
        ErrorKind.BUDGET,
        f"{host}: {state} when the time budget ended",
        "allow more time with --budget, or check fewer hosts with --limit",
    )


def key_unknown(
    target: Target, key_type: str, fingerprint: str, files: tuple[str, ...], note: str = ""
) -> TransportError:
    where = " or ".join(files) or "any known_hosts file"
    kind = next((kind for kind in ("rsa", "ecdsa") if kind in key_type), "ed25519")
    return TransportError(
        ErrorKind.HOST_KEY_UNKNOWN,
        f"{target.host}: the {key_type} host key of {target.where}, {fingerprint}, is not in {where}{note}",
        "compare this fingerprint with the one on the host's console. If they match, run again with --accept-new",
        (f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub",),
    )


def key_accepted(target: Target, key_type: str, fingerprint: str, file: str = "") -> str:
    """Return the notice for a key that was accepted as new."""
    saved = f", saved in {file}" if file else ""
    return f"{target.host}: accepted the new {key_type} host key of {target.where}, {fingerprint}{saved}"


def key_changed(target: Target, key_type: str, fingerprint: str, recorded: str, at: str) -> TransportError:
    """Return the error for a changed key. `recorded` is the fingerprint on record, `at` its file:line."""
    file = at.rpartition(":")[0]
    return TransportError(
        ErrorKind.HOST_KEY_CHANGED,
        f"{target.host}: the host key of {target.where} has changed: {at} has {recorded}, but the host "
        f"shows {key_type} {fingerprint}",
        "remove the old key if the host was reinstalled. Otherwise another machine may have taken its address",
        (shlex.join(("ssh-keygen", "-R", target.known_as, "-f", file)),),
    )


def key_revoked(target: Target, fingerprint: str, at: str) -> TransportError:
    return TransportError(
        ErrorKind.HOST_KEY_CHANGED,
        f"{target.host}: the host key of {target.where}, {fingerprint}, is revoked in {at}",
        "do not connect. Delete the old host keys on the host's console, then create new ones",
        ("ssh-keygen -A",),
    )


def not_let_in(target: Target, reason: str, encrypted_key: str = "") -> TransportError:
    """Return the error for a failed login. `encrypted_key`: a key file without a known passphrase."""
    if encrypted_key:
        remedy, command = "add the key to the ssh agent", shlex.join(("ssh-add", encrypted_key))
    else:
        remedy, command = "make this login work without a password", f"{target.ssh('-o', 'BatchMode=yes')} true"
    login = f"login as {target.user}" if target.user else "login"
    return TransportError(
        ErrorKind.AUTHENTICATION, f"{target.host}: {login} to {target.where} failed: {reason}", remedy, (command,)
    )


def no_python(target: Target, program: Program, stderr: bytes) -> TransportError:
    """Return the error for a missing Python. It names the inventory's keys only where the program uses them.

    Facts always run in the host's `python3`.
    """
    message = last_line(stderr)
    keys = [
        key for key, differs in (("python", program.python != Program.python), ("exec", program.wrapper)) if differs
    ]
    correct = f"correct {' or '.join(keys)} under [probe] in the inventory, or install Python 3.6 or newer for the jobs"
    return TransportError(
        ErrorKind.NO_PYTHON,
        f"{target.host}: {program.python} could not be started on the host" + (f" ({message})" if message else ""),
        correct if keys else "install Python 3.6 or newer on the host, as python3",
    )


def _allow(target: Target, user: str) -> str:
    """Return the command, for root on the host, that allows sudo to `user` without a password."""
    return _add_to_sudoers(f"{target.user or 'USER'} ALL=({user}) NOPASSWD: ALL")


def _add_to_sudoers(line: str) -> str:
    return f"echo {shlex.quote(line)} >>/etc/sudoers.d/preflight"


def sudo_refused(target: Target, user: str, stderr: bytes) -> TransportError:
    """Return the error for `sudo -n` to `user`. Without a password sudo does not report the permissions of a user."""
    login_user = target.user or "the login user"
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo from {login_user} to {user} failed without a password ({last_line(stderr)})",
        "run the same command again with -K, which asks for the sudo password. Or allow sudo without a password, as "
        "root on the host",
        (_allow(target, user),),
    )


def sudo_forbids(target: Target, user: str, stderr: bytes) -> TransportError:
    login_user = target.user or "the login user"
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo does not allow {login_user} to become {user} ({last_line(stderr)})",
        "allow this in sudoers, as root on the host",
        (_allow(target, user),),
    )


def sudo_wants_terminal(target: Target) -> TransportError:
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo requires a terminal (requiretty in sudoers)",
        "exempt the login user from requiretty, as root on the host",
        (_add_to_sudoers(f"Defaults:{target.user or 'USER'} !requiretty"),),
    )


def sudo_missing(target: Target) -> TransportError:
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo is not installed",
        'install sudo, or log in as root (user = "root" under [ssh] in the inventory)',
    )


def sudo_password_refused(target: Target, stderr: bytes) -> TransportError:
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo refused the password ({last_line(stderr)})",
        f"run again with the password of {target.user or 'the login user'} on this host. "
        "The refused password was sent once, and to no other host",
    )


def sudo_wants_second_factor(target: Target, user: str) -> TransportError:
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo asks for more than a password, such as a second factor",
        "allow sudo without a password, as root on the host",
        (_allow(target, user),),
    )


def sudo_password_not_sent(target: Target, refused_by: str) -> TransportError:
    where = "before" if refused_by == target.host else f"on {refused_by}"
    return TransportError(
        ErrorKind.SUDO,
        f"{target.host}: sudo needs a password. The given password was refused {where}, so it was not sent",
        f"run again with the right password. If {refused_by} has a different password, exclude that host with --limit",
    )


def closed(target: Target, reason: str) -> TransportError:
    return TransportError(
        ErrorKind.CLOSED,
        f"{target.host}: the connection to {target.where} was lost while the program ran ({reason})",
        "run again. If the connection is lost again, search the host's journal for a restart, a killed sshd or an "
        "out-of-memory kill",
    )


def bastion_failed(target: Target, cause: TransportError) -> TransportError:
    return TransportError(
        ErrorKind.BASTION, f"{target.host}: not reachable: {cause.summary}", cause.remedy, cause.commands
    )


def bastion_forbids(target: Target, reason: str) -> TransportError:
    return TransportError(
        ErrorKind.BASTION,
        f"{target.host}: the bastion refuses to forward to {target.address}:{target.port} ({reason})",
        "allow forwarding in the bastion's sshd_config (AllowTcpForwarding, PermitOpen)",
    )


def proxy_command(target: Target) -> TransportError:
    return TransportError(
        ErrorKind.BASTION,
        f'{target.host}: ~/.ssh/config uses a ProxyCommand for {target.address}, which needs transport = "openssh"',
        'set transport = "openssh" under [ssh] in the inventory, or name the bastion there (bastion = "HOST")',
    )


def too_many_bastions(target: Target, limit: int) -> TransportError:
    return TransportError(
        ErrorKind.BASTION,
        f"{target.host}: ~/.ssh/config connects through more than {limit} bastions, or in a loop",
        "correct ProxyJump in ~/.ssh/config",
        (f"ssh -G {shlex.quote(target.address)}",),
    )
