"""Checks of ssh between hosts without a password, and of its obstacles."""

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from preflight.checks.engine.registry import All, cluster_check
from preflight.facts.sections.neighbours import Entry, Neighbours, SshVisit
from preflight.model.finding import Finding

_EACH = "each host"
_SHOWN = 4  # attempts that a finding lists as evidence
_REMEDY = {
    Entry.UNKNOWN_KEY: "verify the host key fingerprint of {target}, then add the host key to known_hosts on {source}",
    Entry.CHANGED_KEY: "find out why the host key of {target} changed, then replace it in known_hosts on {source}",
    Entry.DENIED: "append ~/.ssh/id_*.pub of {source} to ~/.ssh/authorized_keys on {target} (mode 600, ~/.ssh 700)",
    Entry.NO_NAME: "add the name to /etc/hosts on {source} or to DNS, or use an IP address in the inventory",
    Entry.REFUSED: "start sshd on {target}, or set its ssh port in ~/.ssh/config on {source}",
    Entry.NO_ANSWER: "check whether a firewall blocks ssh to {target}",
    Entry.NO_WAY: "correct the routes on {source}",
    Entry.DROPPED: "check MaxStartups in /etc/ssh/sshd_config, fail2ban and hosts.deny on {target}",
    Entry.NO_SHELL: "check the login shell and its startup files on {target}",
}


@dataclass(frozen=True)
class _Attempt:
    """An attempt of one host to get into another."""

    source: str
    visit: SshVisit

    @property
    def target(self) -> str:
        return self.visit.host


@cluster_check("HST123", "Passwordless ssh between hosts", blocks=False)
def between_hosts(scribe: All, neighbours: Mapping[str, Neighbours]) -> Iterator[Finding]:
    """Why: The launchers mpirun, perseusrun, horovodrun and DeepSpeed start the processes on other hosts over ssh. With
    mpirun, hosts log in to each other in a tree. A prompt for a password or a host key stays unanswered. The launcher
    then hangs, or reports only that a daemon was lost.

    Result: FAIL if a login fails. Each host tries to log in to the next, the previous and the first host in the
    inventory. The logins use the addresses and ssh ports in the inventory, and the keys and known hosts of the jobs'
    user. No keys are added.

    Check manually: Run this on each host. Replace ADDRESS with another host's address.
      ssh -o BatchMode=yes -o StrictHostKeyChecking=yes ADDRESS true; echo $?

    Fix: Give the jobs' user the same key pair and authorized_keys on all hosts. Use the same /etc/ssh/ssh_known_hosts
    on all hosts.
    """
    attempts = [
        _Attempt(host, visit) for host, neighbours_of_host in neighbours.items() for visit in neighbours_of_host.visits
    ]
    if _failed_alike(attempts):
        yield _failure(scribe, attempts, None, "no host can log in to another")
        return
    reported: set[_Attempt] = set()
    for target, group in _failed_groups(attempts, reported, lambda attempt: attempt.target):
        yield _failure(scribe, group, target, f"{target}: no other host can log in")
    for source, group in _failed_groups(attempts, reported, lambda attempt: attempt.source):
        yield _failure(scribe, group, source, f"{source}: cannot log in to any other host")
    for attempt in attempts:
        if attempt.visit.entry is not Entry.IN and attempt not in reported:
            yield _failure(scribe, [attempt], attempt.source, f"{attempt.source}: cannot log in to {attempt.target}")


def _failed_alike(attempts: Sequence[_Attempt]) -> bool:
    """Return whether there are two or more attempts, all of which failed in the same way."""
    entries = {attempt.visit.entry for attempt in attempts}
    return len(attempts) > 1 and len(entries) == 1 and Entry.IN not in entries


def _failed_groups(
    attempts: Sequence[_Attempt], reported: set[_Attempt], key: Callable[[_Attempt], str]
) -> Iterator[tuple[str, list[_Attempt]]]:
    """Yield the groups of attempts that all failed in the same way, by host, and add them to those reported."""
    groups: dict[str, list[_Attempt]] = defaultdict(list)
    for attempt in attempts:
        groups[key(attempt)].append(attempt)
    for host, group in groups.items():
        if _failed_alike(group) and reported.isdisjoint(group):
            yield host, group
            reported.update(group)


def _failure(scribe: All, group: Sequence[_Attempt], host: str | None, summary: str) -> Finding:
    first = group[0]
    remedy = _REMEDY.get(first.visit.entry, "")
    commands = chain.from_iterable(_commands(scribe, attempt) for attempt in group[:_SHOWN])
    return scribe.bad(
        f"{summary} over ssh: {first.visit.entry}",
        host=host,
        peer=None if len(group) > 1 else first.target,
        remedy=remedy.format(
            source=_name({attempt.source for attempt in group}), target=_name({attempt.target for attempt in group})
        ),
        commands=tuple(dict.fromkeys(commands)),
        evidence=tuple(
            f"{attempt.source}: ssh {_port(attempt.visit)}{attempt.visit.place} true: {attempt.visit.said}"
            for attempt in group[:_SHOWN]
        ),
    )


def _commands(scribe: All, attempt: _Attempt) -> Iterator[str]:
    """Yield what to type for the remedy, if it is a command.

    The jobs' user types the commands about known hosts on the source host, since the file is that user's."""
    visit, place = attempt.visit, shlex.quote(attempt.visit.place)
    match visit.entry:
        case Entry.UNKNOWN_KEY:
            yield f"ssh-keyscan {_port(visit)}{place} >> ~/.ssh/known_hosts"
        case Entry.CHANGED_KEY:
            known_name = shlex.quote(f"[{visit.place}]:{visit.port}") if visit.port else place
            yield f"ssh-keygen -R {known_name}"
            yield f"ssh-keyscan {_port(visit)}{place} >> ~/.ssh/known_hosts"
        case Entry.REFUSED if attempt.target in scribe.cluster.by_name:
            yield scribe.on(attempt.target, "systemctl enable --now sshd")
        case Entry.NO_ANSWER:
            yield "preflight check --only firewall"
        case Entry.NO_WAY:
            yield scribe.on(attempt.source, f"ip route get {place}")


def _port(visit: SshVisit) -> str:
    return f"-p {visit.port} " if visit.port else ""


def _name(hosts: set[str]) -> str:
    return hosts.pop() if len(hosts) == 1 else _EACH
