"""Rounds with a localiser: hosts are numbers, and a function returns the outcome of a test."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from random import Random

from preflight.probe.localise import GroupOutcome, Localiser, Test, Verdict

Members = frozenset[int]
World = Callable[[Members], GroupOutcome]
PASS, FAIL, HANG = GroupOutcome.PASS, GroupOutcome.FAIL, GroupOutcome.HANG


@dataclass
class Game:
    localiser: Localiser
    rounds: list[list[Test]] = field(default_factory=list)
    ended: list[tuple[Test, GroupOutcome]] = field(default_factory=list)

    def play(self, world: World, most: int = 99) -> Verdict:
        """Rounds until there are no more. That they are disjoint and end is shown in every game."""
        while tests := self.localiser.next_round():
            members = [member for test in tests for member in test.members]
            assert len(members) == len(set(members))
            self.rounds.append(tests)
            assert len(self.rounds) <= most
            outcomes = {test: world(test.members) for test in tests}
            self.ended += outcomes.items()
            self.localiser.observe(outcomes)
        return self.localiser.verdict()

    def everybody(self, hosts: int, world: World) -> None:
        test = Test(frozenset(range(hosts)))
        self.localiser.observe({test: world(test.members)})

    def tried(self) -> set[Members]:
        return {test.members for tests in self.rounds for test in tests}


def game(hosts: int, seed: int = 0, topology: dict[int, int] | None = None) -> Game:
    return Game(Localiser(range(hosts), topology=topology, seed=seed))


def world(bad: Collection[int] = (), links: Iterable[Members] = (), parts: Iterable[Collection[int]] = ()) -> World:
    """Bad hosts and links fail in every test that they are in, and so does what crosses from a part to the rest."""
    bad, links, sides = frozenset(bad), list(links), [frozenset(part) for part in parts]

    def ends(members: Members) -> GroupOutcome:
        if members & bad or any(0 < len(members & part) < len(members) for part in sides):
            return HANG
        return FAIL if any(link <= members for link in links) else PASS

    return ends


def noisy(quiet: World, share: float, seed: int) -> World:
    random = Random(f"noise {seed}")

    def ends(members: Members) -> GroupOutcome:
        outcome = quiet(members)
        return FAIL if outcome is PASS and random.random() < share else outcome

    return ends


def sample(hosts: int, count: int, seed: int) -> set[int]:
    return set(Random(f"sample {seed}").sample(range(hosts), count))


def judges_fairly(verdict: Verdict, ended: Iterable[tuple[Test, GroupOutcome]]) -> None:
    """Rule 8: a faulty member failed with two partners that passed with others, and never passed after that."""
    ended = list(ended)
    passed = {member for test, outcome in ended if outcome is PASS for member in test.members}
    for member, tests in verdict.faulty.items():
        partners = {next(iter(test.members - {member})) for test in tests if len(test.members) == 2}
        assert all(member in test.members for test in tests)
        assert len(partners & passed) >= 2
    for pair, tests in verdict.links.items():
        assert all(test.members == pair for test in tests)
        assert pair <= passed
