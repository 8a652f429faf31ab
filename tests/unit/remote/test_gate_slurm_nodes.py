"""What the gate reads of Slurm's nodes, and how many of them it may take out: no run empties a cluster."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from gate import slurm, slurm_drain, slurm_nodes
from gate.answer import GateAnswer, reason
from gate.slurm_nodes import Scontrol, SlurmError
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.checks.engine.registry import all_checks

OURS = "preflight: NPU107 device 3: its link is down"
LINE = "NodeName={} Arch=x86_64 CPUAlloc=0 Gres=(null) OS=Linux 6.1 #1 SMP State={} Partitions=main  AllocTRES= {}"
LIMIT = {"nodes": None, "percent": 10.0}


def shown(nodes: Mapping[str, str]) -> str:
    """As `scontrol -o show node` of Slurm 22.05 has it."""
    return "".join(
        LINE.format(name, "IDLE+DRAIN" if why else "IDLE", f"Reason={why} [root@2026-11-22T11:37:31]" if why else "")
        + "\n"
        for name, why in nodes.items()
    )


REASONS = ["", OURS, "maintenance [ticket 7] until Monday", "a Reason=b State=DRAIN", "NodeName=node9", "x" * 300]


@pytest.mark.parametrize("why", REASONS)
def test_a_node_s_reason_is_read_whatever_people_write_into_it(why: str) -> None:
    assert slurm_nodes.reasons(shown({"node1": why, "node2": ""})) == {"node1": why, "node2": ""}


@pytest.mark.parametrize("text", ["", "\n\n", "No nodes\n", "slurm_load_node error: x\n", "\0NodeName=\n"])
def test_what_is_no_node_is_none(text: str) -> None:
    assert slurm_nodes.reasons(text) == {}


MOST = [
    (LIMIT, 4, 1),  # one may always be drained
    (LIMIT, 500, 50),
    ({"nodes": 3, "percent": 10.0}, 500, 3),
    ({"nodes": 90, "percent": 10.0}, 500, 50),
    ({"nodes": 0, "percent": None}, 500, 1),
    ({"nodes": None, "percent": None}, 500, 500),
    ({}, 7, 7),
]


@pytest.mark.parametrize(("limit", "total", "most"), MOST)
def test_so_many_may_be_out(limit: Mapping[str, float], total: int, most: int) -> None:
    assert slurm_nodes.most(limit, total) == most


def test_only_what_preflight_has_taken_out_counts() -> None:
    nodes = {f"n{number}": "dead fan" for number in range(15)} | {f"m{number}": "" for number in range(5)}
    assert slurm_nodes.systemic(nodes, ["m1", "m2"], LIMIT) == ""
    assert slurm_nodes.systemic({**nodes, "m1": OURS}, ["m2", "m3"], LIMIT) == (
        "systemic: preflight would have drained 3 of 20 nodes, but the limit is 2. No node is drained"
    )


class Node(threading.Thread):
    """One that is broken and takes itself out. Its calls wait for their turns; `there`: it waits, or has ended."""

    def __init__(self, name: str, reasons: dict[str, str], limit: Mapping[str, float | None]) -> None:
        super().__init__(name=name, daemon=True)
        self.ended = False
        self.reasons, self.limit = reasons, limit
        self.turn, self.there = threading.Semaphore(0), threading.Semaphore(0)

    def run(self) -> None:
        slurm_nodes.take_out(self, self.nodes(), [self.name], OURS, self.limit)
        self.ended = True
        self.there.release()

    def call(self, what: Callable[[], None]) -> None:
        self.there.release()
        self.turn.acquire()
        what()

    def nodes(self) -> dict[str, str]:
        seen: dict[str, str] = {}
        self.call(lambda: seen.update(self.reasons))
        return seen

    def drain(self, names: list[str], why: str) -> None:
        self.call(lambda: self.reasons.update(dict.fromkeys(names, why)))

    def undrain(self, names: list[str]) -> None:
        self.call(lambda: self.reasons.update(dict.fromkeys(names, "")))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.integers(1, 4), st.data())
def test_nodes_that_fail_at_once_never_take_out_more_than_may_be(count: int, most: int, data: st.DataObject) -> None:
    """In whatever order their calls come to slurmctld: look, drain, look again, take back."""
    reasons = {f"n{number}": "" for number in range(count)}
    nodes = [Node(name, reasons, {"nodes": most, "percent": None}) for name in reasons]
    for node in nodes:
        node.start()
        node.there.acquire()
    for node in data.draw(st.permutations(nodes * 4)):
        if not node.ended:
            node.turn.release()
            node.there.acquire()
    assert all(node.ended for node in nodes)
    assert sum(map(bool, reasons.values())) <= most


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str], Scontrol]:
    """A scontrol that is this shell script; what it was called with stands in `calls`."""

    def make(script: str) -> Scontrol:
        program = tmp_path / "scontrol"
        program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n{script}\n')
        program.chmod(0o755)
        return Scontrol({"SLURM_CONF": "/x/slurm.conf"}, time.monotonic() + 4, str(program))

    return make


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def broken(context: str = "prolog") -> GateAnswer:
    return GateAnswer(context, "node1", "fail", [reason("NPU107", "fail", "device 3: its link\nis down")], True)


def test_a_broken_node_is_drained_by_its_name_with_its_reason(
    stand_in: Callable[[str], Scontrol], tmp_path: Path
) -> None:
    (tmp_path / "nodes").write_text(shown({"node1": "", "node2": ""}))
    scontrol = stand_in(f'case "$*" in *show*) cat {tmp_path}/nodes;; esac')
    assert slurm_drain.drain(broken(), "node1", scontrol, LIMIT) == (1, "drained")
    assert calls(tmp_path) == [
        "-a -o show node",
        f"update nodename=node1 state=drain reason={OURS}",
        "-a -o show node",
    ]


def test_another_one_s_reason_is_left_as_it_is(stand_in: Callable[[str], Scontrol], tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text(shown({"node1": "dead fan", "node2": ""}))
    scontrol = stand_in(f"cat {tmp_path}/nodes")
    assert slurm_drain.drain(broken(), "node1", scontrol, LIMIT) == (
        1,
        "left alone, because the drain reason is not preflight's: dead fan",
    )
    assert calls(tmp_path) == ["-a -o show node"]


def test_where_too_many_are_out_nobody_is_drained_and_the_job_starts(
    stand_in: Callable[[str], Scontrol], tmp_path: Path
) -> None:
    (tmp_path / "nodes").write_text(shown({"node1": "", "node2": OURS, "node3": ""}))
    code, told = slurm_drain.drain(broken(), "node1", stand_in(f"cat {tmp_path}/nodes"), LIMIT)
    assert (code, told.partition(":")[0]) == (0, "systemic")
    assert calls(tmp_path) == ["-a -o show node"]


def test_a_drain_that_came_with_too_many_others_is_taken_back(
    stand_in: Callable[[str], Scontrol], tmp_path: Path
) -> None:
    (tmp_path / "0").write_text(shown({"node1": "", "node2": ""}))
    (tmp_path / "1").write_text(shown({"node1": OURS, "node2": OURS}))
    script = f'case "$*" in *show*) n=$(grep -c show {tmp_path}/calls); cat {tmp_path}/$((n - 1));; esac'
    code, told = slurm_drain.drain(broken(), "node1", stand_in(script), LIMIT)
    assert (code, told.partition(":")[0]) == (0, "systemic")
    assert calls(tmp_path)[-1] == "update nodename=node1 state=undrain"


def test_only_the_very_drain_that_was_ours_is_taken_back(stand_in: Callable[[str], Scontrol], tmp_path: Path) -> None:
    """Between our drain and the look somebody has put his own reason there: an operator, or another gate."""
    now = {"node1": "dead fan", "node2": OURS + " too", "node3": OURS, "node4": OURS}
    (tmp_path / "nodes").write_text(shown(now))
    before, names = dict.fromkeys(now, ""), ["node1", "node2", "node3"]
    why = slurm_nodes.take_out(stand_in(f"cat {tmp_path}/nodes"), before, names, OURS, {"nodes": 3})
    assert why.startswith("systemic: preflight would have drained 4 of 4")
    assert calls(tmp_path)[2:] == ["update nodename=node3 state=undrain"]


UNDRAIN = "update nodename=node1 state=undrain"
DRAIN_FAILS = {
    "it is refused": ('*drain*) echo "slurm_update error: Access denied"; exit 1;;', 2, "Access denied"),
    "it hangs": ("*reason=*) exec sleep 60;;", 2, "did not answer within"),
    "the look after it hangs": ("*show*) exec sleep 60;;", 3, "did not answer within"),
    "the look after it fails": ("*show*) echo Unable to contact; exit 1;;", 3, "Unable to contact"),
}


@pytest.mark.parametrize(("case", "number", "why"), DRAIN_FAILS.values(), ids=DRAIN_FAILS)
def test_a_drain_that_cannot_be_done_or_looked_at_is_taken_back_and_the_job_starts(
    stand_in: Callable[[str], Scontrol], tmp_path: Path, case: str, number: int, why: str
) -> None:
    """Or Slurm would drain the node, and all others that fail at the same moment, without any limit."""
    (tmp_path / "nodes").write_text(shown({"node1": "", "node2": ""}))
    first = f"[ $(wc -l < {tmp_path}/calls) = 1 ] && exec cat {tmp_path}/nodes"
    scontrol = stand_in(f'{first}\ncase "$*" in {case} esac')
    scontrol.until += 4
    code, told = slurm_drain.drain(broken(), "node1", scontrol, LIMIT)
    assert (code, told[:12]) == (0, "not drained:")
    assert why in told
    assert calls(tmp_path)[number:] == [UNDRAIN]
    assert ("It may be drained nevertheless" in told) == ("Access denied" in why)


NOBODY_KNOWS = {
    "it fails": ("echo 'slurm_load_node error: Unable to contact slurm controller'; exit 1", "Unable to contact"),
    "it hangs": ("exec sleep 60", "did not answer within 2.0 s"),
    "it knows no such node": (f"printf '%s' '{shown({'other': ''}).strip()}'", "Slurm has no node 'node1'"),
    "it prints nothing": ("true", "Slurm has no node 'node1'"),
    "it prints rubbish": ("head -c 100000 /dev/urandom", "Slurm has no node 'node1'"),
}


@pytest.mark.parametrize(("script", "why"), NOBODY_KNOWS.values(), ids=NOBODY_KNOWS)
def test_where_slurm_cannot_be_asked_nobody_is_drained_also_not_by_slurm(
    stand_in: Callable[[str], Scontrol], tmp_path: Path, script: str, why: str
) -> None:
    code, told = slurm_drain.drain(broken(), "node1", stand_in(script), LIMIT)
    assert (code, told[:12]) == (0, "not drained:")
    assert why in told
    assert calls(tmp_path) == ["-a -o show node"]


def test_a_prolog_that_is_not_told_its_node_drains_none(stand_in: Callable[[str], Scontrol], tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text(shown({"node1": "", "node2": ""}))
    assert slurm_drain.drain(broken(), "", stand_in(f"cat {tmp_path}/nodes"), LIMIT) == (
        0, "not drained: Slurm has no node ''",
    )  # fmt: skip
    assert calls(tmp_path) == ["-a -o show node"]


def test_a_missing_scontrol_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_nodes, "PLACES", ("/nowhere/scontrol",))
    with pytest.raises(SlurmError, match="scontrol was not found in /nowhere"):
        Scontrol({}, time.monotonic() + 4).nodes()


def test_calls_end_with_the_time_that_they_have_together(stand_in: Callable[[str], Scontrol]) -> None:
    scontrol = stand_in("exec sleep 60")
    scontrol.until = time.monotonic() + 0.2
    for _ in range(2):
        with pytest.raises(SlurmError):
            scontrol.nodes()
    assert time.monotonic() < scontrol.until + 10


def test_slurm_s_commands_get_its_configuration_and_no_path(stand_in: Callable[[str], Scontrol]) -> None:
    assert stand_in('echo "$SLURM_CONF"').call("x") == "/x/slurm.conf\n"


def test_scontrol_is_looked_for_beside_the_daemon_that_runs_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.write_text("")
    scontrol.chmod(0o755)
    monkeypatch.setattr(os.path, "realpath", lambda _: str(tmp_path / "sbin" / "slurmd"))
    assert slurm_nodes.find_scontrol() == str(scontrol)


def test_a_reason_is_one_short_line_of_ascii() -> None:
    said = slurm_nodes.reason("NPU107", "Gerät 3\n\x1b[31m'link' [down]" + "x" * 500)
    assert said.startswith("preflight: NPU107 Ger?t 3 [31m'link' [down]xxx")
    assert len(said) == slurm_nodes.REASON


@pytest.mark.parametrize("host", ["node02", "node02.row4.pool-b.cluster.example.com"])
def test_a_long_reason_keeps_its_age_and_what_clears_it(host: str) -> None:
    age = f" (found 26 h ago. Once fixed, run preflight gate clear --limit {host})"
    said = slurm_nodes.reason("NPU117", "y" * 300 + age)
    assert said.startswith("preflight: NPU117 yyy")
    assert said.endswith("y" + age)
    assert len(said) == slurm_nodes.REASON


def test_an_unknown_that_the_policy_closes_is_a_reason_too(stand_in: Callable[[str], Scontrol], tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text(shown({"node1": ""}))
    scontrol = stand_in(f'case "$*" in *show*) cat {tmp_path}/nodes;; esac')
    answer = GateAnswer("prolog", "node1", "unknown", [reason("verdict", "unknown", "no result is published")], False)
    assert slurm_drain.drain(answer, "node1", scontrol, LIMIT) == (1, "drained")
    assert "reason=preflight: [verdict] no result is published" in calls(tmp_path)[1]


GIVEN_BACK = {
    OURS: "update nodename=node1 state=undrain",
    "preflight: PRB101 device 0 hung in a test": "",  # a node alone cannot tell
    "dead fan": "",
    "": "",
    # An administrator's, which only begin as ours do.
    "preflight: keep out until Monday, jo": "",
    "preflight: gate is off until Monday, jo": "",
    "preflight: verdict of the vendor is open": "",
    "preflight: [verdict] no result is published on this host": "update nodename=node1 state=undrain",
    "preflight:": "",
    "preflight: NPU107": "",
    "preflight: NPU1070 is on order": "",
    "preflight: ABC107 no check of ours": "",
    "preflight:NPU107 device 3": "",
    "Preflight: NPU107 device 3": "",
}


def test_a_reason_of_ours_names_a_check() -> None:
    assert all(slurm_nodes.is_ours(slurm_nodes.reason(check, "x")) for check in (*all_checks(), "verdict", "gate"))


@pytest.mark.parametrize(("why", "call"), GIVEN_BACK.items())
def test_a_good_node_gives_back_what_it_can_see_by_itself(
    stand_in: Callable[[str], Scontrol], tmp_path: Path, why: str, call: str
) -> None:
    (tmp_path / "nodes").write_text(shown({"node1": why}))
    answer = GateAnswer("health", "node1", "warn", [reason("HST106", "warn", "few open files")], True)
    assert slurm_drain.undrain(answer, "node1", stand_in(f"cat {tmp_path}/nodes"))[0] == 0
    assert calls(tmp_path) == ["-a -o show node node1", *filter(None, [call])]


def test_a_node_whose_trouble_has_only_become_a_warning_is_not_given_back(
    stand_in: Callable[[str], Scontrol], tmp_path: Path
) -> None:
    """A cable that comes and goes would take it out and in without end."""
    (tmp_path / "nodes").write_text(shown({"node1": "preflight: HST103 host NIC eth0 has no carrier"}))
    answer = GateAnswer("health", "node1", "warn", [reason("HST103", "warn", "the carrier changed 6 times")], True)
    assert slurm_drain.undrain(answer, "node1", stand_in(f"cat {tmp_path}/nodes")) == (0, "")
    assert calls(tmp_path) == ["-a -o show node node1"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"drain": 7}', '{"undrain": "yes"}', "\0", '{"drain": {"percent": 10}}']
)
def test_a_damaged_gate_json_leaves_the_limit_and_gives_nothing_back(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gate.json"
    path.write_text(text)
    rules = slurm.rules(str(path), os.getuid())
    assert slurm_nodes.most(rules["drain"], 500) == 50
    assert rules["undrain"] is False


@pytest.mark.parametrize(("context", "code"), [("epilog", 0), ("task", 1), ("health", 0), ("prolog", 0)])
def test_each_script_ends_as_slurm_takes_it(
    context: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a broken node, where no Slurm is to be asked."""
    monkeypatch.setattr(slurm_nodes, "PLACES", ())
    monkeypatch.setattr("gate.slurm_record.write", lambda _: None)
    answer = broken(context)
    assert slurm.run(context, lambda: answer, {"SLURMD_NODENAME": "node1"}) == code
    out = capsys.readouterr().out
    assert out == (f"print preflight: {answer.sentence}\n" if context == "task" else "")


@pytest.mark.parametrize("context", ["prolog", "task", "epilog", "health"])
def test_where_the_node_is_good_slurm_is_asked_nothing(context: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_nodes, "Scontrol", None)
    assert slurm.run(context, lambda: GateAnswer(context, "node1", "pass", [], True), {}) == 0
