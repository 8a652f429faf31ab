"""Other tools' methods of finding a faulty host, as rules over the same tests, for the simulator's comparison. Pure.

The model favours them: their rounds run all tests at the same time, and cost as much as one of our rounds.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random

from preflight.attribution.localiser.localise import GroupOutcome

Run = Callable[[Collection[str]], GroupOutcome]


@dataclass
class RivalVerdict:
    """Hosts and links that a rule names, and its cost.

    `waited` counts rounds in which a test hung until its deadline.
    """

    hosts: set[str]
    links: set[frozenset[str]]
    rounds: int = 0
    waited: int = 0
    tests: int = 0

    def play(self, groups: Sequence[Collection[str]], run: Run) -> list[bool]:
        """Run one round and return whether each group passed."""
        outcomes = [run(group) for group in groups]
        self.rounds += 1
        self.waited += GroupOutcome.HANG in outcomes
        self.tests += len(groups)
        return [outcome is GroupOutcome.PASS for outcome in outcomes]


def two_rounds(hosts: Sequence[str], run: Run, random: Random) -> RivalVerdict:
    """Apply DLRover's rule: neighbours first, then failed with passed hosts. A host that fails twice is faulty."""
    result = RivalVerdict(set(), set())
    groups = _pairs(hosts)
    passed_hosts: list[str] = []
    failed_hosts: list[str] = []
    for group, passed in zip(groups, result.play(groups, run), strict=True):
        (passed_hosts if passed else failed_hosts).extend(group)
    random.shuffle(passed_hosts)
    mixed = [host for pair in zip(failed_hosts, passed_hosts, strict=False) for host in pair]
    unpaired = failed_hosts[len(passed_hosts) :] or passed_hosts[len(failed_hosts) :]
    order = [*mixed, *unpaired]
    groups = _pairs(order)
    for group, passed in zip(groups, result.play(groups, run), strict=True):
        if not passed:
            result.hosts |= set(group) & set(failed_hosts)
    return result


def _pairs(hosts: Sequence[str]) -> list[list[str]]:
    """Return pairs of neighbours; the last of an odd number makes three."""
    groups = [list(hosts[place : place + 2]) for place in range(0, len(hosts) - 1, 2)]
    if len(hosts) % 2:
        groups[-1].append(hosts[-1])
    return groups


def halving(hosts: Sequence[str], run: Run, random: Random) -> RivalVerdict:
    """Test all hosts, then halves of each failing part, all at the same time, down to at most three hosts.

    Then test each host of a failing part with one that passed, as long as there is one.
    """
    result = RivalVerdict(set(), set())
    parts, passed_hosts = [list(hosts)], []
    random.shuffle(parts[0])
    while parts:
        halves: list[list[str]] = []
        for part, passed in zip(parts, result.play(parts, run), strict=True):
            if passed:
                passed_hosts += part
            elif len(part) > 3:
                halves += [part[: len(part) // 2], part[len(part) // 2 :]]
            else:
                result.hosts.update(part)
        parts = halves
    suspects = sorted(result.hosts)
    while suspects and passed_hosts:
        pairs = [[suspects.pop(), buddy] for buddy in passed_hosts[: len(suspects)]]
        for pair, passed in zip(pairs, result.play(pairs, run), strict=True):
            if passed:
                result.hosts.discard(pair[0])
    return result


def all_pairs(hosts: Sequence[str], run: Run, random: Random) -> RivalVerdict:
    """Test every pair once, in rounds by the circle method.

    A host that fails with all others is faulty. Other failures are links.
    """
    result = RivalVerdict(set(), set())
    circle = [*hosts, *([""] if len(hosts) % 2 else [])]
    random.shuffle(circle)
    failures: dict[str, int] = dict.fromkeys(hosts, 0)
    failed = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        pairs = [pair for pair in zip(circle[:half], reversed(circle[half:]), strict=True) if "" not in pair]
        for pair, passed in zip(pairs, result.play(pairs, run), strict=True):
            if not passed:
                failed.append(frozenset(pair))
                for host in pair:
                    failures[host] += 1
        circle = [circle[0], circle[-1], *circle[1:-1]]
    result.hosts = {host for host, count in failures.items() if count == len(hosts) - 1}
    result.links = {pair for pair in failed if not pair & result.hosts}
    return result


RIVALS: dict[str, Callable[[Sequence[str], Run, Random], RivalVerdict]] = {
    "two rounds (DLRover)": two_rounds,
    "halving": halving,
    "all pairs": all_pairs,
}
