"""Verdicts for the pods of a gang, after the probe over all of them. Pure.

Exit codes of `preflight probe --via pods`, made for a podFailurePolicy; 1, 2, 4 and 130 mean the same as everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from preflight.gate.convicted import convicted, unheard
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.report.text import printable

GOOD = 0
BROKEN = 42  # this pod's host, or a device of it, is named
UNKNOWN = 43  # it is unknown whether the gang is good
OTHERS = 44  # the gang fails, and this pod is not named: among other pods it may be good
CODES = frozenset({BROKEN, UNKNOWN, OTHERS})

MESSAGE = 4096  # bytes that Kubernetes reads of a termination message


@dataclass(frozen=True)
class PodVerdict:
    code: int
    message: str


def verdicts(
    pods: Sequence[str], findings: Sequence[Finding], left_out: Mapping[str, str], nodes: Mapping[str, str]
) -> dict[str, PodVerdict]:
    """Return a verdict for each pod.

    `left_out`: pod → why it was not probed; with such a pod, no pod is good. `nodes`: pod → the node that it is on.
    """
    failures = [finding for finding in findings if finding.outcome is Outcome.FAIL]
    if failures:
        return _failed(pods, failures, nodes)
    unknowns = [finding.summary for finding in findings if finding.outcome is Outcome.UNKNOWN]
    unknowns += [f"{pod} was left out: {why}" for pod, why in left_out.items()]
    if unknowns or not any(finding.outcome in (Outcome.PASS, Outcome.WARN) for finding in findings):
        return unknown(pods, "; ".join(unknowns) or "nothing could be tested")
    warnings = sum(finding.outcome is Outcome.WARN for finding in findings)
    suffix = f"; warnings: {warnings}" if warnings else ""
    return dict.fromkeys(pods, _verdict(GOOD, f"good: {len(pods)} of {len(pods)} pods{suffix}"))


def unknown(pods: Sequence[str], why: str) -> dict[str, PodVerdict]:
    return dict.fromkeys(pods, _verdict(UNKNOWN, f"nobody knows whether the gang of {len(pods)} is good: {why}"))


def _failed(pods: Sequence[str], failures: Sequence[Finding], nodes: Mapping[str, str]) -> dict[str, PodVerdict]:
    broken = [pod for pod in pods if any(pod in convicted(failure) for failure in failures)]
    silent = [pod for pod in pods if any(pod in unheard(failure) for failure in failures)]
    named = {*broken, *silent}
    if not named or (named == set(pods) and len(pods) > 1 and len(broken) != 1):
        # A failure of all pods that answered is the image's or the job's; likewise if no pod answered.
        return dict.fromkeys(pods, _verdict(OTHERS, f"the pods fail together, none by itself: {_told(failures)}"))
    if not broken:
        return unknown(pods, _told(failures))
    places = {pod: f"{pod} on node {nodes[pod]}" if nodes.get(pod) else pod for pod in broken}
    explanation = f"broken: {', '.join(places.values())}: {_told(failures)}"
    verdicts_by_pod = {pod: _verdict(OTHERS, f"{pod} is not at fault; {explanation}") for pod in pods}
    verdicts_by_pod |= {pod: _verdict(UNKNOWN, f"nobody knows whether {pod} is good; {explanation}") for pod in silent}
    for pod, place in places.items():
        own = [failure for failure in failures if pod in convicted(failure)]
        verdicts_by_pod[pod] = _verdict(BROKEN, f"{place} is broken: {_told(own)}")
    return verdicts_by_pod


def _told(failures: Sequence[Finding]) -> str:
    return "; ".join(
        f"{failure.summary} ({failure.check})" + (f", because {failure.cause}" if failure.cause else "")
        for failure in failures
    )


def _verdict(code: int, text: str) -> PodVerdict:
    """Return a verdict, with its text made printable: it may quote a host's output."""
    return PodVerdict(code, printable(f"preflight: {text}")[:MESSAGE])
