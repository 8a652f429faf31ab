"""Whom tests with different partners name: one finding an object, and nobody told twice (PRB101, PRB102, PRB103)."""

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preflight.checks.engine.registry import all_checks
from preflight.cli.commands import probe as probe_command
from preflight.inventory import fold
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Located, Observation
from preflight.report.build import _naming
from preflight.report.text import finding_lines
from tests.unit import probed
from tests.unit.probed import EVERYBODY, NAMES, cause, judged, located, seen

HUNG = {"outcome": "hang"}
ALL_HUNG = seen("r1-1", *EVERYBODY, outcome="hang")


def well(id_: str, *places: str) -> Observation:
    return seen(id_, *places, busbw_GBps=10.0)


DEVICE = (
    [ALL_HUNG, seen("r2-1", "node03/1", "node05/1", **HUNG), seen("r3-1", "node03/1", "node07/1", **HUNG),
     well("r3-2", "node05/1", "node06/1"), well("r4-1", "node07/1", "node08/1")],
    [located("device", ["node03/1"], ["r2-1", "r3-1", "r3-2", "r4-1"])],
)  # fmt: skip
HOST = (
    [ALL_HUNG, *(seen(f"r2-{rail}", f"node03/{rail}", f"node05/{rail}", **HUNG) for rail in (0, 1)),
     *(seen(f"r3-{rail}", f"node03/{rail}", f"node07/{rail}", **HUNG) for rail in (0, 1)),
     well("r4-0", "node05/0", "node07/0"), well("r4-1", "node05/1", "node07/1")],
    [located("host", ["node03"], ["r2-0", "r2-1", "r3-0", "r3-1", "r4-0", "r4-1"])],
)  # fmt: skip
LINK = (
    [ALL_HUNG, *(seen(f"r{number}-1", "node03/1", "node07/1", **HUNG) for number in (2, 3, 4)),
     well("r3-2", "node03/1", "node05/1"), well("r3-3", "node07/1", "node08/1")],
    [located("link", ["node03/1", "node07/1"], ["r2-1", "r3-1", "r4-1"])],
)  # fmt: skip
RAIL = (
    [ALL_HUNG, *(seen(f"r2-{place}", f"{NAMES[place]}/1", f"{NAMES[place + 1]}/1", **HUNG) for place in range(0, 8, 2)),
     well("r2-9", "node01/0", "node02/0")],
    [located("rail", [f"{name}/1" for name in NAMES], [f"r2-{place}" for place in range(0, 8, 2)])],
)  # fmt: skip
PARTS = NAMES[:4], NAMES[4:]
PARTITION = (
    [ALL_HUNG, *(seen(f"r2-{place}", f"{one}/0", f"{other}/0", **HUNG)
                 for place, (one, other) in enumerate(zip(*PARTS, strict=True))),
     well("r3-0", "node01/0", "node02/0"), well("r3-1", "node05/0", "node06/0")],
    [located("partition", part, ["r2-0", "r2-1", "r2-2", "r2-3"]) for part in PARTS],
)  # fmt: skip
THREE = ("node01", "node02", "node05")
SCALE = (
    [ALL_HUNG, *(seen(f"r{number}-0", *(f"{name}/{rail}" for name in THREE for rail in (0, 1)), outcome="hang")
                 for number in (3, 4)),
     well("r2-0", "node01/0", "node02/0"), well("r2-1", "node01/0", "node05/0")],
    [located("scale", THREE, ["r3-0", "r4-0"])],
)  # fmt: skip
SYSTEM = (
    [ALL_HUNG,
     *(seen(f"r2-{place}", f"{NAMES[place]}/0", f"{NAMES[place + 1]}/0", **HUNG) for place in range(0, 8, 2))],
    [located("system", (), [f"r2-{place}" for place in range(0, 8, 2)])],
)  # fmt: skip

KINDS: dict[str, tuple[Any, str, tuple[str | None, int | None, int | None, str | None], str]] = {
    "device": (DEVICE, "node03: device 1 hung while creating the communicator (last stage: peers). "
               "Its partners node05/1 and node07/1 pass with other partners", ("node03", 1, None, None),
               "preflight probe --limit node03,node05 --scope pair"),
    "host": (HOST, "node03: 2 ranks (devices 0-1) hung while creating the communicator (last stage: peers). "
             "Its partners node05 and node07 pass with other partners", ("node03", None, None, None),
             "preflight probe --limit node03,node05 --scope pair"),
    "link": (LINK, "node03: node03/1 and node07/1 hang with each other. Both pass with other partners",
             ("node03", 1, None, "node07/1"), "preflight probe --limit node03,node07 --scope pair"),
    "rail": (RAIL, "rail 1: all tests along it hang on 8 hosts. Other rails pass", (None, None, 1, None),
             "preflight probe --scope rail"),
    "partition": (PARTITION, "tests between 2 groups hang: node[01-04] | node[05-08]. Tests within each group pass",
                  (None, None, None, None), "preflight probe --limit node01,node05 --scope pair"),
    "scale": (SCALE, "node[01-02,05] hang together. All tests with fewer of these members pass",
              (None, None, None, None), "preflight probe --limit node01,node02,node05 --scope all"),
    "system": (SYSTEM, "every pair hangs, so the culprit cannot be identified", (None, None, None, None),
               "preflight probe --scope pair"),
}  # fmt: skip


def told(scene: tuple[list[Observation], list[Located]], causes: tuple[Finding, ...] = ()) -> Finding:
    """The one finding."""
    observations, named = scene
    (finding,) = judged(observations, named, causes)
    return finding


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_located_is_one_finding_and_what_failed_because_of_it_is_evidence(kind: str) -> None:
    scene, summary, subject, command = KINDS[kind]
    finding = told(scene)
    assert (finding.check, finding.outcome, finding.summary) == ("PRB101", "fail", summary)
    assert (finding.host, finding.device, finding.rail, finding.peer) == subject
    assert finding.retest == command
    if kind != "system":
        assert "test r1-1: 16 ranks stopped after stage peers" in finding.evidence


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_reads_who_it_is_by_which_tests_and_the_class_of_cause(kind: str) -> None:
    (_, named), *_ = KINDS[kind]
    members = named[-1].members  # of a partition those that are not in the first of its groups
    culprit = told(KINDS[kind][0]).culprit
    assert culprit == Culprit(kind, tuple(sorted(members)), named[0].tests, "stuck at communicator")


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_is_one_that_preflight_takes(kind: str) -> None:
    parser = argparse.ArgumentParser()
    probe_command.add_arguments(parser)
    named = _naming(Path("my hosts.toml"), told(KINDS[kind][0])).retest
    *_, command = named.partition("preflight probe ")
    asked = parser.parse_args(shlex.split(command))
    assert str(asked.inventory) == "my hosts.toml"


@pytest.mark.parametrize("kind", KINDS)
def test_a_terminal_of_80_columns_holds_it(kind: str) -> None:
    titles = {id_: check.title for id_, check in all_checks().items()}
    lines = finding_lines([told(KINDS[kind][0])], titles, fold=fold, width=80)
    assert max(len(line.text) for line in lines) <= 80


def test_the_partners_stand_there_with_the_tests_in_which_they_pass_with_others() -> None:
    assert told(DEVICE).evidence[:2] == (
        "hung with node05/1 (test r2-1), node07/1 (test r3-1)",
        "the same partners pass with other devices (tests r3-2, r4-1)",
    )
    assert told(HOST).evidence[:2] == (
        "hung with node05 (tests r2-0 and 1 more), node07 (tests r3-0 and 1 more)",
        "the same partners pass with other devices (tests r4-0, r4-1)",
    )


def test_many_hosts_are_folded_in_the_command() -> None:
    five = NAMES[:5]
    observations = [seen("r3-0", *(f"{name}/0" for name in five), outcome="hang"), well("r2-0", "node01/0", "node02/0")]
    finding = told((observations, [located("scale", five, ["r3-0"])]))
    assert finding.retest.endswith("preflight probe --limit 'node[01-05]' --scope all")


def test_parts_of_devices_that_lie_on_several_rails_are_one_partition() -> None:
    sides = ["node01/0", "node02/0"], ["node01/1", "node02/1"]
    observations = [
        seen("r2-0", "node01/0", "node02/1", outcome="hang"),
        well("r2-1", *sides[0]),
        well("r2-2", *sides[1]),
    ]
    finding = told((observations, [located("partition", side, ["r2-0"]) for side in sides]))
    assert finding.summary.startswith("tests between 2 groups hang: node[01-02]/0 | node[01-02]/1.")


def test_of_three_parts_the_two_that_do_not_reach_the_largest_are_the_culprit() -> None:
    parts = [["node07", "node08"], list(NAMES[:5]), ["node06"]]
    observations = [seen("r2-0", "node01/0", "node07/0", outcome="hang"), well("r2-1", "node01/0", "node02/0")]
    finding = told((observations, [located("partition", part, ["r2-0"]) for part in parts]))
    assert finding.summary.startswith("tests between 3 groups hang: node[01-05] | node[07-08] | node06.")
    assert finding.culprit is not None
    assert finding.culprit.members == ("node06", "node07", "node08")


def test_two_rails_that_are_parted_are_two_findings() -> None:
    observations = [seen(f"r2-{rail}", f"node01/{rail}", f"node05/{rail}", outcome="hang") for rail in (0, 1)]
    named = [
        located("partition", [f"{name}/{rail}" for name in part], [f"r2-{rail}"]) for rail in (0, 1) for part in PARTS
    ]
    assert [finding.culprit.tests for finding in judged(observations, named) if finding.culprit] == [
        ("r2-0",),
        ("r2-1",),
    ]


def test_that_all_others_do_well_together_is_evidence() -> None:
    others = [place for place in EVERYBODY if place != "node03/1"]
    finding = told(([*DEVICE[0], well("r5-1", *others[:4]), well("r5-2", *others)], DEVICE[1]))
    assert finding.evidence[-1] == "test r5-2: 15 other ranks passed together"


def test_a_group_that_stopped_and_did_well_when_tried_again_is_still_a_failure() -> None:
    finding = told(([ALL_HUNG, well("r3-0", *EVERYBODY)], []))
    assert finding.outcome == "fail"
    assert finding.summary.endswith(
        "They waited for one another at stage communicator. A later test of the same ranks passed (r3-0)"
    )


def stopped_pairs(number: int) -> list[Observation]:
    """One pair after the other; node01 is in all of them, and well with none."""
    return [seen(f"r{n + 2}-0", "node01/0", f"{NAMES[n + 1]}/0", outcome="hang") for n in range(number)]


def test_many_pairs_of_which_nobody_is_named_are_one_finding_and_few_are_told_each_from_both_ends() -> None:
    finding = told((stopped_pairs(4), []))
    assert (finding.host, finding.culprit) == (None, None)
    assert finding.summary == "both devices of 4 pairs stopped, so the culprit cannot be identified"
    assert finding.evidence[0] == "node01/0 with node02/0 (test r2-0), last stage: peers"
    assert len(judged(stopped_pairs(3), [])) == 6


# Who fails now and then.

NOW_AND_THEN = [seen("r2-1", "node03/1", "node05/1", **HUNG), seen("r3-1", "node03/1", "node07/1", **HUNG),
                well("r4-1", "node03/1", "node08/1")]  # fmt: skip
FLICKERS = [located("intermittent device", ["node03/1"], ["r2-1", "r3-1"])]


def test_who_fails_now_and_then_is_a_warning_and_nobody_is_a_culprit() -> None:
    finding = told((NOW_AND_THEN, FLICKERS))
    assert (finding.outcome, finding.host, finding.device, finding.culprit) == ("warn", "node03", 1, None)
    assert finding.summary == "node03: device 1 hangs intermittently. Some of its tests pass"


def test_that_everybody_stopped_is_not_excused_by_somebody_who_fails_now_and_then() -> None:
    findings = judged([ALL_HUNG, *NOW_AND_THEN], FLICKERS)
    assert [(finding.outcome, finding.host) for finding in findings] == [("warn", "node03"), ("fail", None)]


def test_wrong_data_now_and_then_is_a_failure() -> None:
    wrong = {"node05/1": {"wrong_values": 3}}
    observations = [seen("r2-1", "node03/1", "node05/1", outcome="wrong_data", ranks=wrong), *NOW_AND_THEN[2:]]
    finding = told((observations, [located("intermittent device", ["node03/1"], ["r2-1"], "wrong_data")]))
    assert (finding.check, finding.outcome, finding.host, finding.device) == ("PRB102", "fail", "node03", 1)
    assert finding.culprit == Culprit("device", ("node03/1",), ("r2-1",), "wrong data")


def test_a_pair_that_stopped_once_and_did_well_when_tried_again_is_a_warning() -> None:
    again = [seen("r2-1", "node03/1", "node05/1", **HUNG), well("r3-1", "node03/1", "node05/1")]
    finding = told((again, []))
    assert (finding.outcome, finding.culprit) == ("warn", None)
    assert finding.summary.endswith(
        "both stopped while creating the communicator (last stage: peers). A later test of the same ranks passed (r3-1)"
    )


def test_a_pair_of_which_another_test_of_the_same_round_passed_has_not_done_well_again() -> None:
    findings = judged([seen("r2-1", "node03/1", "node05/1", **HUNG), well("r2-2", "node03/1", "node05/1")], [])
    assert [finding.outcome for finding in findings] == ["fail", "fail"]


# Who stayed behind in everybody's test.


def with_views(**ranks: dict[str, Any]) -> Observation:
    """Everybody stops, and of some devices ("node03_1") more is known."""
    known = {place.replace("_", "/"): view for place, view in ranks.items()}
    return seen("r1-1", *EVERYBODY, outcome="fail", ranks=known)


def test_who_stayed_behind_with_everybody_and_fails_in_pairs_is_told_once() -> None:
    late = with_views(node03_1={"stage": "store", "end": "overdue"})
    finding = told(([late, *DEVICE[0][1:]], DEVICE[1]))
    assert finding.summary.startswith(
        "node03: device 1 (rank 5) hung while joining the other ranks (last stage: store)"
    )
    assert finding.evidence[0].startswith("hung with node05/1 (test r2-1)")
    assert finding.culprit == Culprit("device", ("node03/1",), DEVICE[1][0].tests, "stuck at peers")


def test_who_only_waited_longest_is_let_go_when_it_does_well_with_others() -> None:
    error = {"end": "error", "error": "EI0006: no socket in time"}
    waits = {place.replace("/", "_"): {"end": "stopped"} for place in EVERYBODY}
    complains = with_views(**{**waits, "node05_1": error})
    finding = told(([complains, *DEVICE[0][1:]], DEVICE[1]))
    assert (finding.host, finding.device) == ("node03", 1)
    (alone,) = judged([complains])
    assert (alone.host, alone.device) == ("node05", 1), "nobody else is known"


def test_of_a_link_facts_may_know_which_end_it_is() -> None:
    first = judged(*LINK, [cause("NPU101", "node07", 1)])[0].culprit
    assert first
    assert (first.kind, first.members) == ("device", ("node07/1",))
    for told_ in (
        [],
        [cause("NPU101", "node07", 1, "warn")],
        [cause("NPU101", name, 1) for name in ("node03", "node07")],
    ):
        link = judged(*LINK, told_)[0].culprit
        assert link
        assert link.kind == "link"


@pytest.mark.parametrize("end", ["error", "overdue"])  # it was just ending by itself when its agent came to kill it
@pytest.mark.parametrize("scene", [LINK, RAIL, PARTITION], ids=["link", "rail", "partition"])
def test_who_only_waited_longest_is_let_go_when_what_lies_between_is_named(scene: Any, end: str) -> None:
    observations, named = scene
    own = named[0].members[-1] if "/" in named[0].members[0] else f"{named[0].members[-1]}/0"
    waits = {place.replace("/", "_"): {"end": "stopped"} for place in EVERYBODY}
    first = {"end": end, "error": "EI0006: no socket in time", "state": "Z"}
    complains = with_views(**{**waits, own.replace("/", "_"): first})
    (finding,) = judged([complains, *observations[1:]], named)
    assert finding.culprit is not None
    assert finding.culprit.kind == named[0].kind


def test_who_complains_first_in_a_pair_is_let_go_when_it_does_well_in_others() -> None:
    views = {"node05/1": {"end": "error", "error": "EI0006: no socket"}, "node03/1": {"end": "stopped"}}
    pair = seen("r2-1", "node03/1", "node05/1", outcome="fail", ranks=views)
    again = [well("r3-1", "node03/1", "node05/1"), well("r3-2", "node05/1", "node06/1")]
    (once,) = judged([pair, *again], [])
    assert (once.outcome, once.summary.endswith("A later test of the same ranks passed (r3-1)")) == ("warn", True)
    (unsought,) = judged([pair, *again])
    assert (unsought.outcome, unsought.host) == ("fail", "node05"), "where nobody seeks, one test has to do"


def test_who_was_killed_is_told_beside_somebody_who_fails_in_pairs() -> None:
    killed = with_views(node05_1={"end": "killed", "stage": "iteration"})
    findings = judged([killed, *DEVICE[0][1:]], DEVICE[1])
    assert {(finding.host, finding.device) for finding in findings} == {("node03", 1), ("node05", 1)}
    assert {finding.culprit.cause for finding in findings if finding.culprit} == {"killed", "stuck at communicator"}


def test_a_host_that_was_lost_is_told_once_whatever_its_ranks_were_at() -> None:
    lost = {place: {"end": "lost", "error": "srun: task 1: Killed"} for place in ("node02/0", "node02/1")}
    found = judged([
        seen("r1-0", "node02/0", outcome="fail", stage="iteration", scope="device", ranks=lost),
        seen("r1-1", "node02/1", outcome="fail", stage="warm-up", scope="device", ranks=lost),
        seen("r1-2", "node01/0", scope="device"),
    ])  # fmt: skip
    assert [finding.host for finding in found] == ["node02"]
    assert found[0].summary.startswith(
        "node02: both ranks failed during the warm-up of a test (last stage: warm-up): srun"
    )
    assert any("r1-0, r1-1" in line for line in found[0].evidence)


def test_a_host_whose_ranks_all_stayed_behind_is_the_culprit_not_its_devices() -> None:
    late = {"stage": "device", "end": "overdue"}
    finding = told(([with_views(node03_0=late, node03_1=late)], []))
    assert finding.culprit == Culprit("host", ("node03",), ("r1-1",), "stuck at store")


# Slow and wrong.

FAST = [seen(f"r2-{2 * place + rail}", f"{NAMES[2 * place]}/{rail}", f"{NAMES[2 * place + 1]}/{rail}", busbw_GBps=10.0)
        for place in (1, 2, 3) for rail in (0, 1)]  # fmt: skip
ONE_WAY = [("r4-2", 0, 0.4), ("r4-3", 1, 1.9)]


def slow(id_: str, *places: str, busbw: float = 2.0) -> Observation:
    return seen(id_, *places, outcome="slow", busbw_GBps=busbw)


def one_way(*places: str) -> list[Observation]:
    return [seen(id_, *places, op="broadcast", root=root, busbw_GBps=speed) for id_, root, speed in ONE_WAY]


SLOW_DEVICE = [slow("r2-1", "node01/1", "node02/1"), slow("r3-1", "node01/1", "node04/1", busbw=1.8), *FAST]


def test_a_slow_device_is_named_with_what_it_sends_and_receives() -> None:
    named = located("device", ["node01/1"], ["r2-1", "r3-1", "r2-3"], "slow", "both")
    finding = told(([*SLOW_DEVICE, *one_way("node01/1", "node04/1")], [named]))
    assert (finding.check, finding.outcome, finding.host, finding.device) == ("PRB103", "fail", "node01", 1)
    assert finding.summary == (
        "node01: device 1 is slow: 1.80 GB/s (median pair: 10.00 GB/s). It sends at 0.40 GB/s and receives at 1.90 GB/s"
    )
    assert finding.evidence[0] == "slow with node02/1 (test r2-1, 2.00 GB/s), node04/1 (test r3-1, 1.80 GB/s)"


@pytest.mark.parametrize(
    ("direction", "word"), [("sends", "sends slowly"), ("receives", "receives slowly"), ("", "slow")]
)
def test_the_direction_is_the_class_of_cause(direction: str, word: str) -> None:
    finding = told((SLOW_DEVICE, [located("device", ["node01/1"], ["r2-1", "r3-1"], "slow", direction)]))
    assert finding.culprit is not None
    assert finding.culprit.cause == word


def test_somewhat_slow_is_a_warning_and_nobody_is_a_culprit() -> None:
    observations = [
        slow("r2-1", "node01/1", "node02/1", busbw=9.0),
        slow("r3-1", "node01/1", "node04/1", busbw=9.1),
        *FAST,
    ]
    finding = told((observations, [located("device", ["node01/1"], ["r2-1", "r3-1"], "slow")]))
    assert (finding.outcome, finding.culprit) == ("warn", None)


def test_a_slow_link_is_told_from_its_first_end() -> None:
    pair = "node01/1", "node02/1"
    observations = [slow("r2-1", *pair), slow("r3-1", *pair), *FAST, *one_way(*pair)]
    finding = told((observations, [located("link", pair, ["r2-1", "r3-1"], "slow", "sends")]))
    assert finding.summary.startswith("node01: node01/1 and node02/1 are slow together: 2.00 GB/s")
    assert (finding.cause, finding.peer) == ("the path between them", "node02/1")
    assert finding.summary.endswith(". node01/1 sends at 0.40 GB/s and receives at 1.90 GB/s")


def test_a_slow_rail_takes_its_pairs_with_it() -> None:
    pairs = [slow(f"r2-{9 + place}", f"{NAMES[place]}/1", f"{NAMES[place + 1]}/1") for place in (0, 2, 4, 6)]
    fast = [
        seen(f"r2-{place}", f"{NAMES[place]}/0", f"{NAMES[place + 1]}/0", busbw_GBps=10.0) for place in (0, 2, 4, 6)
    ]
    more = [seen(f"r3-{place}", f"{NAMES[place]}/0", f"{NAMES[place + 2]}/0", busbw_GBps=10.0) for place in (0, 1, 4)]
    named = located("rail", [f"{name}/1" for name in NAMES], [one.test.id for one in pairs], "slow")
    finding = told(([*pairs, *fast, *more], [named]))
    assert (finding.rail, finding.host) == (1, None)
    assert finding.summary.startswith(
        "rail 1: all tests along it are slow on 8 hosts. Other rails pass. The slowest pair reaches 2.00 GB/s"
    )


def test_a_slow_uplink_is_the_failure_of_the_part_behind_it_though_half_of_the_pairs_are_slow() -> None:
    across = [slow(f"r2-{n}", f"{one}/0", f"{other}/0") for n, (one, other) in enumerate(zip(*PARTS, strict=True))]
    inside = [seen(f"r3-{n}", f"{part[n]}/0", f"{part[n + 1]}/0", busbw_GBps=10.0) for part in PARTS for n in (0, 2)]
    finding = told(
        ([*across, *inside], [located("partition", part, [f"r2-{n}" for n in range(4)], "slow") for part in PARTS])
    )
    assert finding.outcome == "fail"
    assert finding.summary == (
        "tests between 2 groups are slow: node[01-04] | node[05-08]. Tests within each group pass. The slowest pair "
        "reaches 2.00 GB/s (median pair: 10.00 GB/s)"
    )
    assert finding.culprit == Culprit("partition", PARTS[1], ("r2-0", "r2-1", "r2-2", "r2-3"), "slow")


def test_what_is_many_times_slower_than_all_others_is_a_failure_however_much_those_differ() -> None:
    across = [slow(f"r2-{n}", f"{one}/0", f"{other}/0") for n, (one, other) in enumerate(zip(*PARTS, strict=True))]
    speeds = iter((6.0, 10.9, 11.2, 6.4))
    inside = [
        seen(f"r3-{n}", f"{part[n]}/0", f"{part[n + 1]}/0", busbw_GBps=next(speeds)) for part in PARTS for n in (0, 2)
    ]
    parts = [located("partition", part, [f"r2-{n}" for n in range(4)], "slow") for part in PARTS]
    assert told(([*across, *inside], parts)).outcome == "fail"
    closer = [slow(f"r2-{n}", f"{a}/0", f"{b}/0", busbw=4.0) for n, (a, b) in enumerate(zip(*PARTS, strict=True))]
    assert told(([*closer, *inside], parts)).outcome == "warn"


@pytest.mark.parametrize(("stage", "findings"), [("iteration", 1), ("device", 3)])
def test_what_is_too_slow_for_its_deadline_is_told_with_what_is_slow(stage: str, findings: int) -> None:
    across = [slow(f"r2-{n}", f"{one}/0", f"{other}/0") for n, (one, other) in enumerate(zip(*PARTS, strict=True))]
    inside = [seen(f"r3-{n}", f"{part[n]}/0", f"{part[n + 1]}/0", busbw_GBps=10.0) for part in PARTS for n in (0, 2)]
    late = seen("r4-0", "node01/0", "node06/0", outcome="hang", stage=stage)
    ids = [f"r2-{n}" for n in range(4)]
    told_ = judged([*across, *inside, late], [located("partition", part, ids, "slow") for part in PARTS])
    assert len([finding for finding in told_ if finding.outcome == "fail"]) == findings


def test_whose_data_is_wrong_by_its_pattern_and_by_its_partners_is_told_once() -> None:
    ranks = {"node05/1": {"wrong_values": 3, "suspect_rank": 0}, "node07/1": {"wrong_values": 3}}
    observations = [
        seen("r2-1", "node03/1", "node05/1", outcome="wrong_data", ranks=ranks),
        seen("r3-1", "node03/1", "node07/1", outcome="wrong_data", ranks=ranks), *DEVICE[0][3:],
    ]  # fmt: skip
    finding = told((observations, [located("device", ["node03/1"], DEVICE[1][0].tests, "wrong_data")]))
    assert (
        finding.summary
        == "node03: device 1 produces wrong data with every partner. The same partners pass with other devices"
    )
    assert finding.evidence[0] == "wrong data with node05/1 (test r2-1), node07/1 (test r3-1)"
    assert any(line.startswith("node05/1 received 3 wrong values") for line in finding.evidence)
    (by_pattern,) = (one for one in judged(observations) if one.culprit)
    assert by_pattern.culprit == Culprit("device", ("node03/1",), ("r2-1",), "wrong data")


def test_many_slow_pairs_of_which_nobody_is_named_are_one_finding() -> None:
    pairs = [slow(f"r2-{20 + n}", "node01/0", f"{name}/0") for n, name in enumerate(NAMES[1:5])]
    finding = told(([*pairs, *FAST], []))
    assert (finding.outcome, finding.host, finding.culprit) == ("warn", None, None)
    assert finding.summary == (
        "4 pairs are slow, and the culprit cannot be identified. The slowest pair reaches 2.00 GB/s (median "
        "pair: 10.00 GB/s)"
    )


TOGETHER = [
    seen("r1-9", *EVERYBODY, outcome="slow", busbw_GBps=1.0),
    seen("r5-0", *EVERYBODY[:8], outcome="slow"),
    *FAST,
]


def test_that_everybody_together_is_slow_is_a_warning_where_nobody_is_named() -> None:
    finding = told((TOGETHER, []))
    assert (finding.check, finding.outcome, finding.host, finding.culprit) == ("PRB103", "warn", None, None)
    assert finding.summary == "all 16 ranks together reach only 1.00 GB/s (slowest healthy pair: 10.00 GB/s)"


def test_that_everybody_together_is_slow_is_evidence_against_who_is_named() -> None:
    slow_pairs = [slow("r2-8", "node01/1", "node02/1"), slow("r3-1", "node01/1", "node04/1")]
    finding = told(([*TOGETHER, *slow_pairs], [located("device", ["node01/1"], ["r2-8", "r3-1"], "slow")]))
    assert (finding.host, finding.device) == ("node01", 1)
    assert finding.evidence[-1] == "r1-9: all 16 ranks together: 1.00 GB/s"


# A training step.


def step(id_: str, *places: str, wrong: str, suspect: int | None = None) -> Observation:
    views: dict[str, dict[str, Any]] = {place: {"seconds": 0.1} for place in places}
    views[wrong] |= {"wrong_values": 3, "suspect_rank": suspect}
    return seen(id_, *places, op="training_step", outcome="wrong_data", scope="all", ranks=views)


TRAINED = ("PRB101", "PRB102", "PRB103", "PRB113")


def test_a_rank_that_trains_wrongly_with_everybody_and_in_a_smaller_group_is_told_once() -> None:
    steps = [step("r1-9", *EVERYBODY, wrong="node02/0", suspect=4),
             step("r3-0", "node03/0", "node04/0", "node05/0", wrong="node04/0", suspect=0)]  # fmt: skip
    (finding,) = judged(steps, [located("host", ["node03"], ["r3-0"], "wrong_data")], checks=TRAINED)
    assert finding.culprit == Culprit("device", ("node03/0",), ("r1-9", "r3-0"), "trains wrongly")


def test_what_trains_wrongly_only_together_is_told_with_how_many_it_takes() -> None:
    group = [f"{name}/0" for name in THREE]
    steps = [step("r1-9", *EVERYBODY, wrong="node02/0"), step("r3-0", *group, wrong="node02/0")]
    (finding,) = judged(steps, [located("scale", THREE, ["r3-0"], "wrong_data")], checks=TRAINED)
    assert (finding.check, finding.culprit) == ("PRB113", Culprit("scale", THREE, ("r3-0",), "trains wrongly"))
    (nobody,) = judged(steps, [], checks=TRAINED)
    assert nobody.summary == "the training step ends with wrong parameters on 1 of 16 ranks"


def test_the_retest_goes_the_way_that_this_run_went(monkeypatch: pytest.MonkeyPatch) -> None:
    over_slurm = replace(probed.CLUSTER, probe=replace(probed.CLUSTER.probe, via="slurm"))
    monkeypatch.setattr(probed, "CLUSTER", over_slurm)
    assert told(DEVICE).retest.endswith("preflight probe --limit node03,node05 --via slurm --scope pair")


def test_no_fact_about_the_network_explains_the_failure_of_a_single_rank() -> None:
    """NCCL's own words, on an H200 without an RDMA device (docs/gpu-run.md)."""
    log = "[0] plugin/net.cc:379 NCCL WARN Failed to initialize any NET plugin"
    error = "DistBackendError: NCCL error in: NCCLUtils.cpp:93, invalid usage, NCCL version 2.28.9"
    views = {place: {"error": error, "logs": (log,)} for place in ("node03/1", "node05/1")}
    loopback = [cause("HST104", "node03", outcome="warn")]
    single = seen("r1-0", "node03/1", outcome="fail", backend="nccl", ranks={"node03/1": views["node03/1"]})
    pair = seen("r1-0", *views, outcome="fail", backend="nccl", ranks=views)
    assert [finding.cause for finding in judged([single], causes=loopback)] == [
        "NCCL_NET demands a network that jobs do not have, such as IB without an RDMA device"
    ]
    assert judged([pair], causes=loopback)[0].cause == "host name resolves to loopback at node03 (HST104)"
