"""The Report as a Nagios plugin prints it: one line, counts behind the bar, and an exit code of its own.

https://nagios-plugins.org/doc/guidelines.html: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
"""

from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.report.text import printable

_WORDS = {Outcome.PASS: "OK", Outcome.WARN: "WARNING", Outcome.FAIL: "CRITICAL", Outcome.UNKNOWN: "UNKNOWN"}
_CODES = {Outcome.PASS: 0, Outcome.WARN: 1, Outcome.FAIL: 2, Outcome.UNKNOWN: 3}
_LONGEST = 200  # characters of the sentence; a bar in it would begin the counts


def nagios(report: Report) -> str:
    verdict = report.verdict
    hosts = {outcome: sum(line.verdict is outcome for line in report.hosts) for outcome in _WORDS}
    told = [finding for finding in report.findings if finding.outcome is verdict]
    what = f"{len(report.hosts)} host{'s' if len(report.hosts) != 1 else ''}"
    if verdict is not Outcome.PASS and told:
        more = f" and {len(told) - 1} more" if len(told) > 1 else ""
        what = f"{told[0].check} {told[0].summary}"[:_LONGEST] + more
    elif report.left_out:
        what = f"{report.left_out[0].host} was left out: {report.left_out[0].why}"[:_LONGEST]
    counts = " ".join(f"{outcome}={count}" for outcome, count in hosts.items())
    return f"PREFLIGHT {_WORDS[verdict]}: {printable(what).replace('|', '/')} | {counts}"


def nagios_code(report: Report) -> int:
    return _CODES[report.verdict]
