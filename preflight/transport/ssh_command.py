"""The command line of the system's ssh for one host. Pure."""

import math
import shlex
from pathlib import Path

from preflight.model.cluster import Host, Ssh
from preflight.transport.types import Options


def ssh_argv(host: Host, options: Options, *, log: Path, bastion_log: Path, command: str) -> list[str]:
    """ssh that asks nobody, trusts no unknown key, and writes what it has to say into `log` instead of stderr.

    What the inventory leaves open is left to ssh and its configuration files.
    """
    argv = ["ssh", "-T", *_options(host.ssh, options, log), *_login(host.ssh.user, host.ssh.port)]
    if host.ssh.bastion:
        argv += ["-o", f"ProxyCommand={_proxy_command(host.ssh, options, bastion_log)}"]
    return [*argv, "--", host.address, command]


def _proxy_command(ssh: Ssh, options: Options, log: Path) -> str:
    """A second ssh that forwards to the host. Not `-J`: that would not hand the host-key policy on to the bastion."""
    bastion = ssh.bastion
    assert bastion  # noqa: S101  (for the type checker: the caller has looked)
    argv = ["ssh", *_options(ssh, options, log), *_login(bastion.user, bastion.port)]
    words = [_literal(word) for word in (*argv, "-W")]
    return f"{shlex.join(words)} [%h]:%p -- {shlex.quote(_literal(bastion.host))}"


def _options(ssh: Ssh, options: Options, log: Path) -> list[str]:
    settings = [
        "BatchMode=yes",
        f"StrictHostKeyChecking={'accept-new' if options.accept_new else 'yes'}",
        "UpdateHostKeys=no",  # writes to known_hosts on the server's word alone
        f"ConnectTimeout={max(1, math.ceil(options.connect_timeout))}",
        "ConnectionAttempts=1",
        "ControlMaster=no",  # a master that stays behind keeps our pipes open
        "ControlPath=none",  # every connection is a new one: only then does it confirm a change of the firewall
        "ClearAllForwardings=yes",
        "LogLevel=DEBUG1",  # says when the login is done, and which key the host showed
    ]
    if ssh.known_hosts:
        settings += [f'UserKnownHostsFile="{_literal(ssh.known_hosts)}"', "GlobalKnownHostsFile=/dev/null"]
    argv = [word for setting in settings for word in ("-o", setting)]
    if ssh.key:
        argv += ["-i", _literal(ssh.key)]
    return [*argv, "-E", str(log)]


def _login(user: str | None, port: int | None) -> list[str]:
    return [*(("-l", user) if user else ()), *(("-p", str(port)) if port else ())]


def _literal(text: str) -> str:
    """ssh reads %h and the like in paths and in ProxyCommand."""
    return text.replace("%", "%%")
