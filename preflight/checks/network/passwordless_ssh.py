"""Checks of ssh between hosts without a password, and of what prevents it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.checks.engine.registry import All, cluster_check
from preflight.facts.sections.neighbours import Entry, Neighbours, Visit
from preflight.model.finding import Finding

_SHOWN = 4  # tries that are told as evidence
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
    visit: Visit

    @property
    def target(self) -> str:
        return self.visit.host


@cluster_check("HST123", "Hosts get into each other over ssh without a password")
def between_hosts(all_: All, neighbours: Mapping[str, Neighbours]) -> Iterator[Finding]:
    """Why: mpirun, perseusrun, horovodrun and DeepSpeed start the other hosts' processes over ssh, mpirun from host to
    host in a tree. A question for a password or about a host key has nobody to answer it: the launcher stands still,
    or says nothing but that a daemon was lost. Each host tries the next, the previous and the first of the inventory,
    by its address and ssh port there, as the jobs' user, with the keys and the known hosts that it has; none are added.

    By hand: ssh -o BatchMode=yes -o StrictHostKeyChecking=yes OTHER-HOST true; echo $?   (on each host)

    Mend: one key pair of the jobs' user and its authorized_keys on all hosts, and one /etc/ssh/ssh_known_hosts
    """
    tries = [_Try(host, visit) for host, seen in neighbours.items() for visit in seen.visits]
    failed = [one for one in tries if one.visit.entry is not Entry.IN]
    if len(failed) == len(tries) > 1 and len({one.visit.entry for one in failed}) == 1:
        yield _told(all_, failed, None, "no host gets into another one")
        return
    told: set[_Try] = set()
    for group, target in _alike(tries, failed, lambda one: one.target):
        yield _told(all_, group, target, f"{target}: no other host gets in")
        told.update(group)
    failed = [one for one in failed if one not in told]
    for group, source in _alike(tries, failed, lambda one: one.source):
        yield _told(all_, group, source, f"{source}: gets into no other host")
        told.update(group)
    for one in (one for one in failed if one not in told):
        yield _told(all_, [one], one.source, f"{one.source}: does not get into {one.target}")


def _alike(
    tries: Sequence[_Try], failed: Sequence[_Try], whose: Callable[[_Try], str]
) -> Iterator[tuple[list[_Try], str]]:
    """Whose tries all failed, two or more of them, and in the same way."""
    bad = set(failed)
    groups: dict[str, list[_Try]] = defaultdict(list)
    for one in tries:
        groups[whose(one)].append(one)
    for name, group in groups.items():
        if len(group) > 1 and bad.issuperset(group) and len({one.visit.entry for one in group}) == 1:
            yield group, name


def _told(all_: All, group: Sequence[_Try], host: str | None, what: str) -> Finding:
    first = group[0]
    entry, several = first.visit.entry, len(group) > 1
    source = "each host" if several and len({one.source for one in group}) > 1 else first.source
    target = "each host" if several and len({one.target for one in group}) > 1 else first.target
    place = "HOST" if target == "each host" else first.visit.place
    port = f"-p {first.visit.port} " if first.visit.port else ""
    key = f"'[{place}]:{first.visit.port}'" if port else place
    return all_.bad(
        f"{what} over ssh: {entry}",
        host=host,
        peer=None if several else first.target,
        remedy=_REMEDY.get(entry, "").format(source=source, target=target, place=place, port=port, key=key),
        evidence=tuple(f"{one.source}: ssh {port}{one.visit.place} true: {one.visit.said}" for one in group[:_SHOWN]),
    )
