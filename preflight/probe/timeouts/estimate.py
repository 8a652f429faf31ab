"""Estimated duration of the probe before it starts: a rule of thumb for a healthy cluster. Pure."""

from collections.abc import Sequence

from preflight.model.measure import Scope
from preflight.probe.operations.local_tests import OF_DEVICE
from preflight.probe.operations.operation import Operation
from preflight.probe.request import SCOPES
from preflight.probe.rounds import ProbePlan, Round
from preflight.transport.types import WholeProgress

# Seconds until the ranks of a round have met and connected, by backend, and a rank's share if ranks share cores.
_MEET = {"gloo": 0.5, "nccl": 4.0, "hccl": 6.0}
_CROWDED_RANK = 0.04
_CALL = 0.004  # seconds of one call and the comparison of its result, whatever its size
_RATE = {"gloo": 0.3e9, "nccl": 10e9, "hccl": 10e9}  # bytes a second
# Of a device alone: seconds until its data are made and its clocks are up, and the bytes a second that one processor
# compares. Measured on the host of an H100 (docs/gpu-run.md).
_PREPARED, _COMPARED = 1.2, 2.5e9


def seconds(plan: ProbePlan) -> float:
    """Return the seconds of all rounds that are sure to be played. Rounds that retest failures are not among them."""
    return sum(_round(plan, round_) for round_ in _rounds(plan))


def seconds_ahead(plan: ProbePlan, round_: Round, later: Sequence[Scope]) -> float:
    """Return the seconds of `round_` and the rounds of the scopes after it if nothing hangs."""
    return _round(plan, round_) + sum(_round(plan, next_) for scope in later for next_ in _rounds_of(plan, scope))


def longest_test(plan: ProbePlan, round_: Round) -> float:
    """Return the seconds of the longest test of a round on a healthy cluster."""
    return max((_test(plan, test) for group in round_.groups for test in group.tests), default=0.0)


def without_groups(plan: ProbePlan) -> list[Scope]:
    """Return the requested scopes that make no group: rails of one host, pairs of one device."""
    return [scope for scope in plan.request.scopes if not _rounds_of(plan, scope)]


def _rounds(plan: ProbePlan) -> list[Round]:
    return [round_ for scope in SCOPES if scope in plan.request.scopes for round_ in _rounds_of(plan, scope)]


def _rounds_of(plan: ProbePlan, scope: Scope) -> list[Round]:
    """Return the rounds of a scope that have groups."""
    if scope is Scope.DEVICE:
        return [round_ for round_ in (plan.devices(0), plan.processors(0)) if round_.groups]
    make = {
        Scope.HOST: plan.within_hosts,
        Scope.ALL: plan.all_devices,
        Scope.RAIL: plan.rails,
    }
    round_ = plan.pair_round(0, plan.neighbours()[0]) if scope is Scope.PAIR else make[scope](0)
    return [round_] if round_.groups else []


def _round(plan: ProbePlan, round_: Round) -> float:
    """Return the seconds of a round. Groups that take turns add up, otherwise the longest group counts."""
    backend = plan.request.backend
    ranks = sum(len(group.members) for group in round_.groups)
    meet = _MEET[backend] + (_CROWDED_RANK * ranks if plan.crowded else 0.0)
    groups = []
    for group in round_.groups:
        ranks_in_turn = len(group.members) if plan.crowded else 1
        groups.append(ranks_in_turn * sum(_test(plan, test) for test in group.tests))
    return meet + (sum(groups) / round_.lanes if len(groups) > round_.lanes else max(groups))


def _test(plan: ProbePlan, test: Operation) -> float:
    calls = test.iterations + test.warmup
    if test.op in OF_DEVICE and plan.request.backend != "gloo":
        return _PREPARED + calls * test.bytes / _COMPARED
    return calls * (_CALL + test.bytes / _RATE[plan.request.backend])


def whole(plan: ProbePlan) -> WholeProgress:
    """Return the progress of a probe that is about to begin."""
    tests = sum(len(group.tests) for round_ in _rounds(plan) for group in round_.groups)
    return WholeProgress(0, tests, seconds(plan))


def sentence(plan: ProbePlan) -> str:
    """Return the announcement for the operator."""
    ranks = sum(len(plan.devices_of(host)) for host in plan.hosts)
    scopes = ", ".join(scope for scope in SCOPES if scope in plan.request.scopes)
    ahead = whole(plan)
    tests, about = _many(ahead.total, "test"), f"about {max(1, round(ahead.expected))} s"
    if plan.request.budget:
        about += f", {plan.request.budget:.0f} s at most"
    return f"probe: {_many(ranks, 'rank')} on {_many(len(plan.hosts), 'host')}, {tests} ({scopes}), {about}"


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
