"""What the probe leaves out because findings have already shown that it is faulty. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from preflight.checks.engine.registry import Check
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

Ids = tuple[str, ...]  # of checks


@dataclass(frozen=True)
class BlockedPlaces:
    """Hosts and devices (host, index) that the probe leaves out, each with the checks that failed.

    `cluster`: checks whose failure is about no single host or device. The probe then has to wait.
    """

    hosts: Mapping[str, Ids]
    devices: Mapping[tuple[str, int], Ids]
    cluster: Ids = ()

    @property
    def checks(self) -> Ids:
        return tuple(sorted({*self.cluster, *sum(self.hosts.values(), ()), *sum(self.devices.values(), ())}))


def blocked(findings: Iterable[Finding], checks: Mapping[str, Check]) -> BlockedPlaces:
    """Return what the failing findings are about, except those of checks whose failure does not affect the probe."""
    hosts: dict[str, set[str]] = defaultdict(set)
    devices: dict[tuple[str, int], set[str]] = defaultdict(set)
    cluster: set[str] = set()
    for finding in _blocking(findings, checks):
        places = _places(finding)
        if not places and not _pairs_show_more(finding, checks[finding.check]):
            cluster.add(finding.check)
        for host, device in places:
            if device is None:
                hosts[host].add(finding.check)
            else:
                devices[host, device].add(finding.check)
    return BlockedPlaces(
        {host: tuple(sorted(ids)) for host, ids in hosts.items()},
        {place: tuple(sorted(ids)) for place, ids in devices.items() if place[0] not in hosts},
        tuple(sorted(cluster)),
    )


def _blocking(findings: Iterable[Finding], checks: Mapping[str, Check]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.outcome is Outcome.FAIL and checks[finding.check].blocks)


def _pairs_show_more(finding: Finding, check: Check) -> bool:
    """Return whether pings were lost without an object at fault, as between two leaf switches."""
    return finding.culprit is None and "pings" in check.needs


def _places(finding: Finding) -> list[tuple[str, int | None]]:
    """Return the hosts and devices of a finding: the members of its culprit, or else its own.

    A device as its peer is left out, too. If two devices have one address, neither can be tested.
    """
    if finding.culprit:
        return [_place(member) for member in finding.culprit.members]
    peers = [finding.peer] if finding.peer and "/" in finding.peer else []
    return [(finding.host, finding.device), *map(_place, peers)] if finding.host else []


def _place(name: str) -> tuple[str, int | None]:
    host, _, device = name.partition("/")
    return host, int(device) if device.isdecimal() else None
