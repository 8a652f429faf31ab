"""Devices that compute wrongly, as a whole probe finds them: real agents and workers over gloo, under the name hccl."""

from preflight.model.measure import Observation, Scope, TestOutcome
from preflight.probe.request import Request
from tests.unit.probe.test_agents import cluster, mark, run

__all__ = ["mark"]  # a fixture

ALONE_AND_TOGETHER = Request("hccl", (8, 1 << 10), (Scope.DEVICE, Scope.ALL), quick=True)


def places(observations: list[Observation]) -> set[str]:
    return {member.place for seen in observations for member in seen.test.members}


def test_a_device_that_multiplies_wrongly_is_found_alone_and_left_out_of_what_follows(mark: str) -> None:
    observations = run(cluster(mark, "multiplies-wrongly 1"), request=ALONE_AND_TOGETHER)
    wrong = [seen for seen in observations if seen.test.outcome is TestOutcome.WRONG_DATA]
    assert places(wrong) == {"node01/1", "node02/1"}
    # The stand-in's devices multiply on the host's processor, which does it as wrongly.
    assert {(seen.test.op, seen.test.scope) for seen in wrong} == {(op, Scope.DEVICE) for op in ("matmul", "processor")}
    assert {view.wrong_values for seen in wrong for view in seen.ranks} == {1}
    assert all(view.on_host == (seen.test.op == "matmul") for seen in wrong for view in seen.ranks)
    together = [seen for seen in observations if seen.test.scope is Scope.ALL]
    assert places(together) == {"node01/0", "node02/0"}
    assert {seen.test.outcome for seen in together} == {TestOutcome.PASS}
