"""A command for a host, as a person types it on this machine."""

import re
import shlex

from preflight.model.cluster import Host

_PLAIN = re.compile(r"[\w./:=,@%+ -]+")  # the same in every shell, without quotes


def on_host(host: Host, command: str) -> str:
    """Return `ssh node02 dmesg`, with the user, port and sudo of the inventory. A local host needs no ssh."""
    if host.ssh.sudo:
        command = f"sudo {command}"
    if host.ssh.transport == "local":
        return command
    port = f"-p {host.ssh.port} " if host.ssh.port not in (None, 22) else ""
    target = f"{host.ssh.user}@{host.address}" if host.ssh.user else host.address
    return f"ssh {port}{target} {command if _PLAIN.fullmatch(command) else shlex.quote(command)}"
