"""Hosts that a failure identifies as culprits, for verdicts, the controller's gate, gangs and exec. Pure."""

from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

ROLL_CALL = "r0-0"  # the test in which all hosts are members, there or not
_AT_FAULT = ("host", "device")  # of a link, either end may be, so neither is; a rail or a partition names no host
_LOST = "host lost"  # PRB101's cause if the way to a host broke off


def convicted(finding: Finding) -> frozenset[str]:
    """Return the hosts that are at fault, by themselves or by their devices."""
    return frozenset() if _gone(finding) else _named(finding)


def unheard(finding: Finding) -> frozenset[str]:
    """Return the hosts that gave no agent, or were lost on the way.

    The cause may be ssh, or the inventory's `python` and `setup`: it is unknown whether these hosts are good.
    """
    return _named(finding) if _gone(finding) else frozenset()


def _named(finding: Finding) -> frozenset[str]:
    culprit = finding.culprit
    return culprit.hosts if finding.outcome is Outcome.FAIL and culprit and culprit.kind in _AT_FAULT else frozenset()


def _gone(finding: Finding) -> bool:
    culprit = finding.culprit
    return culprit is not None and (set(culprit.tests) == {ROLL_CALL} or culprit.cause == _LOST)
