"""Checks of ssh between hosts without a password, and of its obstacles."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.checks.engine.registry import All, cluster_check
from preflight.facts.sections.neighbours import Entry, Neighbours, SshVisit
from preflight.model.finding import Finding

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
class _Try:
    source: str
    visit: SshVisit

    @property
    def target(self) -> str:
        return self.visit.host


@cluster_check("HST123", "Hosts get into each other over ssh without a password")
def between_hosts(all_: All, neighbours: Mapping[str, Neighbours]) -> Iterator[Finding]:
    """Why: mpirun, perseusrun, horovodrun and DeepSpeed start the other hosts' processes over ssh, mpirun from host to
    host in a tree. A question for a password or about a host key has nobody to answer it: the launcher stands still,
    or says nothing but that a daemon was lost. Each host tries the next, the previous and the first of the inventory,
    by its address and ssh port there, as the jobs' user, with the keys and the known hosts that it has; none are added.

    Check manually: ssh -o BatchMode=yes -o StrictHostKeyChecking=yes OTHER-HOST true; echo $?   (on each host)

    Fix: one key pair of the jobs' user and its authorized_keys on all hosts, and one /etc/ssh/ssh_known_hosts
    """
    tries = [
        _Try(host, visit) for host, neighbours_of_host in neighbours.items() for visit in neighbours_of_host.visits
    ]
    failed = [attempt for attempt in tries if attempt.visit.entry is not Entry.IN]
    if len(failed) == len(tries) > 1 and len({attempt.visit.entry for attempt in failed}) == 1:
        yield _told(all_, failed, None, "no host gets into another one")
        return
    reported: set[_Try] = set()
    for group, target in _alike(tries, failed, lambda attempt: attempt.target):
        yield _told(all_, group, target, f"{target}: no other host gets in")
        reported.update(group)
    failed = [attempt for attempt in failed if attempt not in reported]
    for group, source in _alike(tries, failed, lambda attempt: attempt.source):
        yield _told(all_, group, source, f"{source}: gets into no other host")
        reported.update(group)
    for attempt in (attempt for attempt in failed if attempt not in reported):
        yield _told(all_, [attempt], attempt.source, f"{attempt.source}: does not get into {attempt.target}")


def _alike(
    tries: Sequence[_Try], failed: Sequence[_Try], whose: Callable[[_Try], str]
) -> Iterator[tuple[list[_Try], str]]:
    """Yield the groups of two or more attempts that all failed in the same way."""
    bad = set(failed)
    groups: dict[str, list[_Try]] = defaultdict(list)
    for attempt in tries:
        groups[whose(attempt)].append(attempt)
    for name, group in groups.items():
        if len(group) > 1 and bad.issuperset(group) and len({attempt.visit.entry for attempt in group}) == 1:
            yield group, name


def _told(all_: All, group: Sequence[_Try], host: str | None, what: str) -> Finding:
    first = group[0]
    entry, several = first.visit.entry, len(group) > 1
    source = "each host" if several and len({attempt.source for attempt in group}) > 1 else first.source
    target = "each host" if several and len({attempt.target for attempt in group}) > 1 else first.target
    place = "HOST" if target == "each host" else first.visit.place
    port = f"-p {first.visit.port} " if first.visit.port else ""
    key = f"'[{place}]:{first.visit.port}'" if port else place
    return all_.bad(
        f"{what} over ssh: {entry}",
        host=host,
        peer=None if several else first.target,
        remedy=_REMEDY.get(entry, "").format(source=source, target=target, place=place, port=port, key=key),
        evidence=tuple(
            f"{attempt.source}: ssh {port}{attempt.visit.place} true: {attempt.visit.said}"
            for attempt in group[:_SHOWN]
        ),
    )
