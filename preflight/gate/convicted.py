"""Whom a failure convicts, for all that act on it: verdicts, the controller's gate, gangs, exec. Pure."""

from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

ROLL_CALL = "r0-0"  # the test whose members are all hosts, there or not
_AT_FAULT = ("host", "device")  # of a link both ends are, perhaps, so neither; nor is anybody for a rail or a partition
_LOST = "host lost"  # PRB101's word where the way to a host broke off


def convicted(finding: Finding) -> frozenset[str]:
    """The hosts that are at fault, by themselves or by their devices."""
    return frozenset() if _gone(finding) else _named(finding)


def unheard(finding: Finding) -> frozenset[str]:
    """The hosts that gave no agent, or were lost on the way. That may be ssh, or the inventory's `python` and `setup`:
    nobody knows whether these hosts are good."""
    return _named(finding) if _gone(finding) else frozenset()


def _named(finding: Finding) -> frozenset[str]:
    culprit = finding.culprit
    return culprit.hosts if finding.outcome is Outcome.FAIL and culprit and culprit.kind in _AT_FAULT else frozenset()


def _gone(finding: Finding) -> bool:
    culprit = finding.culprit
    return culprit is not None and (set(culprit.tests) == {ROLL_CALL} or culprit.cause == _LOST)
