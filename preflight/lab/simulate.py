"""Simulation: the localiser, and other rules over the same tests, against many models of a fabric. Nothing is run.

A run has rounds until the localiser has no more questions. Then all remaining hosts are tested at once, as `check`
does, with further rounds if that fails. The drawn faults are compared with the identified ones.
"""

import statistics
import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from preflight.attribution.localiser.combine_rails import LocatedFault, Rail, merge
from preflight.attribution.localiser.localise import GroupOutcome, Localiser, Test
from preflight.lab.fabric import Model, ModelFault, Pair, draw
from preflight.lab.rivals import RIVALS
from preflight.model.errors import UsageError

ROUND_SECONDS = 20.0  # of a round: 5 s to meet, 10 s of work, and the time to reach the hosts
DEADLINE_SECONDS = 30.0  # of a round in which a test hangs
_RIVAL_TESTS = 250_000  # of one rule in all its runs: all pairs of many hosts would take minutes
_FULL_SIZE = 4  # tests of all hosts together, each time without the located faults

Name = tuple[str, frozenset[str]]  # kind, members


@dataclass(frozen=True)
class Simulation:
    hosts: int = 232
    rails: int = 1
    leaves: int = 1
    faults: tuple[ModelFault, ...] = ()
    noise: float = 0.0
    runs: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("hosts", 2), ("rails", 1), ("leaves", 1), ("runs", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"--{name}: at least {least}")
        if not 0 <= self.noise < 1:
            raise UsageError("--noise: a share of tests, at least 0 and below 1")


@dataclass(frozen=True)
class Score:
    """Result of one run.

    `falsely` counts healthy hosts and devices that are reported as faulty, `doubted` those called intermittent.
    `missed` counts drawn faults that are not identified.
    """

    exact: bool
    falsely: int
    doubted: int
    missed: int
    pair_rounds: int
    all_rounds: int
    waited: int
    tests: int
    decoder_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        return self.all_rounds * ROUND_SECONDS + self.waited * (DEADLINE_SECONDS - ROUND_SECONDS)


class _Play:
    """One run, with one localiser for each rail."""

    def __init__(self, model: Model, seed: int, *, leaves: bool) -> None:
        self.model = model
        topology = model.leaf if leaves else None
        self.localisers = {rail: Localiser(model.hosts, topology=topology, seed=seed) for rail in range(model.rails)}
        self.pair_rounds = self.all_rounds = self.waited = self.tests = 0
        self.tried: set[tuple[Pair, int]] = set()
        self.decoder_seconds = 0.0

    def rounds(self) -> None:
        while True:
            start = time.perf_counter()
            planned = {rail: localiser.next_round() for rail, localiser in self.localisers.items()}
            self.decoder_seconds += time.perf_counter() - start
            if not any(planned.values()):
                return
            self.pair_rounds += all(len(test.members) == 2 for tests in planned.values() for test in tests)
            self.play(planned)

    def full_size(self) -> bool:
        """Test all remaining hosts of each rail together.

        Return False if nothing failed, or if that could show nothing new.
        """
        planned = {}
        for rail, localiser in self.localisers.items():
            verdict = localiser.verdict()
            excluded = {*verdict.faulty, *verdict.unknown, *(min(link) for link in verdict.links)}
            remaining = frozenset(self.model.hosts) - excluded
            explained = verdict.partitions or any(group <= remaining for group in verdict.scale)
            if len(remaining) > 2 and not explained:
                planned[rail] = [Test(remaining)]
        return bool(planned) and self.play(planned)

    def play(self, planned: dict[int, list[Test]]) -> bool:
        """Run a round on all rails. Return whether anything failed."""
        ends = set()
        for rail, tests in planned.items():
            outcomes = {test: self.model.outcome(test.members, rail) for test in tests}
            values = {test: self.model.value(outcome) for test, outcome in outcomes.items()}
            start = time.perf_counter()
            self.localisers[rail].observe(outcomes, values)
            self.decoder_seconds += time.perf_counter() - start
            ends |= set(outcomes.values())
            self.tried.update((test.members, rail) for test in tests)
            self.tests += len(tests)
        self.all_rounds += 1
        self.waited += GroupOutcome.HANG in ends
        return ends != {GroupOutcome.PASS}

    def found(self) -> list[LocatedFault]:
        start = time.perf_counter()
        rails = {rail: Rail(self.model.hosts, localiser.verdict()) for rail, localiser in self.localisers.items()}
        self.decoder_seconds += time.perf_counter() - start
        return merge(rails)


def truth(model: Model) -> set[Name]:
    """Return the names of the drawn faults, except for flaky hosts and scale."""
    if len(model.dead_rails) == model.rails:
        return {("system", frozenset())}

    def on(rail: int, hosts: Iterable[str]) -> frozenset[str]:
        return frozenset(f"{host}/{rail}" for host in hosts) if model.rails > 1 else frozenset(hosts)

    names: set[Name] = {("host", frozenset({host})) for host in model.bad}
    devices = {(host, rail) for host, rail in model.devices if rail not in model.dead_rails}
    names |= {("device" if model.rails > 1 else "host", on(rail, [host])) for host, rail in devices}
    names |= {("rail", on(rail, model.hosts)) for rail in model.dead_rails}
    names |= {("link", on(rail, pair)) for pair, rail in model.links if rail not in model.dead_rails}
    names |= {("partition", group) for group in model.groups()}
    if model.combination:
        names.add(("scale", model.combination))
    return names


def _score(model: Model, named: Collection[Name]) -> tuple[bool, int, int, int]:
    """Compare the identified faults with the drawn ones.

    Return whether they are equal, then the numbers of healthy places reported as faulty, of those called intermittent,
    and of missed faults. A flaky host may have either name. For a fault of scale, only the number of hosts has to
    match.
    """
    expected, remaining = truth(model), set(named)
    for host in model.flaky:
        either = {(kind, frozenset({host})) for kind in ("host", "intermittent host")}
        expected |= (either & remaining) or {("intermittent host", frozenset({host}))}
    if model.scale:
        sizes = {name for name in remaining if name[0] == "scale" and len(name[1]) == model.scale + 1}
        expected |= sizes or {("scale", frozenset())}
    falsely = [kind for kind, _ in remaining - expected]
    doubted = sum(kind.startswith("intermittent") for kind in falsely)
    missed = len(expected - remaining)
    return len(falsely) == doubted and not missed, falsely.count("host") + falsely.count("device"), doubted, missed


def models(setting: Simulation) -> list[tuple[Model, int]]:
    """Return a model and a seed for its localisers, for each run."""
    hosts = tuple(f"node{number:04}" for number in range(1, setting.hosts + 1))
    leaf = {host: number * setting.leaves // len(hosts) for number, host in enumerate(hosts)}
    runs = []
    for run in range(setting.runs):
        seed = setting.seed + run
        random = Random(f"outcomes {setting.seed} {run}")
        model = Model(hosts, setting.rails, leaf, setting.noise, random)
        first = Localiser(hosts, topology=leaf if setting.leaves > 1 else None, seed=seed).next_round()
        draw(setting.faults, model, [test.members for test in first], Random(f"faults {setting.seed} {run}"))
        runs.append((model, seed))
    return runs


def ours(setting: Simulation) -> list[Score]:
    scores = []
    for model, seed in models(setting):
        play = _Play(model, seed, leaves=setting.leaves > 1)
        play.rounds()
        for _ in range(_FULL_SIZE):
            if not play.full_size():
                break
            play.rounds()
        names = {(fault.kind, frozenset(fault.members)) for fault in play.found()}
        scores.append(
            Score(
                *_score(model, names), play.pair_rounds, play.all_rounds, play.waited, play.tests, play.decoder_seconds
            )
        )
    return scores


def rival(rule: str, setting: Simulation) -> list[Score]:
    """Run another rule over the first rail, with fewer runs if it has very many tests."""
    scores: list[Score] = []
    for model, seed in models(setting):

        def run(members: Collection[str], model: Model = model) -> GroupOutcome:
            return model.outcome(members, 0)

        result = RIVALS[rule](model.hosts, run, Random(seed))
        names: set[Name] = {("host", frozenset({host})) for host in result.hosts}
        names |= {("link", link) for link in result.links}
        scores.append(Score(*_score(model, names), result.rounds, result.rounds, result.waited, result.tests))
        if sum(score.tests for score in scores) + scores[-1].tests > _RIVAL_TESTS:
            break
    return scores


def simulate(setting: Simulation, *, beside: bool = True) -> list[dict[str, Any]]:
    """Return one row for each rule. Other rules are compared only with one rail, since they know no rails."""
    rows = [_row("preflight", ours(setting))]
    if beside and setting.rails == 1:
        rows += [_row(rule, rival(rule, setting)) for rule in RIVALS]
    return rows


def _row(rule: str, scores: list[Score]) -> dict[str, Any]:
    """Return the row of a rule.

    `rounds` maps a number of rounds, the full size included, to the number of runs with it. `seconds` is the modelled
    median.
    """
    return {
        "rule": rule,
        "runs": len(scores),
        "exact": sum(score.exact for score in scores),
        "falsely_convicted": sum(score.falsely for score in scores),
        "falsely_intermittent": sum(score.doubted for score in scores),
        "missed": sum(score.missed for score in scores),
        "pair_rounds": dict(sorted(Counter(score.pair_rounds for score in scores).items())),
        "rounds": dict(sorted(Counter(score.all_rounds for score in scores).items())),
        "tests": round(statistics.median(score.tests for score in scores)),
        "seconds": statistics.median(score.seconds for score in scores),
        "decoder_seconds": round(statistics.median(score.decoder_seconds for score in scores), 4),
    }
