"""Reports that were saved, read back as sides of a comparison."""

import msgspec

from preflight.facts.documents import refused_document
from preflight.facts.documents.refused_document import refusal
from preflight.model.errors import UsageError
from preflight.model.figures import figures
from preflight.model.finding import Finding
from preflight.model.measure import TestResult
from preflight.model.outcome import Outcome
from preflight.model.report import SCHEMA
from preflight.report.diff import Side


class _ReportHost(msgspec.Struct):
    name: str


class _Report(msgspec.Struct):
    schema: str
    run: str
    command: str
    started: str
    verdict: Outcome
    hosts: tuple[_ReportHost, ...]
    findings: tuple[Finding, ...]
    tests: tuple[TestResult, ...]
    checks: dict[str, frozenset[str]] = {}


def of_report(text: str | bytes, source: str) -> Side:
    """Parse a report into a side. Raise UsageError if it is not one."""
    try:
        report = msgspec.json.decode(text, type=_Report)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UsageError(refusal(source, refused_document.REPORT, SCHEMA, text, error)) from error
    if report.schema != SCHEMA:
        raise UsageError(refusal(source, refused_document.REPORT, SCHEMA, text))
    return Side(
        source,
        report.run,
        report.command,
        report.started,
        report.verdict,
        tuple(host.name for host in report.hosts),
        findings=report.findings,
        checks=_named(report.findings) | report.checks,
        figures=figures(report.tests),
    )


def _named(findings: tuple[Finding, ...]) -> dict[str, frozenset[str]]:
    """Return the checks that findings name: reports of older releases do not list the checks that have run."""
    return {finding.check: frozenset() for finding in findings}
