"""The controller's gate: which hosts a job's nodes are, who of them is broken, and what then becomes of the job."""

import json
import multiprocessing
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate import slurm_controller, slurm_nodes

from preflight.gate.controller import document, hosts_of, judge, nodes_of_job
from preflight.model.cluster import Cluster, Host, Product
from preflight.model.errors import UsageError
from preflight.model.finding import Finding
from preflight.model.gate import Context, DrainLimit, GatePolicy, Unknown
from preflight.model.measure import Culprit, End, Member, Observation, RankView, TestOutcome, TestResult
from preflight.model.outcome import Outcome

HOSTS = tuple(Host(f"node{number}", f"10.0.0.{number}") for number in range(1, 5))
CLUSTER = Cluster("c", Product.CPU, HOSTS)
KNOWN = {host.name: host for host in HOSTS}


def failure(kind: str, *members: str, test: str = "r1-0") -> Finding:
    return Finding("PRB101", Outcome.FAIL, f"{members[0]}: bad", culprit=Culprit(kind, members, (test,), "hang"))


def lost(host: str) -> Observation:
    member = Member(host, 0, 0)
    test = TestResult("r0-0", "init", "", 0, None, (member,), TestOutcome.FAIL, "none")
    return Observation(test, (RankView(member, "none", "ssh is refused", end=End.LOST),))


PASSED = Finding("PRB101", Outcome.PASS, "", host="node1")
BAD = {
    "a host": ([failure("host", "node2")], ["node2"]),
    "a device": ([failure("device", "node2/3", "node2/4"), failure("device", "node4/0")], ["node2", "node4"]),
    "a link, of which both ends may be": ([failure("link", "node1/0", "node2/0")], []),
    "a rail": ([failure("rail", "node1/0", "node2/0")], []),
    "all of them": ([failure("system", "node1", "node2", "node3", "node4")], []),
    "nobody": ([Finding("PRB101", Outcome.FAIL, "all 4 ranks stopped")], []),
    "a host of no job": ([failure("host", "node9")], []),
    "who gave no agent": ([failure("host", "node2", test="r0-0")], []),
    "all but one": ([failure("host", host) for host in ("node1", "node2", "node3")], ["node1", "node2", "node3"]),
    "all of them, each by itself": ([failure("host", host) for host in KNOWN], []),
    "all of them, at once": ([failure("device", *(f"{host}/0" for host in KNOWN))], []),
}  # fmt: skip


@pytest.mark.parametrize(("findings", "names"), BAD.values(), ids=BAD)
def test_only_a_host_that_is_at_fault_is_bad(findings: list[Finding], names: list[str]) -> None:
    proof = judge([PASSED, *findings], (), KNOWN, ())
    assert [one.node for one in proof.bad] == names
    assert proof.outcome is Outcome.FAIL
    assert proof.sentence.startswith(f"{len(names)} of 4 nodes are broken: PRB101 node" if names else "systemic")


def test_who_was_lost_on_the_way_is_unknown() -> None:
    proof = judge([PASSED, failure("host", "node2", test="r3-1")], [lost("node2")], KNOWN, ())
    assert (proof.outcome, proof.bad) == (Outcome.UNKNOWN, ())
    assert proof.sentence == "no agent on node2 (ssh is refused)"


def test_what_is_wrong_with_all_that_were_tested_is_nobody_s() -> None:
    """A setup line that is wrong, or a device that probe.user may not open, is so on every node."""
    three = [failure("host", host, test=f"r1-{host}") for host in ("node1", "node2", "node3")]
    proof = judge(three, [lost("node4")], KNOWN, ())
    assert (proof.outcome, proof.bad) == (Outcome.UNKNOWN, ())
    alone = judge(three[:1], [lost(host) for host in ("node2", "node3", "node4")], KNOWN, ())
    assert [one.node for one in alone.bad] == ["node1"]


def test_a_bad_node_is_named_though_another_is_unknown() -> None:
    proof = judge([failure("host", "node2")], [lost("node3")], KNOWN, ["gpu7"])
    assert [one.node for one in proof.bad] == ["node2"]


def test_a_node_that_the_inventory_does_not_know_is_unknown() -> None:
    proof = judge([PASSED], (), KNOWN, ["gpu7", "gpu8", "gpu9", "gpu10"])
    assert (proof.outcome, proof.sentence) == (
        Outcome.UNKNOWN, "not in the inventory: gpu7, gpu8, gpu9 and 1 more",
    )  # fmt: skip


def test_what_is_well_is_said_to_be() -> None:
    assert judge([PASSED], (), KNOWN, ()).outcome is Outcome.PASS
    cut = Finding("PRB101", Outcome.UNKNOWN, "3 tests did not run")
    assert judge([PASSED, cut], (), KNOWN, ()).sentence == "PRB101 3 tests did not run"


def test_nodes_are_hosts_by_name_or_up_to_the_first_dot() -> None:
    cluster = Cluster(
        "c", Product.CPU, (*HOSTS, Host("n7.site", "n7"), Host("n8.a", "n8a"), Host("n8.b", "n8b"))
    )  # fmt: skip
    known, strange = hosts_of(cluster, ["node1", "node2.site", "n7", "n8", "n8.b", "other"])
    assert {node: host.name for node, host in known.items()} == {
        "node1": "node1", "node2.site": "node2", "n7": "n7.site", "n8.b": "n8.b",
    }  # fmt: skip
    assert strange == ["n8", "other"]


def test_the_job_s_nodes_come_from_either_variable() -> None:
    assert nodes_of_job({"SLURM_JOB_NODELIST": "node[1-2,4]"}) == ["node1", "node2", "node4"]
    assert nodes_of_job({"SLURM_NODELIST": "node1,node1"}) == ["node1"]


@pytest.mark.parametrize("text", ["", "node[1-", "node[1-99999999]", "node[2-1]"])
def test_a_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="SLURM_JOB_NODELIST"):
        nodes_of_job({"SLURM_JOB_NODELIST": text})


def test_the_answer_has_the_inventory_s_rules() -> None:
    gate = GatePolicy(
        unknown={Context.CONTROLLER: Unknown.CLOSED}, drain=DrainLimit(nodes=7, percent=None), requeues=1
    )  # fmt: skip
    said = document(judge([failure("host", "node2")], (), KNOWN, ()), Cluster("c", Product.CPU, HOSTS, gate=gate))
    assert said == {
        "schema": "preflight.gate-controller/1", "outcome": "fail", "open": False,
        "sentence": "1 of 4 nodes are broken: PRB101 node2: bad",
        "bad": [{"node": "node2", "check": "PRB101", "sentence": "node2: bad"}],
        "drain": {"nodes": 7, "percent": None}, "requeues": 1,
    }  # fmt: skip


# What the program on the controller makes of such an answer.

ENVIRONMENT = {"SLURM_JOB_ID": "12", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "node[1-2]"}
FOUND = {
    "schema": "preflight.gate-controller/1", "outcome": "fail", "open": True, "sentence": "bad ones",
    "bad": [{"node": "node1", "check": "PRB101", "sentence": "node1: bad"},
            {"node": "node2", "check": "PRB102", "sentence": "node2: wrong"}],
    "drain": {"nodes": None, "percent": 50}, "requeues": 3,
}  # fmt: skip


class Site:
    """A controller whose preflight and scontrol are scripts; what scontrol was called with stands in `calls`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.nodes(node1="", node2="", node3="", node4="")
        self.script("preflight", f"cat {place}/answer")
        self.script(
            "scontrol",
            f'echo "$*" >> {place}/calls; case "$*" in *show\\ job*) echo "JobId=12 OverSubscribe=NO x";; '
            f"*show\\ node*) cat {place}/nodes;; esac",
        )
        self.answer(FOUND)
        self.settings()

    def script(self, name: str, text: str) -> None:
        (self.place / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.place / name).chmod(0o755)

    def settings(self, **more: object) -> None:
        said = {"preflight": str(self.place / "preflight"), "inventory": "/etc/hosts.toml", "seconds": 10}
        said |= {"scontrol": str(self.place / "scontrol"), **more}
        (self.place / "controller.json").write_text(json.dumps(said))

    def answer(self, said: object) -> None:
        (self.place / "answer").write_text(json.dumps(said))

    def nodes(self, **reasons: str) -> None:
        lines = (
            f"NodeName={name} State=IDLE" + (f" Reason={why} [r@t]" if why else "") for name, why in reasons.items()
        )
        (self.place / "nodes").write_text("\n".join(lines) + "\n")

    def run(self, **environment: str) -> int:
        return int(slurm_controller.run({**ENVIRONMENT, **environment}, str(self.place / "controller.json")))

    @property
    def done(self) -> list[str]:
        calls = self.place / "calls"
        said = calls.read_text().splitlines() if calls.exists() else []
        return [one for one in said if not one.startswith(("-o show job", "-a -o show node"))]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("gate.slurm_record.write", lambda _: None)
    monkeypatch.setattr("syslog.syslog", lambda *_: None)
    yield Site(tmp_path)


def test_exactly_the_bad_ones_are_drained_in_one_call_and_the_job_is_requeued(site: Site) -> None:
    assert site.run() == 1
    assert site.done == ["update nodename=node1,node2 state=drain reason=preflight: PRB101 node1: bad; node2: wrong"]


def test_those_with_another_s_reason_are_left_as_they_are(site: Site) -> None:
    site.nodes(node1="dead fan", node2="", node3="", node4="")
    assert site.run() == 1
    assert site.done == ["update nodename=node2 state=drain reason=preflight: PRB102 node2: wrong"]


def test_where_too_many_would_be_out_nobody_is_and_the_job_starts(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.nodes(node1="", node2="", node3="preflight: NPU107 old", node4="")
    assert (site.run(), site.done) == (0, [])
    assert "systemic: preflight would have drained 3 of 4 nodes" in capsys.readouterr().err


@pytest.mark.parametrize("fails", ["*drain*", "*drain\\ reason=*", "*show\\ node*"])
def test_where_the_drain_or_the_look_after_it_fails_it_is_taken_back_and_the_job_starts(
    site: Site, fails: str, capsys: pytest.CaptureFixture[str]
) -> None:
    look = f'*show\\ node*) [ $(grep -c "show node" {site.place}/calls) = 1 ] && exec cat {site.place}/nodes'
    site.script(
        "scontrol",
        f'echo "$*" >> {site.place}/calls; case "$*" in *show\\ job*) echo "JobId=12 OverSubscribe=NO x"; exit;; '
        f'{look};; esac; case "$*" in {fails}) echo slurm_update error: Access denied; exit 1;; '
        f"*show\\ node*) cat {site.place}/nodes;; esac",
    )
    assert site.run() == 0
    assert [words.split()[2] for words in site.done] == ["state=drain", "state=undrain"]
    assert "not drained: " in capsys.readouterr().err


@pytest.mark.parametrize(("restarts", "call"), [("2", []), ("3", ["requeuehold 12"]), ("4", ["requeuehold 12"])])
def test_a_job_is_held_that_was_requeued_too_often(site: Site, restarts: str, call: list[str]) -> None:
    assert site.run(SLURM_JOB_RESTART_COUNT=restarts) == 1
    assert site.done[1:] == call


UNKNOWN: dict[str, Any] = {**FOUND, "outcome": "unknown", "bad": []}


def test_what_is_unknown_ends_as_the_inventory_says(site: Site) -> None:
    site.answer(UNKNOWN)
    assert site.run() == 0
    site.answer({**UNKNOWN, "open": False})
    assert site.run() == 1
    assert site.run(SLURM_JOB_RESTART_COUNT="3") == 1
    assert site.done == ["requeuehold 12"]


SHARED = {"OK": "OverSubscribe=OK", "YES": "OverSubscribe=YES", "USER": "OverSubscribe=USER", "": "OverSubscribe=?"}


@pytest.mark.parametrize(("shares", "said"), SHARED.items())
def test_nodes_that_others_may_share_are_not_probed(
    site: Site, shares: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    site.script("preflight", f"touch {site.place}/probed")
    site.script("scontrol", f"echo 'JobId=12 OverSubscribe={shares} x'")
    assert site.run() == 0
    assert said in capsys.readouterr().err
    assert not (site.place / "probed").exists()


def test_a_job_of_one_node_is_not_probed(site: Site) -> None:
    site.script("preflight", f"touch {site.place}/probed")
    assert site.run(SLURM_JOB_NUM_NODES="1") == 0
    assert not (site.place / "probed").exists()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {**ENVIRONMENT, "SLURM_JOB_NUM_NODES": "two"},
        {**ENVIRONMENT, "SLURM_JOB_NUM_NODES": ""},
        {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "node[1-2]"},
    ],
)
def test_a_job_that_slurm_does_not_describe_starts(site: Site, environment: dict[str, str]) -> None:
    site.script("scontrol", f'echo "$*" >> {site.place}/calls')
    assert slurm_controller.run(environment, str(site.place / "controller.json")) == 0
    assert site.done == []


def test_of_two_at_once_the_second_finds_them_drained(site: Site) -> None:
    ours = "preflight: PRB101 node1: bad; node2: wrong"
    site.nodes(node1=ours, node2=ours, node3="", node4="")
    assert (site.run(), site.done) == (1, [])


BROKEN = {
    "it ends without a word": "exit 1",
    "its Python is missing": "exec /no/such/python",
    "it prints rubbish": "echo Traceback; exit 4",
    "it prints another document": "echo '[]'",
    "it prints a document without its parts": 'echo \'{"schema": "preflight.gate-controller/1"}\'',
    "its parts are of other kinds": 'echo \'{"schema": "preflight.gate-controller/1", "outcome": "fail", '
    '"sentence": "", "bad": 7, "requeues": 3}\'',
}  # fmt: skip


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
def test_where_preflight_is_broken_nobody_is_drained_and_the_job_starts(site: Site, script: str) -> None:
    site.script("preflight", script)
    assert (site.run(), site.done) == (0, [])
    site.settings(unknown="closed")
    assert (site.run(), site.done) == (1, [])


def test_a_proof_that_hangs_is_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_controller, "LEAVING", 0.1)
    site.settings(seconds=0.1)
    site.script("preflight", f"echo $$ > {site.place}/pid; exec sleep 600")
    assert (site.run(), site.done) == (0, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_where_the_gate_is_killed_its_proof_ends(site: Site, number: signal.Signals) -> None:
    pipe = site.place / "proof"
    os.mkfifo(pipe)
    site.script("preflight", f"exec sleep 600 > {pipe}")
    gate = multiprocessing.get_context("fork").Process(target=site.run)
    gate.start()
    with pipe.open("rb") as held:  # opens when the proof runs, and is at its end when that has ended
        os.kill(gate.pid or 0, number)
        assert select.select([held], [], [], 60)[0]
    gate.join()
    assert gate.exitcode == -number


@pytest.mark.parametrize("text", ["", "[]", "{", '{"preflight": "x"}', '{"preflight": 7, "inventory": 8}', None])
def test_damaged_settings_are_unknown(site: Site, text: str | None) -> None:
    path = site.place / "controller.json"
    path.write_text(text) if text is not None else path.unlink()
    assert (site.run(), site.done) == (0, [])


def test_settings_with_a_word_too_many_are_unknown(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.settings(unkown="closed")
    assert site.run() == 0
    assert "preflight and inventory are required. Allowed keys:" in capsys.readouterr().err


def test_a_scontrol_that_is_not_there_is_unknown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_nodes, "PLACES", ())
    site.settings(scontrol="/no/such/scontrol")
    assert site.run() == 0
