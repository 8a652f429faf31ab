"""`preflight lab simulate`: the model of a fabric, what is compared with what, and the merge of rails in it."""

import json
from random import Random

import pytest

from preflight.cli.main import main
from preflight.lab.fabric import Model, draw, parse_faults
from preflight.lab.rivals import RIVALS
from preflight.lab.simulate import Simulation, simulate
from preflight.model.errors import UsageError
from preflight.probe.localise import GroupOutcome

HOSTS = tuple(f"node{number:02}" for number in range(16))


def model(faults: str, *, rails: int = 1, leaves: int = 4) -> Model:
    leaf = {host: place * leaves // len(HOSTS) for place, host in enumerate(HOSTS)}
    made = Model(HOSTS, rails, leaf, 0.0, Random(0))
    met = [frozenset(HOSTS[place : place + 2]) for place in range(0, len(HOSTS), 2)]
    draw(parse_faults(faults), made, met, Random(1))
    return made


@pytest.mark.parametrize(
    ("faults", "how"),
    [
        ("dead:1", "hang"),
        ("slow:1", "slow"),
        ("one-way:1", "slow"),
        ("wrong-data:1", "wrong_data"),
        ("flaky:1@1", "fail"),
    ],
)
def test_a_faulty_host_fails_every_test_that_it_is_in(faults: str, how: str) -> None:
    made = model(faults)
    [host] = {*made.bad, *made.flaky}
    others = [other for other in HOSTS if other != host]
    assert made.outcome([host, others[0]], 0) == how
    assert made.outcome(others, 0) is GroupOutcome.PASS


def test_links_partitions_and_scale_fail_only_where_they_should() -> None:
    [(pair, _)] = (links := model("slow-link:1")).links
    a, b = sorted(pair)
    assert links.outcome([a, b], 0) is GroupOutcome.SLOW
    assert links.outcome([a, *(set(HOSTS) - pair)], 0) is GroupOutcome.PASS
    assert {len(group) for group in model("partition:0.25").groups()} == {4, 12}
    leaf = model("uplink:1")
    assert leaf.outcome(HOSTS, 0) is GroupOutcome.HANG
    assert all(leaf.outcome(group, 0) is GroupOutcome.PASS for group in leaf.groups())
    large = model("scale:8")
    assert [large.outcome(HOSTS[:size], 0) for size in (8, 9)] == [GroupOutcome.PASS, GroupOutcome.HANG]
    device = model("device:1", rails=4)
    [(host, rail)] = device.devices
    other = next(other for other in HOSTS if other != host)
    assert [device.outcome([host, other], on) is GroupOutcome.HANG for on in range(4)] == [
        on == rail for on in range(4)
    ]


@pytest.mark.parametrize(
    ("faults", "says"),
    [
        ("ded:1", "there is no fault 'ded:1'. Choose from dead, "),
        ("dead:x", "write it like dead:2"),
        ("dead:1.5", "takes a whole number"),
        ("partition:3", "takes a share between 0 and 1"),
        ("dead:1@0.5", "only flaky takes @"),
        ("dead:17", "more faults than 16 hosts"),
        ("link:9", "more links than 16 hosts"),
        ("uplink:4", "needs more than 4 leaves"),
        ("rail:2", "of 1 rails"),
    ],
)
def test_faults_that_cannot_be_are_refused_in_a_sentence(faults: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        model(faults)


@pytest.mark.parametrize(
    ("faults", "rails", "leaves"),
    [
        ("dead:2,slow:1,wrong-data:1,one-way:1", 1, 1),
        ("dead:1,link:2", 1, 1),
        ("partition:0.25", 1, 1),
        ("slow-uplink:1", 1, 8),
        ("scale:20", 1, 1),
        ("combination:3", 1, 1),
        ("hidden-link:1", 1, 1),
        ("dead:1,device:2,rail:1,slow-link:1", 4, 1),
        ("rail:2", 2, 1),
    ],
)
def test_what_was_drawn_is_named_and_nothing_else(faults: str, rails: int, leaves: int) -> None:
    [row] = simulate(Simulation(64, rails, leaves, parse_faults(faults), runs=4, seed=3), beside=False)
    assert (row["exact"], row["falsely_convicted"], row["missed"]) == (4, 0, 0)


def test_the_score_tells_a_wrong_answer() -> None:
    """Two rounds forgive a link, and convict innocents where a third of the hosts is bad."""
    rows = {row["rule"]: row for row in simulate(Simulation(60, faults=parse_faults("link:1"), runs=5))}
    assert rows["preflight"]["exact"] == 5
    assert (rows["two rounds (DLRover)"]["exact"], rows["two rounds (DLRover)"]["missed"]) == (0, 5)
    rows = {row["rule"]: row for row in simulate(Simulation(60, faults=parse_faults("dead:20"), runs=5))}
    assert rows["preflight"]["exact"] == 5
    assert rows["two rounds (DLRover)"]["falsely_convicted"] > 0


@pytest.mark.parametrize("rule", RIVALS)
def test_the_other_rules_find_what_they_can_find(rule: str) -> None:
    def run(members: object) -> GroupOutcome:
        return GroupOutcome.HANG if HOSTS[5] in list(members) else GroupOutcome.PASS  # type: ignore[call-overload]

    for hosts in (HOSTS, HOSTS[:15]):
        found = RIVALS[rule](hosts, run, Random(2))
        assert found.hosts == {HOSTS[5]}
        assert found.rounds >= 2
        assert found.waited >= 1


def test_the_command_says_the_same_with_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["lab", "simulate", "--hosts", "32", "--faults", "dead:3", "--noise", "0.03", "--runs", "5", "--seed", "7"]

    def document() -> dict[str, object]:
        assert main([*asked, "-o", "json"]) == 0
        said = json.loads(capsys.readouterr().out)
        for row in said["rules"]:
            del row["decoder_seconds"]
        assert isinstance(said, dict)
        return said

    first = document()
    assert first == document()
    assert first["schema"] == "preflight.simulation/1"
    assert main(asked) == 0
    out = capsys.readouterr().out
    assert "model of " in out
    assert max(map(len, out.splitlines())) <= 80
    assert main(["lab", "simulate", "--faults", "nonsense:1"]) == 2
