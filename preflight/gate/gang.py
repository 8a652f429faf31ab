"""Verdicts for the pods of a gang, after the probe over all of them. Pure.

Exit codes of `preflight probe --via pods`, made for a podFailurePolicy; 1, 2, 4 and 130 mean the same as everywhere.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from preflight.gate.convicted import convicted, unheard
from preflight.model.finding import Finding, with_outcome
from preflight.model.outcome import Outcome
from preflight.model.text import printable

GOOD = 0
BROKEN = 42  # this pod's host, or a device of it, is the culprit
UNKNOWN = 43  # it is unknown whether the gang is good
OTHERS = 44  # the gang fails, and this pod is not the culprit: among other pods it may be good
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
    if failures := with_outcome(findings, Outcome.FAIL):
        return _failed(pods, failures, nodes)
    counts = Counter(finding.outcome for finding in findings)
    unknowns = [finding.summary for finding in with_outcome(findings, Outcome.UNKNOWN)]
    unknowns += [f"{pod} was not tested: {why}" for pod, why in left_out.items()]
    warnings = counts[Outcome.WARN]
    if unknowns or not counts[Outcome.PASS] + warnings:
        return unknown(pods, "; ".join(unknowns) or "nothing could be tested")
    suffix = f", {warnings} warning{'' if warnings == 1 else 's'}" if warnings else ""
    return dict.fromkeys(pods, _verdict(GOOD, f"{len(pods)} of {len(pods)} pods are healthy{suffix}"))


def unknown(pods: Sequence[str], why: str) -> dict[str, PodVerdict]:
    return dict.fromkeys(pods, _verdict(UNKNOWN, f"the state of the {len(pods)} pods is unknown: {why}"))


def _failed(pods: Sequence[str], failures: Sequence[Finding], nodes: Mapping[str, str]) -> dict[str, PodVerdict]:
    failures_of = {pod: [failure for failure in failures if pod in convicted(failure)] for pod in pods}
    broken = [pod for pod in pods if failures_of[pod]]
    silent = set(pods) & set().union(*map(unheard, failures))
    if _fail_together(pods, broken, silent):
        return dict.fromkeys(
            pods, _verdict(OTHERS, f"all pods fail, so no single pod is at fault: {_sentences(failures)}")
        )
    if not broken:
        return unknown(pods, _sentences(failures))
    places = {pod: _place(pod, nodes) for pod in broken}
    explanation = f"Broken: {', '.join(places.values())} ({_sentences(failures)})"

    def verdict(pod: str) -> PodVerdict:
        if pod in places:
            return _verdict(BROKEN, f"{places[pod]} is broken: {_sentences(failures_of[pod])}")
        if pod in silent:
            return _verdict(UNKNOWN, f"the state of {pod} is unknown. {explanation}")
        return _verdict(OTHERS, f"{pod} is not at fault. {explanation}")

    return {pod: verdict(pod) for pod in pods}


def _place(pod: str, nodes: Mapping[str, str]) -> str:
    return f"{pod} on node {nodes[pod]}" if nodes.get(pod) else pod


def _fail_together(pods: Sequence[str], broken: Collection[str], silent: Collection[str]) -> bool:
    """Return whether a failure is the image's or the job's: it concerns all pods that answered, or no pod answered."""
    concerned = {*broken, *silent}
    return not concerned or (concerned == set(pods) and len(pods) > 1 and len(broken) != 1)


def _sentences(failures: Sequence[Finding]) -> str:
    return "; ".join(
        f"{failure.summary} ({failure.check})" + (f", likely cause: {failure.cause}" if failure.cause else "")
        for failure in failures
    )


def _verdict(code: int, text: str) -> PodVerdict:
    """Return a verdict, with its text made printable: it may quote a host's output."""
    return PodVerdict(code, printable(f"preflight: {text}")[:MESSAGE])
