"""Bad input, and a world that does not keep to rounds."""

from functools import partial
from random import Random

import pytest

from preflight.probe.localise import GroupOutcome, Localiser, Test
from tests.unit.localiser_game import FAIL, HANG, PASS, Members, game, judges_fairly, noisy, sample, world

NOT_RUN = GroupOutcome.NOT_RUN


def test_one_host_has_no_tests() -> None:
    localiser = Localiser(["node01"])
    assert localiser.next_round() == []
    assert set(localiser.verdict().unknown) == {"node01"}
    assert Localiser([]).next_round() == []


def test_unknown_members_are_refused_and_change_nothing() -> None:
    localiser = Localiser(["a", "b"])
    [test] = localiser.next_round()
    with pytest.raises(ValueError, match="a test has members that are not to be tested: z"):
        localiser.observe({test: PASS, Test(frozenset({"a", "z"})): HANG})
    assert localiser.next_round() == []  # still outstanding
    with pytest.raises(ValueError, match="the topology names members that are not to be tested: c"):
        Localiser(["a", "b"], topology={"a": 1, "c": 2})
    with pytest.raises(ValueError, match="given more than once: a"):
        Localiser(["a", "b", "a"])
    with pytest.raises(ValueError, match="at least two members"):
        Test(frozenset({"a"}))


def test_hosts_outside_the_topology_take_part() -> None:
    topology = {host: host // 4 for host in range(12)}
    assert set(game(16, 0, topology).play(world({3, 14})).faulty) == {3, 14}


@pytest.mark.parametrize("first", [False, True])
def test_an_unplanned_test_of_all_hosts_is_evidence(first: bool) -> None:
    played = game(8)
    if first:
        played.everybody(8, world())
        assert played.localiser.next_round() == []
    else:
        played.everybody(8, world({2}))
        assert set(played.play(world({2})).faulty) == {2}


def test_unplanned_tests_count() -> None:
    """With two failures known from before, one round is enough."""
    localiser = Localiser("abcdef")
    known = {"ab": PASS, "cd": PASS, "af": FAIL, "cf": FAIL, "df": FAIL, "ae": PASS}
    localiser.observe({Test(frozenset(pair)): outcome for pair, outcome in known.items()})
    assert set(localiser.verdict().faulty) == {"f"}


def test_hosts_of_outstanding_tests_are_not_used() -> None:
    played = game(12, seed=4)
    localiser, outcome = played.localiser, world({0})
    first = localiser.next_round()
    late, early = first[0], first[1:]
    localiser.observe({test: outcome(test.members) for test in early})
    for _ in range(5):
        tests = localiser.next_round()
        assert not any(test.members & late.members for test in tests)
        localiser.observe({test: outcome(test.members) for test in tests})
    localiser.observe({late: outcome(late.members)})
    assert set(played.play(outcome).faulty) == {0}


@pytest.mark.parametrize("seed", range(20))
def test_results_may_come_one_by_one(seed: int) -> None:
    """No barrier: each result is observed as it comes, and new tests begin beside those that still run."""
    random, outcome = Random(seed), world(sample(24, 4, seed))
    localiser = Localiser(range(24), seed=seed)
    running = localiser.next_round()
    for _ in range(400):
        if not running:
            break
        test = running.pop(random.randrange(len(running)))
        localiser.observe({test: outcome(test.members)})
        running += localiser.next_round()
        busy = [member for other in running for member in other.members]
        assert len(busy) == len(set(busy))
    assert not running
    assert set(localiser.verdict().faulty) == sample(24, 4, seed)


def test_tests_that_never_run_end_as_unknown() -> None:
    played = game(9)
    verdict = played.play(lambda _: NOT_RUN, most=4)
    assert set(verdict.unknown) == set(range(9))
    assert not any((verdict.faulty, verdict.systemic, verdict.links))


def test_a_host_without_tests_is_unknown_and_its_partners_are_good() -> None:
    def ends(members: Members) -> GroupOutcome:
        return NOT_RUN if 5 in members else HANG if 1 in members else PASS

    verdict = game(16).play(ends)
    assert set(verdict.unknown) == {5}
    assert all(5 in test.members for test in verdict.unknown[5])
    assert set(verdict.faulty) == {1}


def test_one_round_makes_no_host_faulty() -> None:
    localiser = Localiser(range(16))
    first = localiser.next_round()
    localiser.observe({test: HANG if 0 in test.members else PASS for test in first})
    verdict = localiser.verdict()
    assert not verdict.faulty
    assert 0 in verdict.unknown


@pytest.mark.parametrize("how", [HANG, NOT_RUN])
@pytest.mark.parametrize("seed", range(8))
def test_a_host_that_dies_after_the_first_round(how: GroupOutcome, seed: int) -> None:
    """Host 1 was dead from the beginning, host 0 dies after it has passed, maybe as somebody's good partner."""
    played = game(16, seed)

    def ends(members: Members) -> GroupOutcome:
        if 1 in members:
            return HANG
        return how if 0 in members and len(played.rounds) > 1 else PASS

    verdict = played.play(ends)
    assert set(verdict.faulty) - {0} == {1}
    assert 0 in (verdict.faulty if how is HANG else verdict.unknown)
    assert not any((verdict.links, verdict.partitions, verdict.intermittent))


def test_results_that_contradict_each_other_end() -> None:
    """Every test ends as a coin falls."""
    for seed in range(30):
        coin = partial(Random(seed).choice, [PASS, HANG])
        verdict = game(20, seed).play(lambda _, coin=coin: coin(), most=200)  # type: ignore[misc]
        assert not verdict.systemic


def test_the_fastest_good_partner_is_chosen_and_nan_is_ignored() -> None:
    localiser = Localiser(range(8), seed=2)
    first = localiser.next_round()
    failed, fast = first[0], first[2]
    values = {test: 30.0 if test is fast else float("nan") if test is first[1] else 20.0 for test in first}
    localiser.observe({test: HANG if test is failed else PASS for test in first}, values)
    retests = [test for test in localiser.next_round() if test.members & failed.members]
    assert len(retests) == 2
    assert any(test.members & fast.members for test in retests)


@pytest.mark.parametrize("seed", range(60))
def test_no_mixture_of_faults_makes_a_healthy_host_faulty(seed: int) -> None:
    """Hosts, links, a partition, accidents, lost tests, in any number."""
    random = Random(f"mixture {seed}")
    hosts = random.choice([3, 4, 5, 8, 13, 32, 101])
    bad = set(random.sample(range(hosts), random.randint(0, hosts // 4)))
    links = [frozenset(random.sample(range(hosts), 2)) for _ in range(random.randint(0, 2))] if hosts > 12 else []
    parts = [random.sample(range(hosts), hosts // 3)] if hosts > 12 and random.random() < 0.3 else []
    share = random.choice([0.0, 0.0, 0.01])
    outcome = noisy(world(bad, links, parts), share, seed)

    def ends(members: Members) -> GroupOutcome:
        return NOT_RUN if random.random() < 0.02 else outcome(members)

    topology = {host: host // 8 for host in range(hosts)} if random.random() < 0.5 else None
    played = game(hosts, seed, topology)
    if random.random() < 0.5:
        played.everybody(hosts, outcome)
    verdict = played.play(ends)
    assert set(verdict.faulty) <= bad
    assert bad - verdict.unknown.keys() <= verdict.faulty.keys()
    assert (not share and not parts and not set(verdict.links) - set(links)) or share or parts
    if not parts and not share:
        judges_fairly(verdict, played.ended)
