"""A plan carried out over a transport that answers as told: who is asked, how answers and failures become results."""

import json
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preflight.model.change import Area, Change, Kind, Plan, StepResult, StepState
from preflight.model.cluster import Host, Ssh
from preflight.model.errors import PreflightError
from preflight.provision import host_run as module
from preflight.provision.apply import Way, apply
from preflight.provision.journal import RunJournal, past_run, require_directory
from preflight.provision.rollout import Batch, Rollout
from preflight.provision.this_network import network_id
from preflight.transport.types import Answer, Channel, ErrorKind, Program, TransportError

CLOSED = TransportError(ErrorKind.CLOSED, "node01: the connection broke", "see its log")
REFUSED = TransportError(ErrorKind.REFUSED, "node01: nobody listens", "start sshd")
DONE = {"state": "done", "found": None, "message": ""}


def sysctl(host: str = "node01") -> Change:
    return Change(host, Area.PORTS, Kind.SYSCTL, "net.ipv4.ip_local_reserved_ports", "", "60000", "PRT101")


def rule(host: str = "node01") -> Change:
    return Change(host, Area.FIREWALL, Kind.NFT_RULES, "inet filter input", None, "accept", "FWL101")


def hosts(*names: str) -> list[Host]:
    return [Host(name, "192.0.2.1") for name in names]


class Scripted:
    """A transport whose hosts answer `reply(host, request)`: a document, raw bytes, or an error."""

    def __init__(self, reply: Callable[[str, dict[str, Any]], dict[str, Any] | bytes | TransportError]) -> None:
        self.reply = reply
        self.requests: list[dict[str, Any]] = []

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        assert timeout > 0 and limit > 0
        assert "from apply.main import main" in program.source
        request = json.loads(program.payload)
        self.requests.append(request)
        reply = self.reply(host.name, request)
        if isinstance(reply, TransportError):
            raise reply
        if isinstance(reply, dict):
            text = json.dumps(reply).encode()
            reply = b"Welcome to node01\n\n%s %d\n%s\nbye\n" % (request["marker"].encode(), len(text), text)
        reply = reply.replace(b"MARK", request["marker"].encode())
        return Answer(reply, b"Traceback\nValueError: last words", 1, 0.1)

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        raise NotImplementedError

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    require_directory()


def results(transport: Scripted, *changes: Change, rollout: Rollout | None = None) -> list[tuple[StepState, str]]:
    plan, journal = Plan(changes), RunJournal("r1")
    journal.start("configure", Path("hosts.toml"), plan)
    way = Way(hosts(*plan.hosts), transport, confirm_seconds=0.0)
    done = apply(plan, way, journal, rollout or Rollout()).results
    assert [result.change for result in done] == list(changes)
    return [(result.state, result.message) for result in done]


def applied(*steps: dict[str, Any], guarded: bool = False) -> dict[str, Any]:
    return {"results": list(steps), "guarded": guarded}


def verdict(word: str, *left: str) -> dict[str, Any]:
    return {"verdict": word, "left": list(left), "trying": False, "results": []}


def sent_changes(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [change for phase in ("plain", "guarded", "kept") for change in request[phase]]


def test_every_host_gets_its_own_changes_and_a_result_for_each() -> None:
    transport = Scripted(lambda _, request: applied(*[DONE] * len(sent_changes(request))))
    assert results(transport, sysctl(), sysctl("node02")) == [(StepState.DONE, ""), (StepState.DONE, "")]
    sent = [[change["host"] for change in sent_changes(request)] for request in transport.requests]
    assert sorted(sent) == [["node01"], ["node02"]]


def test_results_belong_to_their_changes_whatever_the_order_of_a_plan_file() -> None:
    def reply(_: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["action"] == "confirm":
            return verdict("reverted")
        return applied({"state": "already", "found": None, "message": ""}, DONE, guarded=True)

    plan, journal = Plan((rule(), sysctl())), RunJournal("r1")
    journal.start("apply", Path("hosts.toml"), plan)
    done = apply(plan, Way(hosts("node01"), Scripted(reply), confirm_seconds=0.0), journal, Rollout()).results
    assert {result.change.kind: result.state for result in done} == {
        Kind.SYSCTL: StepState.ALREADY,
        Kind.NFT_RULES: StepState.REVERTED,
    }


def test_a_host_has_more_time_for_more_firewall_rules() -> None:
    transport = Scripted(lambda *_: applied(DONE))
    results(transport, replace(rule(), after="\n".join(["accept"] * 1000)), rule("node02"))
    few, many = sorted(request["guarded_seconds"] for request in transport.requests)
    assert 60 <= few < 70 < 500 < many


def test_a_host_that_cannot_be_reached_fails_with_the_reason_and_the_others_go_on() -> None:
    transport = Scripted(lambda host, _: REFUSED if host == "node01" else applied(DONE))
    assert results(transport, sysctl(), rule(), sysctl("node02")) == [
        (StepState.FAILED, "node01: nobody listens"),
        (StepState.NOT_RUN, ""),
        (StepState.DONE, ""),
    ]


def test_a_host_that_is_lost_at_work_has_failed_in_everything_and_its_journal_is_named() -> None:
    (failed, why), (too, same) = results(Scripted(lambda *_: CLOSED), sysctl(), rule())
    assert (failed, too) == (StepState.FAILED, StepState.FAILED)
    assert why == same, "how far it came is not known here"
    assert why.startswith("node01: the connection broke. ")
    assert "/var/lib/preflight/journal/r1.jsonl" in why


def test_a_guarded_host_is_asked_again_to_confirm() -> None:
    def reply(_: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["action"] == "confirm":
            return verdict("confirmed")
        return applied(DONE, guarded=True)

    transport = Scripted(reply)
    assert results(transport, rule()) == [(StepState.DONE, "")]
    assert [request["action"] for request in transport.requests] == ["apply", "confirm"]


def test_what_the_host_took_back_is_reverted_and_the_rest_stays_done() -> None:
    def reply(_: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["action"] == "confirm":
            return verdict("reverted")
        return applied(DONE, DONE, guarded=True)

    (ports, _), (firewall, why) = results(Scripted(reply), sysctl(), rule())
    assert (ports, firewall) == (StepState.DONE, StepState.REVERTED)
    assert "no new connection succeeded" in why


def test_what_could_not_be_taken_back_has_failed() -> None:
    def reply(_: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["action"] == "confirm":
            return verdict("reverted", "inet filter input")
        return applied(DONE, guarded=True)

    ((state, why),) = results(Scripted(reply), rule())
    assert state is StepState.FAILED
    assert "could not undo it" in why


def test_a_host_that_still_tries_is_not_called_open_and_its_console_opens_it() -> None:
    def reply(_: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["action"] == "confirm":
            return {**verdict("reverted", "inet filter input"), "trying": True}
        return applied(DONE, guarded=True)

    ((state, why),) = results(Scripted(reply), rule())
    assert state is StepState.FAILED
    assert "The host is still trying to undo it" in why
    assert why.endswith("on its console: nft insert rule inet filter input tcp dport 22 accept")


def this_machine(transport: Scripted, person: Callable[[str, float], bool] | None) -> list[StepResult]:
    plan, journal = Plan((sysctl(), rule(), kept())), RunJournal("r1")
    journal.start("configure", Path("hosts.toml"), plan)
    here = [replace(host, ssh=Ssh(transport="local")) for host in hosts("node01")]
    way = Way(here, transport, confirm_seconds=1.0, person=person)
    return list(apply(plan, way, journal, Rollout()).results)


def answering(_: str, request: dict[str, Any]) -> dict[str, Any]:
    if request["action"] == "confirm":
        return {**verdict("confirmed" if request["heard"] else "reverted"), "results": [DONE] * len(request["kept"])}
    return applied(*[DONE] * len(request["plain"] + request["guarded"]), guarded=bool(request["guarded"]))


def test_this_machine_does_not_confirm_itself() -> None:
    """Without a person to log in anew its firewall is left alone; the rest is done."""
    transport = Scripted(answering)
    done = this_machine(transport, None)
    assert [result.state for result in done] == [StepState.DONE, StepState.FAILED, StepState.NOT_RUN]
    assert "cannot test new connections from outside" in done[1].message
    assert [len(request["guarded"] + request["kept"]) for request in transport.requests] == [0]


@pytest.mark.parametrize(
    ("works", "ends"),
    [
        (True, [StepState.DONE, StepState.DONE, StepState.DONE]),
        (False, [StepState.DONE, StepState.REVERTED, StepState.NOT_RUN]),
    ],
)
def test_a_person_confirms_the_firewall_of_this_machine(works: bool, ends: list[StepState]) -> None:
    asked: list[tuple[str, float]] = []

    def person(name: str, seconds: float) -> bool:
        asked.append((name, seconds))
        return works

    assert [result.state for result in this_machine(Scripted(answering), person)] == ends
    assert asked == [("node01", 1.0)]


@pytest.mark.parametrize("works", [True, False])
def test_a_person_confirms_the_firewall_of_this_machine_that_is_reached_by_ssh(works: bool) -> None:
    def reply(host: str, request: dict[str, Any]) -> dict[str, Any]:
        return {**answering(host, request), **({"own": True} if request["action"] == "apply" else {})}

    plan, journal, transport = Plan((rule(), kept())), RunJournal("r1"), Scripted(reply)
    journal.start("configure", Path("hosts.toml"), plan)
    way = Way(hosts("node01"), transport, confirm_seconds=1.0, person=lambda *_: works)
    done = apply(plan, way, journal, Rollout()).results
    assert [(request["caller"], request["person"]) for request in transport.requests[:1]] == [(network_id(), True)]
    ends = [StepState.DONE] * 2 if works else [StepState.REVERTED, StepState.NOT_RUN]
    assert [result.state for result in done] == ends
    assert works or "not confirmed" in done[0].message


def test_a_host_that_is_cut_off_is_asked_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    refusals = [REFUSED] * 3

    def reply(_: str, request: dict[str, Any]) -> dict[str, Any] | TransportError:
        if request["action"] == "confirm":
            return refusals.pop() if refusals else verdict("reverted")
        return applied(DONE, guarded=True)

    assert [state for state, _ in results(Scripted(reply), rule())] == [StepState.REVERTED]
    assert not refusals


def test_a_host_that_was_away_for_a_whole_attempt_is_asked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    monkeypatch.setattr(module, "_PATIENCE", 1e-9)  # over with the first attempt
    silence = [TransportError(ErrorKind.TIMEOUT, "node01: nothing after 50 s", "look at it")]

    def reply(_: str, request: dict[str, Any]) -> dict[str, Any] | TransportError:
        if request["action"] == "confirm":
            return silence.pop() if silence else verdict("reverted")
        return applied(DONE, guarded=True)

    assert [state for state, _ in results(Scripted(reply), rule())] == [StepState.REVERTED]


def test_a_host_that_stays_away_has_failed_and_is_said_to_help_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    monkeypatch.setattr(module, "_PATIENCE", 0.05)

    def reply(_: str, request: dict[str, Any]) -> dict[str, Any] | TransportError:
        return REFUSED if request["action"] == "confirm" else applied(DONE, guarded=True)

    ((state, why),) = results(Scripted(reply), rule())
    assert state is StepState.FAILED
    assert why.startswith("unknown whether the change is active or undone: node01: nobody listens. ")
    assert why.endswith("To find out: preflight rollback r1 --dry-run")


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ({"error": "another run is active on this host (ann). Wait until it ends."}, "another run is active"),
        (b"", "exited with 1 and gave no answer; last output: 'ValueError: last words'"),
        (b"\xff\x00 binary", "exited with 1 and gave no answer"),
        (b"\nMARK %s\n{}" % (b"9" * 5000), "is cut off in its first line"),
        (b"\nMARK 20\n{}", "is cut off: 2 of 20 bytes arrived"),
        (b"\nMARK 2\n[]", "cannot parse the answer"),
        (applied(), "expected 2 results from the host, received 0"),
        (applied({"state": "splendid"}), "cannot parse the answer"),
        ({"verdict": "confirmed"}, "cannot parse the answer"),
    ],
)
def test_an_answer_that_is_none_fails_in_words(reply: dict[str, Any] | bytes, says: str) -> None:
    (state, why), (other, _) = results(Scripted(lambda *_: reply), sysctl(), rule())
    assert state is StepState.FAILED
    assert says in why
    refused = isinstance(reply, dict) and "error" in reply  # otherwise nobody knows how far the host came
    assert other is (StepState.NOT_RUN if refused else StepState.FAILED)
    assert ("/var/lib/preflight/journal/r1.jsonl" in why) is not refused


def test_an_empty_plan_contacts_nobody() -> None:
    transport = Scripted(lambda *_: REFUSED)
    assert apply(Plan(), Way(hosts("node01"), transport), RunJournal("r1"), Rollout()).results == ()
    assert transport.requests == []


def kept(host: str = "node01") -> Change:
    return Change(host, Area.FIREWALL, Kind.FILE, "/etc/preflight/nftables.nft", None, "x", "FWL102")


def test_what_makes_a_firewall_permanent_is_done_with_the_confirmation() -> None:
    def reply(_: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["action"] == "confirm":
            assert [change["target"] for change in request["kept"]] == ["/etc/preflight/nftables.nft"]
            return {**verdict("confirmed"), "results": [DONE]}
        return applied(DONE, guarded=True)

    assert results(Scripted(reply), rule(), kept()) == [(StepState.DONE, ""), (StepState.DONE, "")]


def test_nothing_is_made_permanent_that_was_taken_back() -> None:
    def reply(_: str, request: dict[str, Any]) -> dict[str, Any]:
        return verdict("reverted") if request["action"] == "confirm" else applied(DONE, guarded=True)

    assert [state for state, _ in results(Scripted(reply), rule(), kept())] == [StepState.REVERTED, StepState.NOT_RUN]


# Waves.


def twenty(failing: str = "") -> Scripted:
    return Scripted(lambda host, _: REFUSED if host == failing else applied(DONE))


NAMES = [f"node{number:02}" for number in range(1, 21)]


def test_many_hosts_have_a_canary_and_stop_where_it_fails() -> None:
    ends = results(twenty("node01"), *map(sysctl, NAMES))
    assert ends[0] == (StepState.FAILED, "node01: nobody listens")
    assert set(ends[1:]) == {(StepState.NOT_RUN, "not started: the canary node01 failed")}


def test_no_batch_is_begun_after_more_hosts_have_failed_than_may() -> None:
    ends = results(twenty("node03"), *map(sysctl, NAMES), rollout=Rollout(canary=2, batch=Batch.parse("6")))
    assert [state for state, _ in ends] == [StepState.DONE] * 2 + [StepState.FAILED] + [StepState.DONE] * 5 + [
        StepState.NOT_RUN
    ] * 12
    assert ends[-1][1] == "not started: 1 host failed (--max-fail 0)"


def test_as_many_hosts_may_fail_as_the_operator_says() -> None:
    rollout = Rollout(canary=0, batch=Batch.parse("25%"), max_fail=1)
    states = [state for state, _ in results(twenty("node03"), *map(sysctl, NAMES), rollout=rollout)]
    assert states.count(StepState.DONE) == 19


@pytest.mark.parametrize(
    ("rollout", "sizes"),
    [
        (Rollout(), [1, 19]),
        (Rollout(canary=0), [20]),
        (Rollout(canary=2, batch=Batch.parse("25%")), [2, 5, 5, 5, 3]),
        (Rollout(canary=0, batch=Batch.parse("8")), [8, 8, 4]),
        (Rollout(canary=20), [20]),
    ],
)
def test_waves(rollout: Rollout, sizes: list[int]) -> None:
    waves = rollout.waves(NAMES)
    assert [len(wave) for wave in waves] == sizes
    assert [name for wave in waves for name in wave] == NAMES


@pytest.mark.parametrize("text", ["", "0", "0%", "101%", "-1", "1.5", "many"])
def test_a_batch_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither a percentage such as 25% nor a number"):
        Batch.parse(text)


def test_without_room_for_the_plan_nothing_is_begun() -> None:
    journal = RunJournal("r1")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))
    try:
        with pytest.raises(PreflightError, match=r"cannot write the journal .*r1.jsonl: .* Nothing was changed"):
            journal.start("configure", Path("hosts.toml"), Plan((sysctl(),)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert past_run("r1") is None


def test_the_journal_on_this_machine_tells_the_run() -> None:
    results(twenty("node02"), sysctl("node01"), sysctl("node02"))
    past = past_run("r1")
    assert past is not None
    assert past.changes == (sysctl("node01"), sysctl("node02"))
    assert sorted(past.begun) == ["node01", "node02"]
    assert past.states == {StepState.DONE: 1, StepState.FAILED: 1}
    assert past.exit is None, "nobody has said that it is finished"
