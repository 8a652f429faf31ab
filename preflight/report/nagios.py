"""The Report in the format of a Nagios plugin: one line, counts behind the bar, and a plugin's exit code.

https://nagios-plugins.org/doc/guidelines.html: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
"""

from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.model.text import printable

_WORDS = {Outcome.PASS: "OK", Outcome.WARN: "WARNING", Outcome.FAIL: "CRITICAL", Outcome.UNKNOWN: "UNKNOWN"}
_CODES = {Outcome.PASS: 0, Outcome.WARN: 1, Outcome.FAIL: 2, Outcome.UNKNOWN: 3}
_LONGEST = 200  # characters of the sentence; a bar in it would begin the counts


def nagios(report: Report) -> str:
    verdict = report.verdict
    hosts = {outcome: sum(line.verdict is outcome for line in report.hosts) for outcome in _WORDS}
    findings = [finding for finding in report.findings if finding.outcome is verdict]
    sentence = f"{len(report.hosts)} host{'s' if len(report.hosts) != 1 else ''}"
    if verdict is not Outcome.PASS and findings:
        remainder = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
        sentence = f"{findings[0].check} {findings[0].summary}"[:_LONGEST] + remainder
    elif report.left_out:
        sentence = f"{report.left_out[0].host} was left out: {report.left_out[0].why}"[:_LONGEST]
    counts = " ".join(f"{outcome}={count}" for outcome, count in hosts.items())
    return f"PREFLIGHT {_WORDS[verdict]}: {printable(sentence).replace('|', '/')} | {counts}"


def nagios_code(report: Report) -> int:
    return _CODES[report.verdict]
