"""A run that has come with the key of a gate: the quick probe, and nothing that would run code or touch files."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from agent.restricted import refusal

from preflight.model.cluster import Host
from preflight.model.measure import Observation, Scope, TestOutcome
from preflight.probe.operations.operation import Operation
from preflight.probe.request import Request
from preflight.probe.run import probe
from preflight.transport.local import LocalTransport
from preflight.transport.types import Channel, Options, Program
from tests.unit.probe.test_agents import EVERYTHING, TOGETHER, cluster, mark

__all__ = ["mark"]  # the fixture

NUMBERS, OBJECTS = asdict(Operation("gather", "float32", 8)), asdict(Operation("gather", "", 8, form="object"))
GROUP: dict[str, Any] = {"init": "store", "store": ["h", 1], "tests": [NUMBERS], "workers": [{"rank": 0, "device": 0}]}
REFUSED: dict[str, Mapping[str, object]] = {
    "objects": {"tests": [NUMBERS, OBJECTS]},
    "objects, said of a worker": {"workers": [{"rank": 0}, {"rank": 1, "tests": [OBJECTS]}]},
    "a form that nobody knows": {"tests": [NUMBERS | {"form": ["object"]}]},
    "a file": {"init": "file", "file": "/shared/x"},
    "a file, said of a worker": {"workers": [{"rank": 0, "init": "file", "file": "/shared/x"}]},
    "a file that is removed in the end": {"file": "/etc/passwd"},
    "a place that nobody knows": {"init": "other"},
}


@pytest.mark.parametrize("told", REFUSED.values(), ids=REFUSED)
def test_what_could_hand_a_host_code_or_files_is_refused(told: Mapping[str, object]) -> None:
    assert refusal({**GROUP, **told}).startswith("the gate's key ")


@pytest.mark.parametrize("init", ["store", "env", "tcp"])
@pytest.mark.parametrize("form", ["tensor", "list", "async"])
def test_numbers_are_not(init: str, form: str) -> None:
    assert refusal({**GROUP, "init": init, "tests": [NUMBERS | {"form": form}]}) == ""


class Restricting(LocalTransport):
    """As gate/ssh.py does with what comes on stdin."""

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:  # type: ignore[override]
        hello = json.dumps({**json.loads(program.payload), "restricted": True}) + "\n"
        return super().start(host, replace(program, payload=hello.encode()), timeout=timeout)


def seen(mark: str, request: Request, init: str = "store", shared_dir: str = "") -> tuple[Observation, ...]:
    """Of real agents and workers."""
    two = cluster(mark)
    two = replace(two, probe=replace(two.probe, init=init, shared_dir=shared_dir))
    transport = Restricting(Options())
    try:
        return probe(two, two.hosts, transport, request).observations
    finally:
        transport.close()


def test_the_quick_probe_is_what_it_is_without(mark: str) -> None:
    assert {one.test.outcome for one in seen(mark, TOGETHER)} <= {TestOutcome.PASS, TestOutcome.SLOW}


REFUSING = {
    "objects": (
        EVERYTHING,
        "store",
        "refused: the gate's key does not allow collectives of the form 'object'",
    ),
    "a file": (TOGETHER, "file", "refused: the gate's key only allows init methods with a store, not 'file'"),
}


@pytest.mark.parametrize(("request_", "init", "why"), REFUSING.values(), ids=REFUSING)
def test_no_rank_is_started_for_anything_more_and_the_hosts_are_unknown(
    mark: str, tmp_path: Path, request_: Request, init: str, why: str
) -> None:
    together = [one for one in seen(mark, request_, init, str(tmp_path)) if one.test.scope is Scope.ALL]
    assert {one.test.outcome for one in together} <= {TestOutcome.FAIL, TestOutcome.NOT_RUN}
    assert any(why in view.error for one in together for view in one.ranks)
    assert list(tmp_path.iterdir()) == []
