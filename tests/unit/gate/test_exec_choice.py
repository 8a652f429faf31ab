"""Which hosts of an allocation run the command."""

from collections.abc import Sequence

import pytest

from preflight.gate.exec_choice import Choice, Wanted, are_proved, choose, met, useless_hosts
from preflight.model.finding import Finding
from preflight.model.gate import Unknown
from preflight.model.measure import Culprit, Member, Observation, TestOutcome, TestResult
from preflight.model.outcome import Outcome

HOSTS = ("node01", "node02", "node03", "node04")


def bad(kind: str, *members: str, host: str | None = None, test: str = "r1-1", cause: str = "stopped") -> Finding:
    return Finding("PRB101", Outcome.FAIL, "it stops", host, culprit=Culprit(kind, members, (test,), cause))


def unknown(host: str | None, summary: str = "nobody could look") -> Finding:
    return Finding("PRB114", Outcome.UNKNOWN, summary, host)


def chosen(
    *findings: Finding,
    nodes: int | None = None,
    policy: Unknown = Unknown.CLOSED,
    met: Sequence[str] = HOSTS,
    **left_out: str,
) -> Choice:
    return choose(HOSTS, findings, left_out, Wanted(nodes, policy), [observed("r2-0", *met)])


def observed(id_: str, *places: str, outcome: TestOutcome = TestOutcome.PASS) -> Observation:
    """A test of these hosts, or devices as `node01/1`."""
    split = [place.partition("/") for place in places]
    members = tuple(Member(host, int(device or 0), rank) for rank, (host, _, device) in enumerate(split))
    return Observation(TestResult(id_, "all_reduce", "int32", 8, None, members, outcome, "closed"), ())


ALONE = [observed(f"r1-{number}", host) for number, host in enumerate(HOSTS)]
DEAD = [*ALONE[:3], observed("r1-3", "node04", outcome=TestOutcome.FAIL)]
TOGETHER = observed("r2-0", *HOSTS[:3])
NOT_RUN = observed("r2-1", *HOSTS[:3], outcome=TestOutcome.NOT_RUN)


@pytest.mark.parametrize(
    ("observations", "proved"),
    [
        ([*DEAD, TOGETHER], True),
        (DEAD, True),  # nobody was to meet
        ([*DEAD, observed("r2-0", "node01", "node02"), observed("r2-1", "node02", "node03")], True),
        ([*DEAD, TOGETHER, observed("r0-0", *HOSTS, outcome=TestOutcome.FAIL)], True),  # the roll-call
        ([*DEAD, TOGETHER, observed("r3-0", *HOSTS, outcome=TestOutcome.HANG)], True),  # node04 took part
        ([*DEAD, TOGETHER, observed("r2-1", *HOSTS[:3], outcome=TestOutcome.REFUSED)], True),
        ([], False),
        ([*DEAD, TOGETHER, NOT_RUN], False),
        ([*DEAD, observed("r2-0", "node01", "node02")], False),  # node03 met nobody
        ([*DEAD, observed("r2-0", "node01", "node04"), observed("r2-1", "node02", "node03")], False),
        ([*DEAD, TOGETHER, observed("r2-1", "node01/1", "node04/1")], False),  # its device 1 has passed nothing
        ([*DEAD, TOGETHER, observed("r1-4", "node01/1", outcome=TestOutcome.WRONG_DATA)], False),
    ],
)  # fmt: skip
def test_what_proves_hosts_completely(observations: Sequence[Observation], proved: bool) -> None:
    assert are_proved(HOSTS[:3], observations) is proved


def test_an_unknown_without_a_host_does_not_outweigh_a_complete_proof_of_the_others() -> None:
    dead = bad("device", "node04/0", test="r1-3")
    few = Finding("PRB118", Outcome.UNKNOWN, "fewer than 4 of 4 ranks brought a time")
    choice = choose(HOSTS, [dead, few], {}, Wanted(3), [*DEAD, TOGETHER])
    assert (choice.take, choice.code, choice.problem) == (HOSTS[:3], 0, "")
    assert choice.out == {"node04": "PRB101, it stops"}
    doubtful = choose(HOSTS, [dead, few], {}, Wanted(3), [*DEAD, TOGETHER, NOT_RUN])
    assert (doubtful.take, doubtful.code) == ((), 3)
    assert "PRB118, fewer than 4 of 4 ranks" in doubtful.problem


@pytest.mark.parametrize(
    ("finding", "hosts"),
    [
        (bad("host", "node02"), {"node02"}),
        (bad("device", "node02/3"), {"node02"}),
        (bad("partition", "node03/0", "node04/0"), {"node03", "node04"}),  # off the largest part
        (bad("link", "node01/0", "node02/0", host="node01"), set()),
        (bad("rail", "rail 3"), set()),
        (bad("scale", "node01", "node02", "node03"), set()),
        (bad("system"), set()),
        (Finding("PRB105", Outcome.FAIL, "its device is held", "node04", 1), {"node04"}),
        (bad("host", "node02", test="r0-0"), {"node02"}),  # it gave no agent
        (bad("host", "node02", cause="host lost"), {"node02"}),
        (Finding("PRB101", Outcome.FAIL, "a pair fails, once", "node01", peer="node02/0"), set()),
        (Finding("PRB102", Outcome.FAIL, "it received wrong values of an unknown rank", "node01", 0), set()),
    ],
    ids=lambda it: it.culprit.kind if isinstance(it, Finding) and it.culprit else "",
)
def test_who_is_named(finding: Finding, hosts: set[str]) -> None:
    assert useless_hosts(finding) == hosts


def test_when_all_is_well_the_first_are_taken_and_the_others_are_spare() -> None:
    assert chosen() == Choice(HOSTS)
    assert chosen(nodes=3) == Choice(HOSTS[:3], HOSTS[3:])
    assert chosen(Finding("PRB103", Outcome.WARN, "slow now and then", "node01")) == Choice(HOSTS)


def test_who_failed_is_left_out_and_the_others_are_probed_again_all_of_them() -> None:
    found = chosen(bad("device", "node02/3"), unknown(None), bad("system"), nodes=2)
    assert (found.take, found.spare, found.again) == (("node01", "node03", "node04"), (), True)
    assert found.out == {"node02": "PRB101, it stops"}


def test_who_met_nobody_has_disturbed_nobody() -> None:
    found = chosen(bad("host", "node02"), unknown("node02"), met=("node01", "node03", "node04"), nodes=2)
    assert (found.take, found.spare, found.again) == (("node01", "node03"), ("node04",), False)
    assert found.out == {"node02": "PRB101, it stops"}
    stuck = chosen(bad("host", "node02"), bad("system"), met=(), nodes=2)
    assert (stuck.take, stuck.code) == ((), 1)  # between those who are left


def test_who_has_met() -> None:
    tests = [
        observed("r0-0", *HOSTS, outcome=TestOutcome.HANG), observed("r1-0", "node01/0", "node01/1"),
        observed("r2-0", "node02", "node03"), observed("r2-1", "node02", "node04", outcome=TestOutcome.NOT_RUN),
    ]  # fmt: skip
    assert met(tests) == {"node02", "node03"}


def test_who_was_not_tested_is_left_out() -> None:
    found = chosen(node01="device 0 is in use by python3 (pid 7)")
    assert (found.take, found.again) == (HOSTS[1:], False)
    assert found.out == {"node01": "device 0 is in use by python3 (pid 7)"}


def test_of_a_partition_the_larger_part_stays_if_it_is_large_enough() -> None:
    off = bad("partition", "node04/0")
    assert chosen(off, nodes=3).take == HOSTS[:3]
    short = chosen(off, nodes=4)
    assert (short.take, short.code, short.problem) == ((), 1, "3 nodes are healthy, but 4 are needed")
    halves = chosen(bad("partition", *HOSTS))
    assert (halves.take, halves.code, halves.problem) == ((), 1, "no node is healthy")


@pytest.mark.parametrize("kind", ["link", "rail", "scale", "system"])
def test_a_failure_between_hosts_leaves_nobody_out_and_nothing_is_run(kind: str) -> None:
    found = chosen(bad(kind, "node01/0", "node02/0"), nodes=2)
    assert (found.take, found.out, found.code) == ((), {}, 1)
    assert found.problem == "PRB101, it stops. preflight cannot tell which host to exclude"


def test_too_few_are_good() -> None:
    found = chosen(bad("host", "node01"), bad("host", "node02"), bad("host", "node03"), nodes=2)
    assert (found.take, found.code, found.problem) == ((), 1, "1 node is healthy, but 2 are needed")
    assert set(found.out) == {"node01", "node02", "node03"}


def test_what_is_unknown_of_everybody_closes_unless_the_policy_is_open() -> None:
    closed = chosen(unknown(None, "12 tests did not run"), nodes=2, met=())
    assert (closed.take, closed.code) == ((), 3)
    assert "PRB114, 12 tests did not run. Use --unknown open to run the command anyway" in closed.problem
    assert chosen(unknown(None), policy=Unknown.OPEN) == Choice(HOSTS)


def test_a_host_that_nobody_knows_is_left_out_unless_the_policy_is_open() -> None:
    closed = chosen(unknown("node03"), nodes=3)
    assert (closed.take, closed.code) == (("node01", "node02", "node04"), 0)
    assert closed.out == {"node03": "state unknown: PRB114, nobody could look"}
    assert chosen(unknown("node03"), policy=Unknown.OPEN).take == HOSTS


def test_too_few_for_want_of_knowledge_is_no_failure() -> None:
    assert chosen(unknown("node03"), nodes=4).code == 3
    assert chosen(unknown("node03"), nodes=4, node03="busy").code == 1  # it would not have been taken anyway
    assert chosen(unknown("node03"), nodes=4, node01="busy").code == 1
