"""How others find the host that is at fault, as rules over the same tests: for the simulator's comparison. Pure.

They are modelled kindly: rounds run their tests at the same time, and cost what a round of ours costs.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random

from preflight.attribution.localiser.localise import GroupOutcome

Run = Callable[[Collection[str]], GroupOutcome]


@dataclass
class Found:
    """Whom a rule names, and what it cost. `waited`: rounds in which a test hung until its deadline."""

    hosts: set[str]
    links: set[frozenset[str]]
    rounds: int = 0
    waited: int = 0
    tests: int = 0

    def play(self, groups: Sequence[Collection[str]], run: Run) -> list[bool]:
        """A round; whether each group passed."""
        outcomes = [run(group) for group in groups]
        self.rounds += 1
        self.waited += GroupOutcome.HANG in outcomes
        self.tests += len(groups)
        return [outcome is GroupOutcome.PASS for outcome in outcomes]


def two_rounds(hosts: Sequence[str], run: Run, random: Random) -> Found:
    """DLRover's: neighbours; then those who failed with those who passed. Who fails twice is at fault."""
    found = Found(set(), set())
    groups = [list(hosts[place : place + 2]) for place in range(0, len(hosts) - 1, 2)]
    if len(hosts) % 2:
        groups[-1].append(hosts[-1])
    well: list[str] = []
    ill: list[str] = []
    for group, passed in zip(groups, found.play(groups, run), strict=True):
        (well if passed else ill).extend(group)
    random.shuffle(well)
    mixed = [host for pair in zip(ill, well, strict=False) for host in pair]
    rest = ill[len(well) :] or well[len(ill) :]
    order = [*mixed, *rest]
    groups = [order[place : place + 2] for place in range(0, len(order) - 1, 2)]
    if len(order) % 2:
        groups[-1].append(order[-1])
    for group, passed in zip(groups, found.play(groups, run), strict=True):
        if not passed:
            found.hosts |= set(group) & set(ill)
    return found


def halving(hosts: Sequence[str], run: Run, random: Random) -> Found:
    """All; what fails in halves, all of them at the same time; each host of a failing pair with one of a part that
    passed, as long as there is one."""
    found = Found(set(), set())
    failing, well = [list(hosts)], []
    random.shuffle(failing[0])
    parts = failing
    while parts:
        outcomes = found.play(parts, run)
        well += [host for part, passed in zip(parts, outcomes, strict=True) if passed for host in part]
        failing = [part for part, passed in zip(parts, outcomes, strict=True) if not passed]
        parts = [half for part in failing if len(part) > 3 for half in (part[: len(part) // 2], part[len(part) // 2 :])]
        found.hosts.update(host for part in failing if len(part) <= 3 for host in part)
    suspects = sorted(found.hosts)
    while suspects and well:
        pairs = [[suspects.pop(), buddy] for buddy in well[: len(suspects)]]
        for pair, passed in zip(pairs, found.play(pairs, run), strict=True):
            if passed:
                found.hosts.discard(pair[0])
    return found


def all_pairs(hosts: Sequence[str], run: Run, random: Random) -> Found:
    """Every pair once, in rounds by the circle method. Who fails with everybody is at fault; what else fails is a
    link."""
    found = Found(set(), set())
    circle = [*hosts, *([""] if len(hosts) % 2 else [])]
    random.shuffle(circle)
    failures: dict[str, int] = dict.fromkeys(hosts, 0)
    failed = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        pairs = [pair for pair in zip(circle[:half], reversed(circle[half:]), strict=True) if "" not in pair]
        for pair, passed in zip(pairs, found.play(pairs, run), strict=True):
            if not passed:
                failed.append(frozenset(pair))
                for host in pair:
                    failures[host] += 1
        circle = [circle[0], circle[-1], *circle[1:-1]]
    found.hosts = {host for host, count in failures.items() if count == len(hosts) - 1}
    found.links = {pair for pair in failed if not pair & found.hosts}
    return found


RIVALS: dict[str, Callable[[Sequence[str], Run, Random], Found]] = {
    "two rounds (DLRover)": two_rounds,
    "halving": halving,
    "all pairs": all_pairs,
}
