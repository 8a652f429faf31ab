"""A plan carried out over a transport that answers as told: who is asked, how answers and failures become results."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from preflight.model.change import Area, Change, Kind, Plan, StepState
from preflight.model.cluster import Host
from preflight.provision import apply as module
from preflight.provision.apply import apply
from preflight.transport.types import Answer, Channel, Program, TransportError, Trouble

CLOSED = TransportError(Trouble.CLOSED, "node01: the connection broke", "see its log")
REFUSED = TransportError(Trouble.REFUSED, "node01: nobody listens", "start sshd")
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
        assert "def main()" in program.source
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


def results(transport: Scripted, *changes: Change, confirm_seconds: float = 0.0) -> list[tuple[StepState, str]]:
    names = tuple(dict.fromkeys(change.host for change in changes))
    plan = Plan(changes)
    done = apply(plan, hosts(*names), transport, run="r1", confirm_seconds=confirm_seconds)
    assert [result.change for result in done] == list(changes)
    return [(result.state, result.message) for result in done]


def test_every_host_gets_its_own_changes_and_a_result_for_each() -> None:
    transport = Scripted(lambda _, request: {"results": [DONE] * len(request["changes"]), "guarded": False})
    assert results(transport, sysctl(), sysctl("node02")) == [(StepState.DONE, ""), (StepState.DONE, "")]
    sent = [[change["host"] for change in request["changes"]] for request in transport.requests]
    assert sorted(sent) == [["node01"], ["node02"]]


def test_a_host_that_cannot_be_reached_fails_with_the_reason_and_the_others_go_on() -> None:
    transport = Scripted(lambda host, _: REFUSED if host == "node01" else {"results": [DONE], "guarded": False})
    assert results(transport, sysctl(), rule(), sysctl("node02")) == [
        (StepState.FAILED, "node01: nobody listens"),
        (StepState.NOT_RUN, ""),
        (StepState.DONE, ""),
    ]


def test_a_host_that_is_lost_at_work_has_failed_in_everything_and_its_journal_is_named() -> None:
    (failed, why), (too, same) = results(Scripted(lambda *_: CLOSED), sysctl(), rule())
    assert (failed, too) == (StepState.FAILED, StepState.FAILED)
    assert why == same, "how far it came is not known here"
    assert why.startswith("node01: the connection broke; ")
    assert "/var/lib/preflight/journal/r1.jsonl" in why


def test_a_guarded_host_is_asked_again_to_confirm() -> None:
    def reply(_: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["action"] == "confirm":
            return {"verdict": "confirmed", "left": []}
        return {"results": [DONE], "guarded": True}

    transport = Scripted(reply)
    assert results(transport, rule()) == [(StepState.DONE, "")]
    assert [request["action"] for request in transport.requests] == ["apply", "confirm"]


def test_what_the_host_took_back_is_reverted_and_the_rest_stays_done() -> None:
    def reply(_: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["action"] == "confirm":
            return {"verdict": "reverted", "left": []}
        return {"results": [DONE, DONE], "guarded": True}

    (ports, _), (firewall, why) = results(Scripted(reply), sysctl(), rule())
    assert (ports, firewall) == (StepState.DONE, StepState.REVERTED)
    assert "no new connection came through" in why


def test_what_could_not_be_taken_back_has_failed() -> None:
    def reply(_: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["action"] == "confirm":
            return {"verdict": "reverted", "left": ["inet filter input"]}
        return {"results": [DONE], "guarded": True}

    ((state, why),) = results(Scripted(reply), rule())
    assert state is StepState.FAILED
    assert "could not be" in why


def test_a_host_that_is_cut_off_is_asked_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    refusals = [REFUSED] * 3

    def reply(_: str, request: dict[str, Any]) -> dict[str, Any] | TransportError:
        if request["action"] == "confirm":
            return refusals.pop() if refusals else {"verdict": "reverted", "left": []}
        return {"results": [DONE], "guarded": True}

    assert [state for state, _ in results(Scripted(reply), rule())] == [StepState.REVERTED]
    assert not refusals


def test_a_host_that_stays_away_has_failed_and_is_said_to_help_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    monkeypatch.setattr(module, "_PATIENCE", 0.05)

    def reply(_: str, request: dict[str, Any]) -> dict[str, Any] | TransportError:
        return REFUSED if request["action"] == "confirm" else {"results": [DONE], "guarded": True}

    ((state, why),) = results(Scripted(reply), rule())
    assert state is StepState.FAILED
    assert "node01: nobody listens; the host takes it back by itself" in why


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ({"error": "another run is at work on this host (ann); wait until it is done"}, "another run is at work"),
        (b"", "ended with 1 and no answer; its last word: 'ValueError: last words'"),
        (b"\xff\x00 binary", "ended with 1"),
        (b"\nMARK %s\n{}" % (b"9" * 5000), "is cut in its first line"),
        (b"\nMARK 20\n{}", "is cut: 2 of 20 bytes came"),
        (b"\nMARK 2\n[]", "is not understood"),
        ({"results": [], "guarded": False}, "2 changes were sent and 0 results came back"),
        ({"results": [{"state": "splendid"}], "guarded": False}, "is not understood"),
        ({"verdict": "confirmed"}, "is not understood"),
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
    assert apply(Plan(), hosts("node01"), transport, run="r1") == []
    assert transport.requests == []
