"""How long the probe waits for HCCL's own words, and for devices whose workers it killed."""

import importlib
import runpy
from pathlib import Path
from typing import Any

import pytest

from preflight.model.cluster import ProbeSettings, Product
from preflight.model.measure import End, Member, Observation, RankView, TestOutcome, TestResult
from preflight.probe.conductor import Conductor
from preflight.probe.lines import HostMessage
from preflight.probe.messages import Message, Settled
from preflight.probe.observe import with_held_devices
from preflight.probe.timeouts.deadlines import DEADLINES, hccl_waits, late, step_deadline

REMOTE = Path(__file__).parents[3] / "preflight/remote"
A1, A2, A3 = Product.ATLAS_A1, Product.ATLAS_A2, Product.ATLAS_A3
DFS = "HCCL_DFS_CONFIG"


@pytest.mark.parametrize(
    ("variables", "product", "seconds"),
    [
        ({}, A1, 140),
        ({}, A2, 170),
        ({"HCCL_CONNECT_TIMEOUT": "600"}, A1, 620),
        ({"HCCL_CONNECT_TIMEOUT": "600"}, A3, 650),
        ({"HCCL_CONNECT_TIMEOUT": "10"}, A1, 140),
        ({"HCCL_CONNECT_TIMEOUT": "1e9"}, A1, 140),
        ({DFS: "cluster_heartbeat:on,connection_fault_detection_time:120"}, A2, 270),
        ({DFS: "connection_fault_detection_time:0"}, A2, 140),
        ({DFS: "connection_fault_detection_time:99999"}, A2, 170),
        ({DFS: "connection_fault_detection_time:5"}, A2, 170),
        ({DFS: "connection_fault_detection_time:120"}, A1, 140),
    ],
)
def test_what_hccl_waits(variables: dict[str, str], product: Product, seconds: float) -> None:
    assert hccl_waits(variables, product) == seconds


@pytest.mark.parametrize("product", [A1, A2, A3])
def test_a_step_may_take_longer_than_hccl_waits_by_default(product: Product) -> None:
    assert DEADLINES["hccl"] > hccl_waits({}, product)


def test_a_step_may_take_longer_than_the_most_patient_host_s_hccl_waits() -> None:
    settings = ProbeSettings(backend="hccl", step_deadline=30)
    slow = [{}, {"HCCL_CONNECT_TIMEOUT": "240"}, {"HCCL_CONNECT_TIMEOUT": "300"}]
    assert step_deadline(settings, "hccl", A2, [{}, {}]) == 30
    assert step_deadline(settings, "hccl", A2, slow) > hccl_waits(slow[-1], A2)
    assert step_deadline(settings, "gloo", A2, slow) == DEADLINES["gloo"]


def test_hccl_s_own_time_outs_count_as_waiting() -> None:
    assert late("hccl", DEADLINES["hccl"]) < hccl_waits({}, A1)
    assert late("gloo", 60) == 48


def waiting(monkeypatch: pytest.MonkeyPatch, answers: dict[int, list[str | Exception]]) -> tuple[Any, list[float]]:
    """`settle` with an hccn_tool that gives these answers, the last of them for ever; and how long it has slept."""
    slept: list[float] = []

    monkeypatch.syspath_prepend(str(REMOTE))
    tools = importlib.import_module("collect.tools")

    def run(command: list[str], *_: Any, **__: Any) -> Any:
        left = answers[int(command[2])]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise tools.LookError(str(answer))
        return {"out": answer, "err": "", "code": 0}

    monkeypatch.setattr(tools, "command", run)
    program = runpy.run_path(str(REMOTE / "agent/settle.py"))
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(slept))
    return program["settle"], slept


EXISTS, GONE = "device hccp process: exist\n", "device hccp process: not exist\n"


def test_a_device_is_waited_for_until_its_last_job_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = "hccn_tool is busy, please try again.\n"
    settle, slept = waiting(monkeypatch, {0: [GONE], 3: [EXISTS, busy, EXISTS, GONE]})
    assert settle([0, 3]) == ([], "")
    assert 1 <= sum(slept) <= 5


def test_waiting_for_a_device_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    settle, slept = waiting(monkeypatch, {0: [GONE], 3: [EXISTS]})
    assert settle([0, 3]) == ([3], "")
    assert 29 <= sum(slept) <= 31


@pytest.mark.parametrize("answer", ["Cmd is not supported\n", FileNotFoundError("no hccn_tool")])
def test_a_device_that_cannot_be_asked_about_is_given_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, answer: str | Exception
) -> None:
    settle, slept = waiting(monkeypatch, {0: [answer], 1: [GONE]})
    held, error = settle([0, 1])
    assert (held, sum(slept)) == ([], 10)
    assert error.startswith("device 0: ")


class AgentsThatSay:
    """In place of the probe's agents: they say what they were given, and note what they are told."""

    def __init__(self, *words: HostMessage[Message]) -> None:
        self.words = list(words)
        self.told: dict[str, Any] = {}

    def send(self, commands: dict[str, Any]) -> None:
        self.told |= commands

    def receive(self, _: float) -> list[HostMessage[Message]]:
        return [self.words.pop(0)] if self.words else []


def test_what_hosts_say_of_the_devices_of_killed_workers_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preflight.probe.conductor.SETTLE", 0.2)
    said: list[HostMessage[Message]] = [
        HostMessage("node01", Settled("", [3], "")),
        HostMessage("node02", Settled("", [], "device 0: no hccn_tool")),
    ]
    agents: Any = AgentsThatSay(*said)
    conductor = Conductor(agents, "hccl", lambda _: None)
    killed = [("node01", 3), ("node01", 4), ("node02", 0), ("node03", 1)]
    kept = conductor._settle(killed, float("inf"))
    assert agents.told["node01"] == [{"do": "settle", "devices": [3, 4]}]
    assert kept["node01", 3] == (True, "")
    assert kept["node01", 4] == (False, "")
    assert kept["node02", 0] == (False, "device 0: no hccn_tool")
    assert kept["node03", 1][1].startswith("the host's agent did not report")
    views = tuple(RankView(Member("node01", device, device), "device", end=End.OVERDUE) for device in (3, 4))
    test = TestResult("r1-0", "init", "", 0, None, tuple(view.member for view in views), TestOutcome.HANG, "device")
    (seen,) = with_held_devices([Observation(test, views)], kept)
    assert [view.held for view in seen.ranks] == [True, False]
