"""The localiser's verdicts on hosts and links, and the number of rounds that they take."""

import time
from random import Random

import pytest

from preflight.probe.localise import GroupOutcome, Localiser, Test
from tests.unit.localiser_game import HANG, PASS, game, judges_fairly, noisy, sample, world

N = 232


@pytest.mark.parametrize("hosts", [2, 8, N, 1024])
def test_a_healthy_cluster_takes_one_round_of_pairs(hosts: int) -> None:
    played = game(hosts)
    verdict = played.play(world())
    assert len(played.rounds) == 1
    assert sorted(member for test in played.rounds[0] for member in test.members) == list(range(hosts))
    assert all(len(test.members) == 2 for test in played.rounds[0])
    assert not any((verdict.faulty, verdict.links, verdict.partitions, verdict.unknown, verdict.systemic))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 17, 57, 58])
@pytest.mark.parametrize("seed", range(4))
def test_up_to_a_quarter_of_the_hosts_bad_is_exact_in_four_rounds(count: int, seed: int) -> None:
    bad, played = sample(N, count, seed), game(N, seed)
    verdict = played.play(world(bad))
    assert set(verdict.faulty) == bad
    assert len(played.rounds) <= (4 if count > 1 else 3)
    assert not any((verdict.links, verdict.partitions, verdict.intermittent, verdict.unknown, verdict.scale))
    judges_fairly(verdict, played.ended)


@pytest.mark.parametrize("hosts", [4, 8, 16, N])
@pytest.mark.parametrize("seed", range(6))
def test_half_of_all_hosts_bad_is_still_exact(hosts: int, seed: int) -> None:
    bad, played = sample(hosts, hosts // 2, seed), game(hosts, seed)
    verdict = played.play(world(bad))
    assert set(verdict.faulty) == bad
    assert not any((verdict.links, verdict.partitions, verdict.intermittent, verdict.unknown, verdict.systemic))
    judges_fairly(verdict, played.ended)


@pytest.mark.parametrize(("hosts", "runs", "count"), [(N, 200, 2), (N, 40, 20), (1024, 60, 2), (64, 200, 1)])
def test_three_percent_accidents_make_no_healthy_host_faulty(hosts: int, runs: int, count: int) -> None:
    for seed in range(runs):
        bad, played = sample(hosts, count, seed), game(hosts, seed)
        verdict = played.play(noisy(world(bad), 0.03, seed))
        assert (seed, set(verdict.faulty)) == (seed, bad)
        assert not any((verdict.links, verdict.partitions, verdict.unknown, verdict.scale))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("links", "bad"), [(1, 0), (2, 1), (10, 10), (40, 0)])
def test_every_bad_link_among_the_tested_pairs_is_identified(links: int, bad: int, seed: int) -> None:
    first = game(N, seed).localiser.next_round()
    broken = Random(f"links {seed}").sample([test.members for test in first], links)
    hosts = set(sorted(set(range(N)) - frozenset().union(*broken))[:bad])
    everywhere = {*broken, *(frozenset((host, (host + 7) % N)) for host in range(0, N, 40))}
    played = game(N, seed)
    verdict = played.play(world(hosts, everywhere))
    assert set(verdict.links) == {link for link in everywhere & played.tried() if not link & hosts}
    assert set(verdict.links) >= set(broken)
    assert set(verdict.faulty) == hosts
    judges_fairly(verdict, played.ended)


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_the_bad_one_of_three_hosts_is_identified(bad: int, seed: int) -> None:
    assert set(game(3, seed).play(world({bad})).faulty) == {bad}


def test_two_hosts_are_unknown() -> None:
    verdict = game(2).play(world({0}))
    assert set(verdict.unknown) == {0, 1}
    assert all(verdict.unknown.values())
    assert not any((verdict.faulty, verdict.links, verdict.partitions, verdict.systemic))


@pytest.mark.parametrize("hosts", [3, 5, 7, 9, 233])
def test_odd_numbers_of_hosts(hosts: int) -> None:
    healthy = game(hosts)
    healthy.play(world())
    assert len(healthy.rounds) == 2  # the odd one with somebody who passed
    for bad in range(min(hosts, 9)):
        verdict = game(hosts, seed=bad).play(world({bad}))
        assert set(verdict.faulty) == {bad}


def test_a_fault_is_systemic_only_if_nothing_passes() -> None:
    played = game(N)
    verdict = played.play(world(range(N)))
    assert verdict.systemic
    assert not verdict.faulty
    assert len(played.rounds) == 3
    assert not game(N).play(world(range(N - 30))).systemic


def test_half_of_an_even_number_bad_is_not_systemic() -> None:
    """Three rounds of blocks of four find two good ones, whoever is bad and whoever meets whom."""
    for seed in range(300):
        hosts = 4 + 2 * (seed % 5)
        bad = sample(hosts, hosts // 2, seed)
        assert set(game(hosts, seed).play(world(bad)).faulty) == bad


@pytest.mark.parametrize("count", [0, 5, 1024, 2048])
def test_four_thousand_hosts_take_less_than_two_seconds(count: int) -> None:
    """Processor time, which other work on the machine does not stretch."""
    bad, outcome = sample(4096, count, 1), world(sample(4096, count, 1))
    begun = time.process_time()
    played = game(4096)
    assert set(played.play(outcome).faulty) == bad
    assert time.process_time() - begun < 2


def test_an_intermittent_host_is_not_faulty() -> None:
    """Host 3 fails with its first partner and with the good one after that, and never again."""
    failures = iter([HANG, HANG])
    played = game(N)

    def ends(members: frozenset[int]) -> GroupOutcome:
        return next(failures, PASS) if 3 in members else PASS

    verdict = played.play(ends)
    assert set(verdict.intermittent) == {3}
    assert len(verdict.intermittent[3]) == 2
    assert not any((verdict.faulty, verdict.links, verdict.unknown))


def test_a_failure_that_does_not_repeat_is_transient() -> None:
    played = game(8)
    first = played.localiser.next_round()
    played.localiser.observe({test: HANG if test is first[0] else PASS for test in first})
    verdict = played.play(world())
    assert set(verdict.transient) == {first[0].members}
    assert not any((verdict.faulty, verdict.links, verdict.intermittent, verdict.unknown))


def test_contradictions_need_more_failures() -> None:
    def failures_needed(accident: bool) -> int:
        played = game(16, seed=1)
        first = played.localiser.next_round()
        well = [test for test in first if 0 not in test.members]
        odd = {well[0].members} if accident else set()
        played.localiser.observe({test: HANG if 0 in test.members or test.members in odd else PASS for test in first})
        return len(played.play(world({0})).faulty[0])

    assert failures_needed(accident=False) == 3
    assert failures_needed(accident=True) == 5


def test_the_seed_decides_the_pairs() -> None:
    def first(seed: int) -> list[Test]:
        return Localiser([f"node{number}" for number in range(50)], seed=seed).next_round()

    assert first(3) == first(3)
    assert len(set(first(3)) & set(first(4))) < 10
