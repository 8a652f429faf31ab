"""Verdicts of rails combined: device, host, rail, link, partition, scale or system. Pure.

Each rail has its own localiser over the hosts. With the same seed, their first rounds are the same. A fault on all
rails is the host's, a fault on one rail is its device's. `merge` works with one rail (gloo), too.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from preflight.attribution.localiser.types import Group, GroupOutcome, Test, Tests, Verdict

SLOW = 0.8  # of the median


@dataclass(frozen=True)
class Rail:
    """A rail's hosts, its localiser's verdict, and the outcomes of its tests, as far as they are known."""

    hosts: Collection[str]
    verdict: Verdict
    outcomes: Mapping[Test, GroupOutcome] = field(default_factory=dict)

    def usual_failure(self, tests: Tests) -> GroupOutcome | None:
        """Return the most frequent outcome of the tests, where a hang counts as a failure."""
        outcomes = (self.outcomes[test] for test in tests if test in self.outcomes)
        counts = Counter(GroupOutcome.FAIL if outcome is GroupOutcome.HANG else outcome for outcome in outcomes)
        return counts.most_common(1)[0][0] if counts else None


@dataclass(frozen=True)
class LocatedFault:
    """A fault and its members: hosts, or devices as "node01/3".

    `kind` as in `model.measure.Culprit`, or `intermittent host`, `intermittent device`; `tests` by rail.
    """

    kind: str
    members: tuple[str, ...]
    tests: Mapping[int, Tests]


@dataclass(frozen=True)
class Transfer:
    """Bandwidth from one host to another on one rail, in GB/s."""

    sender: str
    receiver: str
    gbps: float


_ByGroup = dict[Group, dict[int, Tests]]  # the tests by rail


def merge(rails: Mapping[int, Rail]) -> list[LocatedFault]:
    """Return the faults, the largest object first, or nothing where every rail passed."""
    dead = {index: _all_tests(rail.verdict) for index, rail in sorted(rails.items()) if rail.verdict.systemic}
    if dead and len(dead) == len(rails):
        return [LocatedFault("system", (), dead)]
    faults = [
        LocatedFault("rail", _devices(rails[index].hosts, index), {index: tests}) for index, tests in dead.items()
    ]
    alive = {index: rail for index, rail in sorted(rails.items()) if index not in dead}
    for whole, single, groups in _KINDS:
        faults += _faults(_by_group(alive, groups), alive, whole, single)
    return faults


def slow_direction(host: str, transfers: Iterable[Transfer], *, suspects: Collection[str] = ()) -> str:
    """Return `sends`, `receives` or `both`, or nothing where neither is slow or too little is known.

    The host's transfers are compared with those between other hosts. Transfers with other suspects do not count.
    """
    transfers = [t for t in transfers if not {t.sender, t.receiver} & set(suspects) - {host}]
    elsewhere = [t.gbps for t in transfers if host not in (t.sender, t.receiver)]
    sent = [t.gbps for t in transfers if t.sender == host]
    received = [t.gbps for t in transfers if t.receiver == host]
    return _direction(sent, received, elsewhere)


def slow_link_direction(link: tuple[str, str], transfers: Iterable[Transfer]) -> str:
    """Return the slow direction of a pair, seen from its first host, like `slow_direction`."""
    transfers = list(transfers)
    sent = [t.gbps for t in transfers if (t.sender, t.receiver) == link]
    received = [t.gbps for t in transfers if (t.receiver, t.sender) == link]
    elsewhere = [t.gbps for t in transfers if {t.sender, t.receiver} != set(link)]
    return _direction(sent, received, elsewhere)


def _all_tests(verdict: Verdict) -> Tests:
    return tuple(dict.fromkeys(test for tests in verdict.unknown.values() for test in tests))


def _devices(hosts: Iterable[str], index: int) -> tuple[str, ...]:
    return tuple(f"{host}/{index}" for host in sorted(hosts))


def _single(members: Mapping[str, Tests]) -> dict[Group, Tests]:
    return {frozenset({member}): tests for member, tests in members.items()}


_Groups = Callable[[Verdict], Mapping[Group, Tests]]
_KINDS: tuple[tuple[str, str, _Groups], ...] = (  # on all rails, on one, and the groups of a verdict
    ("host", "device", lambda verdict: _single(verdict.faulty)),
    ("intermittent host", "intermittent device", lambda verdict: _single(verdict.intermittent)),
    ("link", "link", lambda verdict: verdict.links),
    ("partition", "partition", lambda verdict: verdict.partitions),
    ("scale", "scale", lambda verdict: verdict.scale),
)


def _by_group(rails: Mapping[int, Rail], groups: _Groups) -> _ByGroup:
    by_group: _ByGroup = defaultdict(dict)
    for index, rail in rails.items():
        for group, tests in groups(rail.verdict).items():
            by_group[group][index] = tests
    return by_group


def _faults(by_group: _ByGroup, rails: Mapping[int, Rail], whole: str, single: str) -> list[LocatedFault]:
    """Return one fault for a group that fails alike on every rail that all its hosts have, else one for each rail."""
    faults = []
    for group, by_rail in sorted(by_group.items(), key=lambda item: sorted(item[0])):
        expected = {index for index, rail in rails.items() if group <= set(rail.hosts)}
        failures = {rails[index].usual_failure(tests) for index, tests in by_rail.items()}
        if by_rail.keys() >= expected and len(failures) == 1:
            faults.append(LocatedFault(whole, tuple(sorted(group)), dict(by_rail)))
        else:
            faults += [LocatedFault(single, _devices(group, index), {index: tests}) for index, tests in by_rail.items()]
    return sorted(faults, key=lambda fault: fault.kind != whole)


def _direction(sent: Sequence[float], received: Sequence[float], elsewhere: Sequence[float]) -> str:
    """Compare the medians with that of other transfers, or with each other where there are none."""
    if not sent or not received:
        return ""
    out, into = statistics.median(sent), statistics.median(received)
    usual = statistics.median(elsewhere) if elsewhere else max(out, into)
    slow = (out < SLOW * usual, into < SLOW * usual)
    return {(True, True): "both", (True, False): "sends", (False, True): "receives"}.get(slow, "")
