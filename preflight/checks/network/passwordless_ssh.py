"""Checks of ssh between hosts without a password, and of its obstacles."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.checks.engine.registry import All, cluster_check
from preflight.facts.sections.neighbours import Entry, Neighbours, SshVisit
from preflight.model.finding import Finding

_EACH = "each host"
_SHOWN = 4  # attempts that a finding lists as evidence
_REMEDY = {
    Entry.UNKNOWN_KEY: "compare fingerprints, then ssh-keyscan {port}{place} >> ~/.ssh/known_hosts on {source}, or one "
    "/etc/ssh/ssh_known_hosts for all",
    Entry.CHANGED_KEY: "find out why it changed, then on {source}: ssh-keygen -R {key}, and add the new one",
    Entry.DENIED: "append {source}'s ~/.ssh/id_*.pub to ~/.ssh/authorized_keys on {target} (modes 700 and 600)",
    Entry.NO_NAME: "names in /etc/hosts or DNS of {source}, or an address in the inventory",
    Entry.REFUSED: "systemctl enable --now sshd on {target}; on another port: Port in ~/.ssh/config of {source}",
    Entry.NO_ANSWER: "is a firewall in between? preflight check --only firewall",
    Entry.NO_WAY: "ip route get {place} on {source}",
    Entry.DROPPED: "MaxStartups in /etc/ssh/sshd_config on {target}; fail2ban and hosts.deny there",
    Entry.NO_SHELL: "the login shell and its start files on {target}",
}


@dataclass(frozen=True)
class _Attempt:
    """An attempt of one host to get into another."""

    source: str
    visit: SshVisit

    @property
    def target(self) -> str:
        return self.visit.host


@cluster_check("HST123", "Passwordless ssh between hosts")
def between_hosts(scribe: All, neighbours: Mapping[str, Neighbours]) -> Iterator[Finding]:
    """Why: The launchers mpirun, perseusrun, horovodrun and DeepSpeed start the other hosts' processes over ssh. With
    mpirun, hosts log in to each other in a tree. A prompt for a password or a host key gets no answer. The launcher
    then hangs, or reports only that a daemon was lost.

    Result: FAIL if a login fails. Each host tries the next, the previous and the first host of the inventory. The
    logins use the inventory's addresses and ssh ports, and the jobs' user with its keys and known hosts. No keys are
    added.

    Check manually: Run this on each host. Replace ADDRESS with another host's address.
      ssh -o BatchMode=yes -o StrictHostKeyChecking=yes ADDRESS true; echo $?

    Fix: Use one key pair of the jobs' user and its authorized_keys on all hosts, and one /etc/ssh/ssh_known_hosts.
    """
    attempts = [
        _Attempt(host, visit) for host, neighbours_of_host in neighbours.items() for visit in neighbours_of_host.visits
    ]
    if _failed_alike(attempts):
        yield _failure(scribe, attempts, None, "no host gets into another one")
        return
    reported: set[_Attempt] = set()
    for target, group in _failed_groups(attempts, reported, lambda attempt: attempt.target):
        yield _failure(scribe, group, target, f"{target}: no other host gets in")
    for source, group in _failed_groups(attempts, reported, lambda attempt: attempt.source):
        yield _failure(scribe, group, source, f"{source}: gets into no other host")
    for attempt in attempts:
        if attempt.visit.entry is not Entry.IN and attempt not in reported:
            yield _failure(scribe, [attempt], attempt.source, f"{attempt.source}: does not get into {attempt.target}")


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
    source = _name({attempt.source for attempt in group})
    target = _name({attempt.target for attempt in group})
    place = "HOST" if target == _EACH else first.visit.place
    port = f"-p {first.visit.port} " if first.visit.port else ""
    key = f"'[{place}]:{first.visit.port}'" if port else place
    remedy = _REMEDY.get(first.visit.entry, "")
    return scribe.bad(
        f"{summary} over ssh: {first.visit.entry}",
        host=host,
        peer=None if len(group) > 1 else first.target,
        remedy=remedy.format(source=source, target=target, place=place, port=port, key=key),
        evidence=tuple(
            f"{attempt.source}: ssh {port}{attempt.visit.place} true: {attempt.visit.said}"
            for attempt in group[:_SHOWN]
        ),
    )


def _name(hosts: set[str]) -> str:
    return hosts.pop() if len(hosts) == 1 else _EACH
