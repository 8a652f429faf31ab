"""What each pod of a gang is told after the probe over all of them. Pure.

Exit codes of `preflight probe --via pods`, made for a podFailurePolicy; 1, 2, 4 and 130 stay what they are everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

GOOD = 0
BROKEN = 42  # this pod's host, or a device of it, is named
UNKNOWN = 43  # nobody knows
OTHERS = 44  # the gang fails, and this pod is not named: with other company it may do well
CODES = frozenset({BROKEN, UNKNOWN, OTHERS})

MESSAGE = 4096  # bytes that Kubernetes reads of a termination message
_NAMES_ONE = ("host", "device")  # the kinds of culprits whose members are to blame, each by itself


@dataclass(frozen=True)
class PodVerdict:
    code: int
    message: str


def verdicts(
    pods: Sequence[str], findings: Sequence[Finding], left_out: Mapping[str, str], nodes: Mapping[str, str]
) -> dict[str, PodVerdict]:
    """`left_out`: pod → why it was not probed, after which nobody is good; `nodes`: pod → the node that it is on."""
    failures = [finding for finding in findings if finding.outcome is Outcome.FAIL]
    if failures:
        return {pod: _failed(pod, failures, nodes) for pod in pods}
    unseen = [finding.summary for finding in findings if finding.outcome is Outcome.UNKNOWN]
    unseen += [f"{pod} was left out: {why}" for pod, why in left_out.items()]
    if unseen or not any(finding.outcome in (Outcome.PASS, Outcome.WARN) for finding in findings):
        return unknown(pods, "; ".join(unseen) or "nothing could be tested")
    warnings = sum(finding.outcome is Outcome.WARN for finding in findings)
    said = f"preflight: good: {len(pods)} of {len(pods)} pods" + (f"; warnings: {warnings}" if warnings else "")
    return dict.fromkeys(pods, PodVerdict(GOOD, said))


def unknown(pods: Sequence[str], why: str) -> dict[str, PodVerdict]:
    said = f"preflight: nobody knows whether the gang of {len(pods)} is good: {why}"
    return dict.fromkeys(pods, PodVerdict(UNKNOWN, said))


def _failed(pod: str, failures: Sequence[Finding], nodes: Mapping[str, str]) -> PodVerdict:
    own = [failure for failure in failures if pod in _named(failure)]
    if own:
        return PodVerdict(BROKEN, f"preflight: {_on_node(pod, nodes)} is broken: {_told(own)}")
    named = sorted(frozenset[str]().union(*map(_named, failures)))
    if named:
        places = ", ".join(_on_node(one, nodes) for one in named)
        return PodVerdict(OTHERS, f"preflight: {pod} is not at fault; broken: {places}: {_told(failures)}")
    return PodVerdict(OTHERS, f"preflight: the pods fail together, and none of them is named: {_told(failures)}")


def _on_node(pod: str, nodes: Mapping[str, str]) -> str:
    return f"{pod} on node {nodes[pod]}" if nodes.get(pod) else pod


def _named(failure: Finding) -> frozenset[str]:
    """The pods that it is held against. Of two that do not reach each other it is neither."""
    if failure.culprit:
        members = failure.culprit.members if failure.culprit.kind in _NAMES_ONE else ()
        return frozenset(member.partition("/")[0] for member in members)
    return frozenset([failure.host] if failure.host and not failure.peer else [])


def _told(failures: Sequence[Finding]) -> str:
    return "; ".join(
        f"{failure.summary} ({failure.check})" + (f", because {failure.cause}" if failure.cause else "")
        for failure in failures
    )
