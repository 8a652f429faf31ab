"""Command line of the system's ssh for one host. Pure."""

import math
import shlex
from pathlib import Path

from preflight.model.cluster import Bastion, Host, Ssh
from preflight.transport.types import Options


def ssh_argv(host: Host, options: Options, *, log: Path, bastion_log: Path, command: str) -> list[str]:
    """Return the command of an ssh that never prompts, trusts no unknown key, and writes its messages to `log`.

    Settings that the inventory lacks come from ssh's configuration files.
    """
    argv = ["ssh", "-T", *_options(host.ssh, options, log), *_login(host.ssh.user, host.ssh.port)]
    if host.ssh.bastion:
        argv += ["-o", f"ProxyCommand={_proxy_command(host.ssh, host.ssh.bastion, options, bastion_log)}"]
    return [*argv, "--", host.address, command]


def _proxy_command(ssh: Ssh, bastion: Bastion, options: Options, log: Path) -> str:
    """Return a second ssh that forwards to the host. `-J` would not apply the host-key policy to the bastion."""
    argv = ["ssh", *_options(ssh, options, log), *_login(bastion.user, bastion.port)]
    words = [_literal(word) for word in (*argv, "-W")]
    return f"{shlex.join(words)} [%h]:%p -- {shlex.quote(_literal(bastion.host))}"


def _options(ssh: Ssh, options: Options, log: Path) -> list[str]:
    settings = [
        "BatchMode=yes",
        f"StrictHostKeyChecking={'accept-new' if options.accept_new else 'yes'}",
        "UpdateHostKeys=no",  # it would record keys that only the server vouches for
        f"ConnectTimeout={max(1, math.ceil(options.connect_timeout))}",
        "ConnectionAttempts=1",
        "ControlMaster=no",  # a master that stays behind keeps our pipes open
        "ControlPath=none",  # every connection is a new one: only then does it confirm a change of the firewall
        "ClearAllForwardings=yes",
        "LogLevel=DEBUG1",  # logs the login and the host's key
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
    """Escape %: ssh expands %h and the like in paths and in ProxyCommand."""
    return text.replace("%", "%%")
