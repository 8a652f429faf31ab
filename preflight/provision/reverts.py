"""Sentences about firewall changes that were not confirmed. Pure."""

import shlex

from preflight.model.change import Change, Kind

NO_PERSON = (
    "the firewall is not changed, since this machine cannot test new connections from outside. Run the command in a "
    'terminal and confirm there, or run it on another machine with ssh.transport = "openssh".'
)


def done(seconds: float, local: bool) -> str:
    """Return the sentence for a change that the host reverted and then found as before."""
    why = "not confirmed" if local else "no new connection succeeded"
    return f"{why} within {seconds:g} s, or the host restarted. The host undid the change and verified that."


def unknown(why: str, run: str) -> str:
    """Return the sentence for a change of which no answer came."""
    return f"unknown whether the change is active or undone: {why}. To find out: preflight rollback {run} --dry-run"


def not_reverted(change: Change, trying: bool, port: int | None) -> str:
    """Return the sentence for a change that the host has not reverted."""
    begin = (
        "not confirmed. The host is still trying to undo it"
        if trying
        else "not confirmed, and the host could not undo it. Its journal has the reason"
    )
    return f"{begin}. To allow ssh, run on its console: {opening(change, port or 22)}"


def opening(change: Change, port: int) -> str:
    """Return the command that lets ssh in, to be pasted on the host's console."""
    match change.kind:
        case Kind.NFT_RULES | Kind.NFT_INPUT:
            return f"nft insert rule {change.target} tcp dport {port} accept"
        case Kind.IPTABLES_RULES | Kind.IPTABLES_INPUT:
            return f"{change.target} -I INPUT -p tcp --dport {port} -j ACCEPT"
        case Kind.UFW_RULES | Kind.UFW_ENABLED:
            return f"ufw prepend allow {port}/tcp"
        case Kind.FIREWALLD_RULES:
            return f"firewall-cmd --zone={shlex.quote(change.target)} --add-port={port}/tcp"
        case _:
            return f"systemctl stop {shlex.quote(change.target)}"
