"""Partitions, leaves, and groups that fail only when they are large."""

from itertools import combinations

import pytest

from preflight.probe.localise import Outcome
from tests.unit.localiser_game import HANG, PASS, Members, game, judges_fairly, noisy, sample, world


@pytest.mark.parametrize(("hosts", "share"), [(232, 4), (232, 2), (64, 4)])
@pytest.mark.parametrize("seed", range(6))
def test_a_partition_is_named_as_groups_and_nobody_is_convicted(hosts: int, share: int, seed: int) -> None:
    part, played = sample(hosts, hosts // share, seed), game(hosts, seed)
    verdict = played.play(world(parts=[part]))
    assert set(verdict.partitions) == {frozenset(part), frozenset(range(hosts)) - part}
    assert all(len(test.members & part) == 1 for test in verdict.partitions[frozenset(part)])
    assert not any((verdict.convicted, verdict.links, verdict.unknown, verdict.intermittent, verdict.systemic))


@pytest.mark.parametrize("seed", range(20))
def test_a_small_partition_of_a_small_cluster(seed: int) -> None:
    """Two of eight: for the others they look like two dead hosts. If they happen to meet first, everybody tells."""
    outcome, played = world(parts=[{1, 2}]), game(8, seed)
    if not played.play(outcome).partitions:
        played.everybody(8, outcome)
    verdict = played.play(outcome)
    assert set(verdict.partitions) == {frozenset({1, 2}), frozenset({0, 3, 4, 5, 6, 7})}
    assert not verdict.convicted


@pytest.mark.parametrize("seed", range(5))
def test_dead_hosts_on_both_sides_of_a_partition_are_told_from_it(seed: int) -> None:
    part, dead = sample(232, 58, seed), sample(232, 5, seed + 100)
    played = game(232, seed)
    verdict = played.play(world(dead, parts=[part]))
    assert set(verdict.convicted) == dead
    assert set(verdict.partitions) == {frozenset(part) - dead, frozenset(range(232)) - part - dead}
    judges_fairly(verdict, played.ended)


def test_a_partition_among_accidents() -> None:
    """Pieces of a side that an accident cut off find their way back, and all of it ends."""
    for seed in range(40):
        part, played = sample(232, 58, seed), game(232, seed)
        verdict = played.play(noisy(world(parts=[part]), 0.03, seed), most=40)
        assert set(verdict.partitions) == {frozenset(part), frozenset(range(232)) - part}
        assert not verdict.links


LEAVES = {host: host // 8 for host in range(64)}


@pytest.mark.parametrize("seed", range(5))
def test_a_leaf_whose_uplink_is_slow_is_a_group(seed: int) -> None:
    leaf = frozenset(range(24, 32))

    def ends(members: Members) -> Outcome:
        return Outcome.SLOW if 0 < len(members & leaf) < len(members) else PASS

    verdict = game(64, seed, LEAVES).play(ends)
    assert set(verdict.partitions) == {leaf, frozenset(range(64)) - leaf}
    assert not verdict.convicted


@pytest.mark.parametrize("seed", range(8))
def test_a_dead_host_is_told_from_a_dead_uplink(seed: int) -> None:
    leaf, dead = frozenset(range(24, 32)), seed * 8 + 1
    played = game(64, seed, LEAVES)
    verdict = played.play(world({dead}, parts=[leaf]))
    assert set(verdict.convicted) == {dead}
    assert set(verdict.partitions) == {leaf - {dead}, frozenset(range(64)) - leaf - {dead}}
    judges_fairly(verdict, played.ended)


def test_when_no_leaf_reaches_another_each_is_a_group() -> None:
    leaves = [frozenset(range(first, first + 8)) for first in range(0, 64, 8)]
    verdict = game(64, 1, LEAVES).play(world(parts=leaves))
    assert set(verdict.partitions) == set(leaves)
    assert not any((verdict.convicted, verdict.systemic))


@pytest.mark.parametrize(("leaves", "behind"), [(32, 32), (7, 8), (2, 5)])
def test_the_first_round_crosses_leaves_and_every_two_of_them_meet(leaves: int, behind: int) -> None:
    topology = {host: host // behind for host in range(leaves * behind)}
    met = [
        frozenset(topology[member] for member in test.members)
        for test in game(len(topology), 5, topology).localiser.next_round()
    ]
    assert all(len(pair) == 2 for pair in met)
    every = {frozenset(pair) for pair in combinations(range(leaves), 2)}
    if behind >= leaves - 1:
        assert set(met) == every
    assert max(map(met.count, set(met))) - min(met.count(pair) for pair in every) <= 1


def test_uneven_leaves_still_cross_where_they_can() -> None:
    topology = {host: 0 if host < 6 else 1 + host // 4 for host in range(12)}
    first = game(12, 0, topology).localiser.next_round()
    assert sum(len({topology[member] for member in test.members}) == 2 for test in first) == 6


@pytest.mark.parametrize("everybody_first", [False, True])
@pytest.mark.parametrize(("hosts", "limit"), [(64, 20), (232, 100), (231, 128)])
def test_what_fails_above_a_size_is_searched_in_parallel_down_to_that_size(
    hosts: int, limit: int, everybody_first: bool
) -> None:
    def ends(members: Members) -> Outcome:
        return HANG if len(members) > limit else PASS

    played = game(hosts)
    if everybody_first:
        played.everybody(hosts, ends)
    played.play(ends)
    played.everybody(hosts, ends)
    verdict = played.play(ends, most=20)
    assert verdict.scale
    assert all(len(group) == limit + 1 for group in verdict.scale)
    assert all(test.members == group for group, tests in verdict.scale.items() for test in tests)
    assert not any((verdict.convicted, verdict.links, verdict.partitions, verdict.intermittent))
    if hosts >= 4 * limit or hosts // 2 > limit:
        assert max(map(len, played.rounds[2:])) > 1


@pytest.mark.parametrize("seed", range(4))
def test_hosts_that_fail_only_together_are_found(seed: int) -> None:
    together = frozenset(sample(232, 3, seed))

    def ends(members: Members) -> Outcome:
        return HANG if together <= members else PASS

    played = game(232, seed)
    played.play(ends)
    played.everybody(232, ends)
    verdict = played.play(ends)
    assert set(verdict.scale) == {together}
    assert not verdict.convicted


@pytest.mark.parametrize("seed", range(4))
def test_a_bad_link_that_no_round_tried_is_found_when_everybody_fails(seed: int) -> None:
    link = frozenset(sample(232, 2, seed))
    outcome, played = world(links=[link]), game(232, seed)
    played.play(outcome)
    played.everybody(232, outcome)
    verdict = played.play(outcome)
    assert set(verdict.links) == {link}
    assert not any((verdict.convicted, verdict.scale))


def test_everybody_failing_is_no_matter_of_scale_where_a_host_explains_it() -> None:
    outcome, played = world({7}), game(64)
    played.everybody(64, outcome)
    verdict = played.play(outcome)
    assert set(verdict.convicted) == {7}
    assert not verdict.scale
    assert len(played.rounds) == 3
