"""From the verdicts of rails to one: device, host, rail, link, partition, scale or system. Pure.

Each rail has a localiser of its own over the hosts; with the same seed their first rounds coincide. What all rails say
of a host is the host's; what one rail says, its device's. The functions take what they need and nothing else, so
that a caller who has one rail only (gloo) uses them, too.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from preflight.localiser.types import Group, Outcome, Test, Tests, Verdict

SLOW = 0.8  # of the median


@dataclass(frozen=True)
class Rail:
    """A rail's hosts, what its localiser says of them, and how the tests ended on which that rests, if it is known."""

    hosts: Collection[str]
    verdict: Verdict
    outcomes: Mapping[Test, Outcome] = field(default_factory=dict)

    def trouble(self, tests: Tests) -> Outcome | None:
        """How most of them ended; hanging and failing are one."""
        ends = (self.outcomes[test] for test in tests if test in self.outcomes)
        ended = Counter(Outcome.FAIL if end is Outcome.HANG else end for end in ends)
        return ended.most_common(1)[0][0] if ended else None


@dataclass(frozen=True)
class Found:
    """Somebody, or several, at fault. `kind` as in `model.measure.Culprit`, or `intermittent host`, `intermittent
    device`; `members` are hosts, or devices as "node01/3"; `tests` by rail."""

    kind: str
    members: tuple[str, ...]
    tests: Mapping[int, Tests]


@dataclass(frozen=True)
class Flow:
    """What one host sent to another in one direction, on one rail. GB/s."""

    sender: str
    receiver: str
    gbps: float


_Named = dict[Group, dict[int, Tests]]  # who → by rail, the tests


def merge(rails: Mapping[int, Rail]) -> list[Found]:
    """Who is at fault, the largest object first. Empty where every rail passed."""
    silent = {index: _all_tests(rail.verdict) for index, rail in sorted(rails.items()) if rail.verdict.systemic}
    if silent and len(silent) == len(rails):
        return [Found("system", (), silent)]
    found = [
        Found("rail", tuple(f"{host}/{index}" for host in sorted(rails[index].hosts)), {index: tests})
        for index, tests in silent.items()
    ]
    speaking = {index: rail for index, rail in rails.items() if index not in silent}
    found += _named(_by_group(speaking, lambda verdict: _single(verdict.convicted)), speaking, "host", "device")
    flickering = _by_group(speaking, lambda verdict: _single(verdict.intermittent))
    found += _named(flickering, speaking, "intermittent host", "intermittent device")
    found += _named(_by_group(speaking, lambda verdict: verdict.links), speaking, "link", "link")
    found += _named(_by_group(speaking, lambda verdict: verdict.partitions), speaking, "partition", "partition")
    found += _named(_by_group(speaking, lambda verdict: verdict.scale), speaking, "scale", "scale")
    return found


def _all_tests(verdict: Verdict) -> Tests:
    return tuple(dict.fromkeys(test for tests in verdict.unknown.values() for test in tests))


def _single(named: Mapping[str, Tests]) -> dict[Group, Tests]:
    return {frozenset({host}): tests for host, tests in named.items()}


def _by_group(rails: Mapping[int, Rail], of: Callable[[Verdict], Mapping[Group, Tests]]) -> _Named:
    named: _Named = defaultdict(dict)
    for index, rail in sorted(rails.items()):
        for group, tests in of(rail.verdict).items():
            named[group][index] = tests
    return named


def _named(named: _Named, rails: Mapping[int, Rail], everywhere: str, somewhere: str) -> list[Found]:
    """A group that is named on every rail that all of it has, for the same trouble, is at fault as a whole; else on
    each rail by itself."""
    found = []
    for group, by_rail in sorted(named.items(), key=lambda item: sorted(item[0])):
        theirs = {index for index, rail in rails.items() if group <= set(rail.hosts)}
        if by_rail.keys() >= theirs and len({rails[index].trouble(tests) for index, tests in by_rail.items()}) == 1:
            found.append(Found(everywhere, tuple(sorted(group)), dict(by_rail)))
        else:
            found += [
                Found(somewhere, tuple(f"{host}/{index}" for host in sorted(group)), {index: tests})
                for index, tests in by_rail.items()
            ]
    return sorted(found, key=lambda one: one.kind != everywhere)


def slow_direction(host: str, flows: Iterable[Flow], *, suspects: Collection[str] = ()) -> str:
    """`sends`, `receives`, `both` or, where neither is slow or too little is known, empty.

    What a host sends is held against what the others send to each other; flows with other suspects say nothing of it.
    """
    flows = [flow for flow in flows if not {flow.sender, flow.receiver} & set(suspects) - {host}]
    others = [flow.gbps for flow in flows if host not in (flow.sender, flow.receiver)]
    sent = [flow.gbps for flow in flows if flow.sender == host]
    received = [flow.gbps for flow in flows if flow.receiver == host]
    return _direction(sent, received, others)


def slow_link_direction(link: tuple[str, str], flows: Iterable[Flow]) -> str:
    """Like `slow_direction`, of a pair and seen from its first host."""
    flows = list(flows)
    one, other = link
    ahead = [flow.gbps for flow in flows if (flow.sender, flow.receiver) == (one, other)]
    back = [flow.gbps for flow in flows if (flow.sender, flow.receiver) == (other, one)]
    others = [flow.gbps for flow in flows if {flow.sender, flow.receiver} != {one, other}]
    return _direction(ahead, back, others)


def _direction(sent: Sequence[float], received: Sequence[float], others: Sequence[float]) -> str:
    """Where there are no others to compare with, one way is held against the other way."""
    if not sent or not received:
        return ""
    out, into = statistics.median(sent), statistics.median(received)
    usual = statistics.median(others) if others else max(out, into)
    slow = (out < SLOW * usual, into < SLOW * usual)
    return {(True, True): "both", (True, False): "sends", (False, True): "receives"}.get(slow, "")
