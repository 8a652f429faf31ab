"""Two hosts: only devices of different hosts can be tested together, which is enough to tell a device from a link."""

from collections.abc import Collection

import pytest

from preflight.probe.localise import GroupOutcome, Localiser, Test, Verdict

Device = tuple[str, int]
A, B = [[(host, index) for index in range(8)] for host in "ab"]


def played(rails: int, bad: set[Device], links: Collection[frozenset[Device]] = ()) -> tuple[int, Verdict]:
    """Rounds and verdict, after a first round along the rails."""

    def run(test: Test) -> GroupOutcome:
        return GroupOutcome.FAIL if test.members & bad or test.members in links else GroupOutcome.PASS

    localiser = Localiser([*A[:rails], *B[:rails]], seed=1, may_meet=lambda one, other: one[0] != other[0])
    tests = [Test(frozenset({A[index], B[index]})) for index in range(rails)]
    rounds = 0
    while tests:
        rounds += 1
        assert all(len({host for host, _ in test.members}) == 2 for test in tests)
        localiser.observe({test: run(test) for test in tests})
        tests = localiser.next_round()
    return rounds, localiser.verdict()


def test_a_healthy_pair_of_hosts_takes_one_round() -> None:
    assert played(8, set()) == (1, Verdict())


@pytest.mark.parametrize(
    ("rails", "bad"), [(2, {A[0]}), (8, {A[3]}), (8, {A[3], B[5]}), (3, {A[0]}), (8, {A[0], A[1], A[2]})]
)
def test_only_bad_devices_are_faulty(rails: int, bad: set[Device]) -> None:
    rounds, verdict = played(rails, bad)
    assert set(verdict.faulty) == bad
    assert not verdict.links
    assert not verdict.partitions
    assert rounds <= 5


@pytest.mark.parametrize("rails", [2, 8])
def test_a_bad_link_is_no_device(rails: int) -> None:
    link = frozenset({A[1], B[1]})
    _, verdict = played(rails, set(), {link})
    assert (set(verdict.links), set(verdict.faulty)) == ({link}, set())


@pytest.mark.parametrize(("rails", "bad"), [(1, {A[0]}), (2, {A[0], B[1]})])
def test_without_good_devices_the_search_ends_without_a_fault(rails: int, bad: set[Device]) -> None:
    rounds, verdict = played(rails, bad)
    assert not verdict.faulty
    assert bad <= set(verdict.unknown)
    assert rounds < 6


def test_nothing_passes_on_a_systemic_fault() -> None:
    _, verdict = played(8, set(A))
    assert verdict.systemic
    assert not verdict.faulty
