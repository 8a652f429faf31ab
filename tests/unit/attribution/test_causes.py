"""What facts say of somebody whom tests name: ranked causes, in the one finding of the test (attribution/causes.py)."""

from itertools import pairwise

import pytest

from preflight.attribution.causes import REASONS, FailureMode, Reason
from preflight.checks.engine.registry import all_checks
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Located, Observation
from tests.unit.probed import EVERYBODY, NAMES, cause, judged, located, seen

Scene = tuple[list[Observation], list[Located]]

WRONG = {"node05/1": {"wrong_values": 3}, "node07/1": {"wrong_values": 3}}


def tried(outcome: str, **more: str) -> Scene:
    """node03/1 is not well with two partners, which are well with others."""
    ranks = WRONG if outcome == "wrong_data" else {}
    fast = [
        seen(f"r2-{place}", f"{NAMES[place]}/0", f"{NAMES[place + 1]}/0", busbw_GBps=10.0) for place in (0, 2, 4, 6)
    ]
    return (
        [seen("r2-9", "node03/1", "node05/1", outcome=outcome, ranks=ranks, busbw_GBps=2.0, **more),
         seen("r3-9", "node03/1", "node07/1", outcome=outcome, ranks=ranks, busbw_GBps=2.0, **more), *fast,
         seen("r3-1", "node05/1", "node06/1"), seen("r3-2", "node07/1", "node08/1")],
        [located("device", ["node03/1"], ["r2-9", "r3-9", "r3-1", "r3-2"], outcome)],
    )  # fmt: skip


def alone() -> Scene:
    """node03/1 dies before it meets anybody."""
    died = {"node03/1": {"stage": "backend", "end": "error", "error": "no such device"}}
    return [seen("r1-1", *EVERYBODY, outcome="fail", stage="backend", ranks={**WAITED, **died})], []


WAITED = {place: {"stage": "store", "end": "stopped"} for place in EVERYBODY}
SCENES = {
    FailureMode.TOGETHER: tried("hang"),
    FailureMode.SLOW: tried("slow"),
    FailureMode.WRONG: tried("wrong_data"),
    FailureMode.ALONE: alone(),
}


def told(scene: Scene, *causes: Finding) -> Finding:
    (finding,) = judged(*scene, causes)
    return finding


def id_of(reason: Reason) -> str:
    """A check that it stands for."""
    return next(id_ for id_ in all_checks() if id_.startswith(reason.check))


def about_device(reason: Reason, **more: str) -> Finding:
    return cause(id_of(reason), "node03", 1, **more)


def test_every_reason_is_a_check_and_no_check_is_ranked_twice() -> None:
    ids = [id_ for reason in REASONS for id_ in all_checks() if id_.startswith(reason.check)]
    assert len(ids) == len(set(ids))
    assert all(any(id_.startswith(reason.check) for id_ in ids) for reason in REASONS)


OF_FACTS = [reason for reason in REASONS if not reason.check.startswith("PRB")]


@pytest.mark.parametrize(
    ("reason", "way"), [(reason, way) for reason in OF_FACTS for way in FailureMode],
    ids=lambda value: value.check if isinstance(value, Reason) else str(value),
)  # fmt: skip
def test_a_fact_is_the_cause_of_what_it_explains_and_of_nothing_else(reason: Reason, way: FailureMode) -> None:
    without, finding = told(SCENES[way]), told(SCENES[way], about_device(reason, outcome="warn"))
    if way not in reason.ways:
        assert finding == without
        return
    words = f"{reason.word} ({id_of(reason)})"
    assert (finding.cause, finding.culprit and finding.culprit.cause) == (words, words)
    assert finding.remedy == f"fix {id_of(reason)}"
    assert finding.retest.startswith("preflight probe")
    assert f"{id_of(reason)}: node03: device 1: what {id_of(reason)} says" in finding.evidence
    assert (finding.summary, finding.host, finding.device) == (without.summary, "node03", 1)


RANKED = [
    (way, first, second)
    for way in FailureMode
    for first, second in pairwise(reason for reason in OF_FACTS if way in reason.ways)
]


@pytest.mark.parametrize(("way", "first", "second"), RANKED, ids=lambda value: getattr(value, "check", value))
def test_what_explains_more_is_the_cause_and_the_rest_is_evidence(
    way: FailureMode, first: Reason, second: Reason
) -> None:
    finding = told(SCENES[way], about_device(second), about_device(first))
    assert finding.cause.endswith(f"({id_of(first)})")
    lines = [line.partition(":")[0] for line in finding.evidence]
    assert lines.index(id_of(first)) < lines.index(id_of(second))


def test_the_order_is_that_of_the_field() -> None:
    order = [reason.check for reason in REASONS]
    ranked = ["NPU107", "NPU101", "NPU102", "NPU103", "NPU115", "NPU108", "NIC102", "NIC101", "NIC109", "NPU114"]
    assert sorted(ranked, key=order.index) == ranked
    of_gpus = ["GPU102", "GPU112", "GPU104", "GPU107", "RDM101", "RDM104", "RDM106", "RDM103", "GPU105", "GPU108"]
    assert sorted(of_gpus, key=order.index) == of_gpus


# Whose facts.

LINK_DOWN = cause("NPU107", "node03", 1)


def test_a_failure_goes_before_a_warning() -> None:
    finding = told(SCENES[FailureMode.TOGETHER], cause("NPU115", "node03", 1, "warn"), cause("NIC102", "node03", 1))
    assert finding.cause == "optics out of limits (NIC102)"


def test_the_device_s_own_facts_go_before_its_host_s() -> None:
    finding = told(SCENES[FailureMode.TOGETHER], cause("FWL101", "node03"), cause("NIC101", "node03", 1, "warn"))
    assert finding.cause == "link flaps (NIC101)"
    assert (
        told(SCENES[FailureMode.TOGETHER], cause("FWL101", "node03")).cause == "port blocked by the firewall (FWL101)"
    )


def test_its_host_s_facts_go_before_those_of_whom_it_is_the_other_end() -> None:
    other = cause("NIC105", "node06", 1, peer="node03/1")
    finding = told(SCENES[FailureMode.TOGETHER], other, cause("FWL101", "node03"))
    assert finding.cause == "port blocked by the firewall (FWL101)"
    assert told(SCENES[FailureMode.TOGETHER], other).cause == "cabled in another way (NIC105)"


@pytest.mark.parametrize(
    "elsewhere", [cause("NPU107", "node03", 0), cause("NPU107", "node05", 1), cause("PNG101", None, rail=0),
                  cause("NPU107", "node03", 1, "unknown"), cause("HST106", "node03")],
)  # fmt: skip
def test_what_is_said_of_others_or_does_not_explain_it_changes_nothing(elsewhere: Finding) -> None:
    assert told(SCENES[FailureMode.TOGETHER], elsewhere) == told(SCENES[FailureMode.TOGETHER])


def test_what_is_said_of_no_host_in_particular_is_evidence_about_a_single_one() -> None:
    finding = told(SCENES[FailureMode.TOGETHER], cause("PNG101", None))
    assert finding.cause == told(SCENES[FailureMode.TOGETHER]).cause
    assert "PNG101: what PNG101 says" in finding.evidence


def host_hangs() -> Scene:
    pairs = [(place, rail) for place in ("node05", "node07") for rail in (0, 1)]
    tests = [seen(f"r2-{n}", f"node03/{rail}", f"{to}/{rail}", outcome="hang") for n, (to, rail) in enumerate(pairs)]
    well = [seen("r3-0", "node05/0", "node07/0")]
    return [*tests, *well], [located("host", ["node03"], [one.test.id for one in (*tests, *well)])]


def test_a_host_is_explained_by_most_of_its_devices_not_by_one_of_them() -> None:
    both = told(host_hangs(), cause("NPU108", "node03", 0), cause("NPU108", "node03", 1))
    assert both.cause == "TLS switch differs (NPU108)"
    assert "NPU108: node03: device 0: what NPU108 says (and 1 more)" in both.evidence
    one = told(host_hangs(), LINK_DOWN, cause("FWL101", "node03"))
    assert one.cause == "port blocked by the firewall (FWL101)"
    assert "NPU107: node03: device 1: what NPU107 says" in one.evidence


def test_a_link_is_explained_by_either_end_which_is_named() -> None:
    tests = [seen(f"r{number}-1", "node03/1", "node07/1", outcome="hang") for number in (2, 3, 4)]
    link = located("link", ["node03/1", "node07/1"], [one.test.id for one in tests])
    assert told((tests, [link]), cause("NIC102", "node07", 1)).cause == "optics out of limits at node07/1 (NIC102)"


def system(causes: list[Finding]) -> Finding:
    tests = [seen(f"r2-{n}", f"{NAMES[n]}/0", f"{NAMES[n + 1]}/0", outcome="hang") for n in range(0, 8, 2)]
    return told((tests, [located("system", (), [one.test.id for one in tests])]), *causes)


def test_a_system_is_explained_by_what_most_hosts_have_in_common() -> None:
    assert system([cause("FWL101", name) for name in NAMES[:5]]).cause == "port blocked by the firewall (FWL101)"
    few = system([cause("FWL101", name) for name in NAMES[:4]])
    assert "FWL101" not in few.cause
    assert any(line.startswith("FWL101: node01") for line in few.evidence)
    assert system([cause("PNG101", None)]).cause == "pings lost on the way (PNG101)"


def test_a_group_that_stopped_is_explained_by_a_failure_of_one_of_its_hosts() -> None:
    stopped = [seen("r1-1", *EVERYBODY, outcome="hang")]
    assert told((stopped, []), cause("FWL101", "node03")).cause == "port blocked by the firewall at node03 (FWL101)"
    assert told((stopped, []), cause("FWL101", "node03", outcome="warn")) == told((stopped, []))


@pytest.mark.parametrize("outcome", ["hang", "slow"])
def test_the_devices_network_explains_nothing_of_tests_over_gloo(outcome: str) -> None:
    scene = tried(outcome, backend="gloo")
    assert told(scene, LINK_DOWN, cause("NIC102", "node03", 1)) == told(scene)
    assert told(scene, cause("NPU113", "node03", 1)).cause == "unhealthy device (NPU113)"


# Whom facts name where tests cannot.

PAIR = [seen("r2-1", "node03/1", "node05/1", outcome="hang")]


def test_of_a_pair_that_stopped_the_end_of_which_facts_know_something_is_the_culprit_once() -> None:
    assert [finding.host for finding in judged(PAIR, [])] == ["node03", "node05"]
    finding = told((PAIR, []), cause("NPU107", "node05", 1))
    assert (finding.host, finding.device, finding.peer) == ("node05", 1, "node03/1")
    assert finding.culprit == Culprit("device", ("node05/1",), ("r2-1",), "link down at node05/1 (NPU107)")
    of_host = told((PAIR, []), cause("FWL101", "node03"))
    assert of_host.culprit == Culprit("host", ("node03",), ("r2-1",), "port blocked by the firewall at node03 (FWL101)")


def test_a_pair_of_which_both_ends_have_the_same_fault_stays_a_pair() -> None:
    findings = judged(PAIR, [], [cause("NPU107", "node05", 1), cause("NPU107", "node03", 1)])
    assert [finding.host for finding in findings] == ["node03", "node05"]
    assert {finding.culprit.kind for finding in findings if finding.culprit} == {"link"}


def test_a_group_that_stopped_has_the_culprit_that_pings_name() -> None:
    parted = Culprit("partition", ("node07", "node08"), (), "pings lost")
    finding = told(([seen("r1-1", *EVERYBODY, outcome="hang")], []), cause("PNG101", None, culprit=parted))
    assert finding.culprit == Culprit("partition", ("node07", "node08"), ("r1-1",), "pings lost on the way (PNG101)")


# What the probe itself has told.

BLOCKED = cause("PRB114", "node03")


def test_a_stop_that_the_port_rehearsal_explains_is_not_told_again() -> None:
    assert judged([seen("r1-1", *EVERYBODY, outcome="hang")], [], [BLOCKED]) == []
    assert judged(*host_hangs(), [BLOCKED]) == []


def test_a_waived_port_rehearsal_hides_nothing() -> None:
    finding = told(host_hangs(), cause("PRB114", "node03", outcome="warn"))
    assert (finding.outcome, finding.cause) == ("fail", "port blocked or held (PRB114)")


def test_a_device_that_alone_of_its_host_hangs_is_told_though_ports_are_blocked_there() -> None:
    assert told(SCENES[FailureMode.TOGETHER], BLOCKED).culprit == Culprit(
        "device", ("node03/1",), ("r2-9", "r3-9", "r3-1", "r3-2"), "port blocked or held (PRB114)"
    )


def test_a_device_that_is_slow_by_itself_is_not_told_again_when_it_is_slow_in_pairs() -> None:
    assert judged(*SCENES[FailureMode.SLOW], [cause("PRB112", "node03", 1)]) == []
    assert told(SCENES[FailureMode.TOGETHER], cause("PRB112", "node03", 1)) == told(SCENES[FailureMode.TOGETHER])


@pytest.mark.parametrize("turned", [False, True])
def test_a_doubled_address_stops_groups_without_its_device_too_and_is_told_once(turned: bool) -> None:
    observations, named = SCENES[FailureMode.TOGETHER]
    own, other, third = "node03/1", "node08/1", "node02"
    groups = [
        seen(f"r{number}-0", "node03/0", f"{host}/0", f"{host}/1", outcome="hang")
        for number, host in ((8, "node08"), (9, "node08"))
    ]
    more = [seen(f"r{number}-0", "node08/0", "node08/1", f"{third}/0", outcome="hang") for number in (10, 11)]
    links = [located("link", ["node03", "node08"], ["r8-0", "r9-0"]), located("link", [third, "node08"], ["r10-0"])]
    scene = [*observations, *groups, *more], [*named, *links]
    place, peer = (other, own) if turned else (own, other)
    host, _, device = place.partition("/")
    lost = cause("PNG101", "node03", 1)
    (finding,) = judged(*scene, [lost, cause("NPU102", host, int(device), peer=peer)])
    assert (finding.host, finding.cause) == (
        "node03",
        f"device address twice{' at ' + other if turned else ''} (NPU102)",
    )
    assert finding.culprit
    assert (finding.culprit.kind, finding.culprit.members) == ("device", (place,)), "facts know which of the two"
    assert len(judged(*scene, [lost])) == 3


def test_of_two_devices_with_one_address_the_wrong_one_is_named_and_no_rank_that_reached_neither() -> None:
    waited = {place: {"stage": "communicator", "end": "stopped"} for place in EVERYBODY[1:]}
    failed = {EVERYBODY[0]: {"stage": "peers", "end": "error", "error": "Getting socket times out"}}
    everybody = seen("r9-0", *EVERYBODY, outcome="fail", stage="peers", ranks={**waited, **failed})
    pair = seen("r3-6", "node03/1", "node05/1", outcome="fail", stage="peers")
    named = [located("intermittent device", ["node03/1"], ["r3-6"], "fail")]
    twice = cause("NPU102", "node03", 1, peer="node08/0")
    (finding,) = judged([pair, everybody], named, [cause("NPU101", "node03", 1), twice])
    assert (finding.outcome, finding.cause) == ("fail", "wrong device address (NPU101)")
    assert finding.culprit
    assert finding.culprit.members == ("node03/1",)
    without_reason = judged([pair, everybody], named, [])
    assert [(finding.outcome, finding.device) for finding in without_reason] == [("fail", 0), ("warn", 1)]
    elsewhere = judged([pair, everybody], named, [cause("NPU102", "node02", 0, peer="node04/0")])
    assert len(elsewhere) == 2, "tests identify neither of these two"


def test_a_device_explains_its_host_where_all_devices_took_part() -> None:
    partners = ("node05", "node07", "node08")
    groups = [
        seen(f"r{n}-0", "node03/0", "node03/1", f"{host}/0", f"{host}/1", outcome="hang")
        for n, host in enumerate(partners, 2)
    ]
    scene = groups, [located("host", ["node03"], [group.test.id for group in groups])]
    finding = told(scene, cause("NPU102", "node03", 0, peer="node06/0"))
    assert finding.cause == "device address twice at node03/0 (NPU102)"
    assert finding.culprit
    assert (finding.culprit.kind, finding.culprit.members) == ("device", ("node03/0",))
    assert not told(scene, cause("NPU108", "node03", 0, "warn")).cause.endswith("(NPU108)")
