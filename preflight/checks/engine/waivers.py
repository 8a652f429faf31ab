"""Waivers of accepted findings, which are shown as warnings with the person and the reason."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import select
from preflight.model.cluster import Waiver
from preflight.model.errors import UsageError
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

_WAIVABLE = (Outcome.FAIL, Outcome.UNKNOWN)


def apply_waivers(
    findings: Iterable[Finding], waivers: Sequence[Waiver], ignored: Iterable[str], today: date
) -> list[Finding]:
    """Return the findings in their order; fail and unknown become warn if `ignored` or a waiver covers them.

    `ignored`: the words of --ignore, as `select` reads them. A waiver is valid up to and including its day of expiry.
    An expired waiver has no effect, and the finding reports that it has expired. Raise UsageError for unknown ids."""
    words = list(ignored)
    if any(word.lower() in ("all", "*") for word in words):
        raise UsageError("--ignore cannot ignore all checks. Give the ids of the checks to ignore.")
    ids = {check.id for check in select(all_checks(), words)} if words else set()
    return [_waived(finding, waivers, ids, today) if finding.outcome in _WAIVABLE else finding for finding in findings]


def _waived(finding: Finding, waivers: Sequence[Waiver], ignored: set[str], today: date) -> Finding:
    if finding.check in ignored:
        return _as_warning(finding, "ignored with --ignore")
    matching = [w for w in waivers if w.check.upper() == finding.check and w.host in ("*", finding.host)]
    for waiver in matching:
        if today <= waiver.expires:
            return _as_warning(finding, f"waived by {waiver.owner} until {waiver.expires}: {waiver.reason}")
    if matching:
        waiver = max(matching, key=lambda waiver: waiver.expires)
        note = f"the waiver by {waiver.owner} expired on {waiver.expires}: {waiver.reason}"
        return replace(finding, evidence=(*finding.evidence, note))
    return finding


def _as_warning(finding: Finding, why: str) -> Finding:
    """Return the finding as a warning, without its change, since an accepted state is to stay."""
    return replace(
        finding,
        outcome=Outcome.WARN,
        summary=f"{finding.summary} ({finding.outcome}, {why})",
        evidence=(*finding.evidence, why),
        change=None,
    )
