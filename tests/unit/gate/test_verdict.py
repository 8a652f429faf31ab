"""What a report says of one host, and whom it convicts."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.types import ClusterFacts, HostFacts, Missing, Unreachable, Versions
from preflight.gate.verdict import LONGEST, MOST_PROBLEMS, Look, looks_of
from preflight.model.cluster import Cluster, Host, Product
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, End, Member, Observation, RankView, TestOutcome, TestResult
from preflight.model.outcome import Outcome
from preflight.model.report import LeftOut
from preflight.probe.observe import absent
from preflight.report.build import RunDetails, build
from tests.unit.checks.test_checks import ROOT, look, read
from tests.unit.healthy import scene

FAIL, WARN, UNKNOWN, PASS, SKIP = Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN, Outcome.PASS, Outcome.SKIP
HOSTS = ("node01", "node02", "node03")
NEEDS = {id_: check.needs for id_, check in all_checks().items()}
# Of a host's own facts, of connections between hosts, of pings, of the probe.
OWN, ARRIVALS, PINGS, PROBE = "NPU101", "FWL104", "PNG101", "PRB101"


def told(*findings: Finding, command: str = "check", left_out: tuple[LeftOut, ...] = ()) -> dict[str, dict[str, Look]]:
    return looks_of(build(command, datetime.now(UTC), HOSTS, findings, RunDetails(left_out=left_out)), HOSTS, NEEDS, {})


def outcomes(*findings: Finding, left_out: tuple[LeftOut, ...] = ()) -> tuple[Outcome | None, ...]:
    """What findings of one check say of each host; None: nothing."""
    of_hosts = told(*findings, left_out=left_out)
    looks = [next(iter(of_hosts[host].values()), None) for host in HOSTS]
    return tuple(look.checks[findings[0].check] if look else None for look in looks)


def culprit(kind: str, *members: str, test: str = "r1-1", cause: str = "hangs") -> Culprit:
    return Culprit(kind, members, (test,), cause)


def found(check: str, outcome: Outcome, host: str | None = None, **more: object) -> Finding:
    return Finding(check, outcome, "what was seen", host=host, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("finding", "says"),
    [
        (found(OWN, FAIL, "node02"), (None, FAIL, None)),
        (found(OWN, UNKNOWN, "node02"), (None, UNKNOWN, None)),
        (found(OWN, WARN, "node02"), (None, WARN, None)),
        (found(OWN, PASS, "node02"), (None, PASS, None)),
        # The cluster as a whole convicts nobody.
        (found(OWN, FAIL), (WARN, WARN, WARN)),
        (found(OWN, UNKNOWN), (WARN, WARN, WARN)),
        (found(PROBE, FAIL, culprit=culprit("system")), (WARN, WARN, WARN)),
        (found(PROBE, FAIL, culprit=culprit("scale", *HOSTS)), (WARN, WARN, WARN)),
        # Whom tests convict, whatever host the sentence is told at.
        (found(PROBE, FAIL, "node02", culprit=culprit("device", "node02/3")), (None, FAIL, None)),
        (found(PROBE, FAIL, "node01", culprit=culprit("host", "node02")), (WARN, FAIL, None)),
        (found(PROBE, FAIL, culprit=culprit("host", "node01", "node03")), (FAIL, PASS, FAIL)),
        # What hosts have together.
        (found(PROBE, FAIL, "node01", peer="node02", culprit=culprit("link", "node01/0", "node02/0")),
         (WARN, WARN, None)),
        (found(PROBE, FAIL, culprit=culprit("rail", "node01/3", "node03/3"), rail=3), (WARN, PASS, WARN)),
        (found(PINGS, FAIL, culprit=culprit("partition", "node03")), (PASS, PASS, WARN)),
        # A link within a host is its own.
        (found(PROBE, FAIL, "node02", culprit=culprit("link", "node02/0", "node02/1")), (None, FAIL, None)),
        # What hosts saw of each other, and nobody is convicted of.
        (found(PINGS, FAIL, "node02", peer="node01/0"), (None, WARN, None)),
        (found(ARRIVALS, FAIL, "node02", peer="node01"), (None, WARN, None)),
        (found(PROBE, FAIL, "node02", peer="node01"), (None, WARN, None)),
        (found(PROBE, UNKNOWN, "node02"), (None, UNKNOWN, None)),
    ],
)  # fmt: skip
def test_a_host_is_convicted_by_what_was_seen_on_it_and_by_tests_that_name_it(
    finding: Finding, says: tuple[Outcome | None, ...]
) -> None:
    assert outcomes(finding) == says


def judged(check: str, versions: tuple[str, ...] = (), rounds: Mapping[str, object] | None = None) -> list[Finding]:
    """What a check makes of the hosts' releases of torch, or of a round."""
    hosts = tuple(Host(f"node{n:02}", f"10.0.0.{n}") for n in range(1, len(versions or HOSTS) + 1))
    no = Missing("not asked")
    seen = (Versions("3.11", torch, None, None, None, None, None) for torch in versions or HOSTS)
    facts: dict[str, HostFacts | Unreachable] = {
        host.name: HostFacts(no, no, no, no, no, no, no, no, own) for host, own in zip(hosts, seen, strict=True)
    }
    cluster = Cluster("c", Product.CPU, hosts)
    return run_checks(cluster, ClusterFacts(facts), checks=[all_checks()[check]], hosts=hosts, rounds=rounds)


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        (("2.1", "2.1", "2.1", "2.4"), [PASS, PASS, PASS, FAIL]),
        (("2.4", "2.1", "2.1", "2.5"), [FAIL, PASS, PASS, FAIL]),
        # Nobody is right.
        (("2.1", "2.4"), [WARN, WARN]),
        (("2.1", "2.1", "2.4", "2.4"), [WARN, WARN, WARN, WARN]),
        (("2.1", "2.1", "2.4", "2.4", "2.5"), [WARN, WARN, WARN, WARN, WARN]),
        (("2.1", "2.4", "2.5"), [WARN, WARN, WARN]),
    ],
)
def test_a_comparison_without_a_majority_convicts_nobody(versions: tuple[str, ...], says: list[Outcome]) -> None:
    findings = judged("VER103", versions)
    hosts = [str(finding.host) for finding in findings]
    looks = looks_of(build("check", datetime.now(UTC), hosts, findings), sorted(hosts), NEEDS, {})
    assert [looks[host]["check"].checks["VER103"] for host in sorted(hosts)] == says


@pytest.mark.parametrize(
    "case",
    [
        "NPU103/fail-nothing-planned-and-no-majority", "NPU105/fail-half-is-elsewhere",
        "GPU117/fail-bridges-in-other-places",
    ],
)  # fmt: skip
def test_what_hosts_differ_in_and_nobody_knows_which_is_right_convicts_nobody(case: str) -> None:
    check, told_of = case.partition("/")[0], scene(read(ROOT / f"tests/cases/checks/{case}.toml"))
    findings = look(told_of, [all_checks()[check]])
    hosts = sorted(host.name for host in told_of.cluster.hosts)
    assert {finding.outcome for finding in findings} == {FAIL}
    looks = looks_of(build("check", datetime.now(UTC), hosts, findings), hosts, NEEDS, {})
    assert [looks[host]["check"].checks[check] for host in hosts] == [WARN, WARN]


def test_hosts_that_differ_from_the_majority_in_several_things_are_convicted_though_they_name_each_other() -> None:
    differs = found("ENV106", FAIL, "node01", peer="node02"), found("ENV106", FAIL, "node02", peer="node01")
    assert outcomes(*differs, found("ENV106", PASS, "node03")) == (FAIL, FAIL, PASS)


def test_what_was_seen_on_a_host_convicts_it_though_all_have_it() -> None:
    assert outcomes(*(found(OWN, FAIL, host) for host in HOSTS)) == (FAIL, FAIL, FAIL)


def ended(id_: str, host: str, end: End) -> Observation:
    """A test of a host by itself."""
    views = tuple(RankView(Member(host, rank, rank), "backend", "permission denied", end=end) for rank in (0, 1))
    members = tuple(view.member for view in views)
    return Observation(TestResult(id_, "init", "", 0, None, members, TestOutcome.FAIL, "backend"), views)


@pytest.mark.parametrize("without", [("node02",), HOSTS])
def test_a_host_that_gave_no_agent_is_unknown_and_the_others_are_not_spoken_of(without: tuple[str, ...]) -> None:
    members = [Member(host, 0, rank) for rank, host in enumerate(HOSTS)]
    called = absent(members, dict.fromkeys(without, ("python", "No module named 'torch'")), {})
    findings = judged(PROBE, rounds={"observations": (called,), "located": ()})
    assert FAIL in {finding.outcome for finding in findings}
    failed = [finding for finding in findings if finding.outcome is FAIL]
    assert outcomes(*failed) == tuple(UNKNOWN if host in without else None for host in HOSTS)


def test_a_host_that_was_lost_on_the_way_is_unknown() -> None:
    findings = judged(PROBE, rounds={"observations": (ended("r1-0", "node02", End.LOST),), "located": ()})
    failed = [finding for finding in findings if finding.outcome is FAIL]
    assert outcomes(*failed) == (None, UNKNOWN, None)


def test_what_a_check_convicts_all_hosts_of_is_nobody_s() -> None:
    """A device that the probe's user may not open, on each of them."""
    seen = tuple(ended(f"r1-{number}", host, End.EXITED) for number, host in enumerate(HOSTS))
    failed = [one for one in judged(PROBE, rounds={"observations": seen, "located": ()}) if one.outcome is FAIL]
    assert len(failed) == 3
    assert outcomes(*failed) == (WARN, WARN, WARN)
    assert outcomes(*failed[:2]) == (FAIL, FAIL, None)
    gone = found(PROBE, FAIL, "node03", culprit=culprit("host", "node03", test="r0-0"))
    assert outcomes(*failed[:2], gone) == (WARN, WARN, UNKNOWN), "all that were heard of"
    assert outcomes(*failed[:2], left_out=(LeftOut("node03", "in use"),)) == (WARN, WARN, None)
    assert outcomes(failed[0], left_out=(LeftOut("node02", "x"), LeftOut("node03", "x"))) == (FAIL, None, None)
    assert outcomes(found(PROBE, FAIL, culprit=culprit("host", *HOSTS))) == (WARN, WARN, WARN)
    alone = looks_of(build("probe", datetime.now(UTC), HOSTS[:1], failed[:1]), HOSTS[:1], NEEDS, {})
    assert alone["node01"]["probe"].outcome is FAIL, "of one host it is that host's"


def test_a_host_that_was_left_out_because_it_is_convicted_is_told_so() -> None:
    out = (LeftOut("node02", "not reached on the ports that ranks need"), LeftOut("node03", "in use"))
    blocked = found("PRB114", FAIL, "node02", culprit=culprit("host", "node02"))
    looks = told(blocked, found(PROBE, PASS, "node02"), found(PROBE, PASS, "node03"), left_out=out)
    assert looks["node02"]["probe"].outcome is FAIL
    assert looks["node03"] == {}


def test_a_check_counts_with_its_worst_outcome_and_the_look_with_that_of_its_checks() -> None:
    look = told(found(OWN, PASS, "node01"), found(OWN, FAIL, "node01"), found("NPU103", WARN, "node01"))["node01"]
    assert look["check"].checks == {OWN: FAIL, "NPU103": WARN}
    assert look["check"].outcome is FAIL
    assert [problem.outcome for problem in look["check"].problems] == [FAIL, WARN]


def test_what_was_skipped_is_not_looked_at_unless_something_else_was() -> None:
    assert told(found(OWN, SKIP, "node01"))["node01"] == {}
    look = told(found(OWN, SKIP, "node01"), found("NPU103", PASS, "node01"))["node01"]["check"]
    assert (look.outcome, look.checks, look.problems) == (PASS, {OWN: SKIP, "NPU103": PASS}, ())


def test_a_check_that_probed_leaves_a_look_of_the_probe_as_well() -> None:
    seen = found(OWN, PASS, "node01"), found(PROBE, PASS, "node01")
    assert {name: set(look.checks) for name, look in told(*seen)["node01"].items()} == {
        "check": {OWN}, "probe": {PROBE},
    }  # fmt: skip
    not_probed = found(OWN, PASS, "node01"), found(PROBE, SKIP, "node01")
    assert set(told(*not_probed)["node01"]) == {"check"}, "an earlier probe goes on counting"


def test_a_probe_leaves_no_look_of_checks_nor_on_hosts_that_it_left_out() -> None:
    seen = [found(check, PASS, host) for host in HOSTS for check in (OWN, PROBE)]
    looks = told(*seen, command="probe", left_out=(LeftOut("node02", "its devices are in use"),))
    assert {host: set(of_host) for host, of_host in looks.items()} == {
        "node01": {"probe"}, "node02": set(), "node03": {"probe"},
    }  # fmt: skip


def test_a_device_that_tests_convict_is_named_also_where_the_sentence_names_another() -> None:
    finding = found(PROBE, FAIL, "node01", device=0, culprit=culprit("device", "node02/3", "node02/5"))
    looks = told(finding)
    assert [(one.outcome, one.device) for one in looks["node02"]["probe"].problems] == [(FAIL, 3), (FAIL, 5)]
    assert [(one.outcome, one.device) for one in looks["node01"]["probe"].problems] == [(WARN, None)]


def test_no_more_problems_than_a_gate_reads_and_the_worst_of_them() -> None:
    many = [Finding(OWN, WARN, f"warning {n}", host="node01") for n in range(2 * MOST_PROBLEMS)]
    problems = told(*many, found(OWN, FAIL, "node01"))["node01"]["check"].problems
    assert len(problems) == MOST_PROBLEMS
    assert problems[0].outcome is FAIL


@given(st.text(max_size=2 * LONGEST))
def test_what_a_host_says_becomes_a_short_line_without_control_characters(text: str) -> None:
    [problem] = told(Finding(OWN, FAIL, text, host="node01"))["node01"]["check"].problems
    assert len(problem.summary) <= LONGEST
    assert problem.summary.isprintable()
    json.dumps(asdict(problem)).encode()  # also of a lone surrogate
