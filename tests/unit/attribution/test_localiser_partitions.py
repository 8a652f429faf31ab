"""Partitions, leaves, and groups that fail only when they are large."""

from itertools import combinations

import pytest

from preflight.probe.localise import GroupOutcome
from tests.unit.localiser_game import HANG, PASS, Members, game, judges_fairly, noisy, sample, world


@pytest.mark.parametrize(("hosts", "share"), [(232, 4), (232, 2), (64, 4)])
@pytest.mark.parametrize("seed", range(6))
def test_a_partition_has_groups_and_no_faulty_host(hosts: int, share: int, seed: int) -> None:
    part, played = sample(hosts, hosts // share, seed), game(hosts, seed)
    verdict = played.play(world(parts=[part]))
    assert set(verdict.partitions) == {frozenset(part), frozenset(range(hosts)) - part}
    assert all(len(test.members & part) == 1 for test in verdict.partitions[frozenset(part)])
    assert not any((verdict.faulty, verdict.links, verdict.unknown, verdict.intermittent, verdict.systemic))


@pytest.mark.parametrize("seed", range(20))
def test_a_small_partition_of_a_small_cluster(seed: int) -> None:
    """Two of eight: for the others they look like two dead hosts. If they happen to meet first, everybody tells."""
    outcome, played = world(parts=[{1, 2}]), game(8, seed)
    if not played.play(outcome).partitions:
        played.everybody(8, outcome)
    verdict = played.play(outcome)
    assert set(verdict.partitions) == {frozenset({1, 2}), frozenset({0, 3, 4, 5, 6, 7})}
    assert not verdict.faulty


@pytest.mark.parametrize("seed", range(5))
def test_dead_hosts_on_both_sides_of_a_partition_are_faulty(seed: int) -> None:
    part, dead = sample(232, 58, seed), sample(232, 5, seed + 100)
    played = game(232, seed)
    verdict = played.play(world(dead, parts=[part]))
    assert set(verdict.faulty) == dead
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

    def ends(members: Members) -> GroupOutcome:
        return GroupOutcome.SLOW if 0 < len(members & leaf) < len(members) else PASS

    verdict = game(64, seed, LEAVES).play(ends)
    assert set(verdict.partitions) == {leaf, frozenset(range(64)) - leaf}
    assert not verdict.faulty


@pytest.mark.parametrize("seed", range(8))
def test_a_dead_host_is_no_dead_uplink(seed: int) -> None:
    leaf, dead = frozenset(range(24, 32)), seed * 8 + 1
    played = game(64, seed, LEAVES)
    verdict = played.play(world({dead}, parts=[leaf]))
    assert set(verdict.faulty) == {dead}
    assert set(verdict.partitions) == {leaf - {dead}, frozenset(range(64)) - leaf - {dead}}
    judges_fairly(verdict, played.ended)


def test_leaves_that_do_not_reach_each_other_are_groups() -> None:
    leaves = [frozenset(range(first, first + 8)) for first in range(0, 64, 8)]
    verdict = game(64, 1, LEAVES).play(world(parts=leaves))
    assert set(verdict.partitions) == set(leaves)
    assert not any((verdict.faulty, verdict.systemic))


@pytest.mark.parametrize(("leaves", "behind"), [(32, 32), (7, 8), (2, 5)])
def test_the_first_round_pairs_all_leaves(leaves: int, behind: int) -> None:
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


def test_uneven_leaves_are_paired_as_far_as_possible() -> None:
    topology = {host: 0 if host < 6 else 1 + host // 4 for host in range(12)}
    first = game(12, 0, topology).localiser.next_round()
    assert sum(len({topology[member] for member in test.members}) == 2 for test in first) == 6


@pytest.mark.parametrize("everybody_first", [False, True])
@pytest.mark.parametrize(("hosts", "limit"), [(64, 20), (232, 100), (231, 128)])
def test_a_fault_above_a_size_is_narrowed_to_that_size(hosts: int, limit: int, everybody_first: bool) -> None:
    def ends(members: Members) -> GroupOutcome:
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
    assert not any((verdict.faulty, verdict.links, verdict.partitions, verdict.intermittent))
    if hosts >= 4 * limit or hosts // 2 > limit:
        assert max(map(len, played.rounds[2:])) > 1


@pytest.mark.parametrize("seed", range(4))
def test_hosts_that_fail_only_together_are_identified(seed: int) -> None:
    together = frozenset(sample(232, 3, seed))

    def ends(members: Members) -> GroupOutcome:
        return HANG if together <= members else PASS

    played = game(232, seed)
    played.play(ends)
    played.everybody(232, ends)
    verdict = played.play(ends)
    assert set(verdict.scale) == {together}
    assert not verdict.faulty


@pytest.mark.parametrize("seed", range(4))
def test_an_untested_bad_link_is_identified_when_all_hosts_fail(seed: int) -> None:
    link = frozenset(sample(232, 2, seed))
    outcome, played = world(links=[link]), game(232, seed)
    played.play(outcome)
    played.everybody(232, outcome)
    verdict = played.play(outcome)
    assert set(verdict.links) == {link}
    assert not any((verdict.faulty, verdict.scale))


def test_a_faulty_host_explains_a_failure_of_all_hosts() -> None:
    outcome, played = world({7}), game(64)
    played.everybody(64, outcome)
    verdict = played.play(outcome)
    assert set(verdict.faulty) == {7}
    assert not verdict.scale
    assert len(played.rounds) == 3
