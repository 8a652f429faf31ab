"""The Report as JUnit XML, for CI servers: a suite for each host, a case for each check.

The elements are those of Jenkins' junit-10.xsd and other CI systems. `failure` is a failed check, `error` one that
could not run, and `skipped` one that does not apply. A warning passes, with its text in `system-out`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree

from preflight.model.finding import Finding
from preflight.model.outcome import Outcome, overall
from preflight.model.report import Report
from preflight.model.text import printable
from preflight.report.text import clipped, evidence

WHOLE = "cluster"  # the suite of findings that concern no single host
_TAGS = {Outcome.FAIL: "failure", Outcome.UNKNOWN: "error", Outcome.SKIP: "skipped", Outcome.WARN: "system-out"}
_COUNTED = {"tests": None, "failures": Outcome.FAIL, "errors": Outcome.UNKNOWN, "skipped": Outcome.SKIP}


def junit(report: Report, titles: Mapping[str, str], areas: Mapping[str, str]) -> str:
    """Return the XML. `titles` and `areas` are those of checks, by id."""
    suites: dict[str, dict[str, list[Finding]]] = {line.name: defaultdict(list) for line in report.hosts}
    for finding in report.findings:
        suites.setdefault(finding.host or WHOLE, defaultdict(list))[finding.check].append(finding)
    why = {entry.host: entry.why for entry in report.left_out}
    root = ElementTree.Element("testsuites", name=f"preflight {report.command}", time=f"{report.seconds:.0f}")
    for name in dict.fromkeys([*suites, *why]):
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=printable(name),
            hostname=printable(name),
            timestamp=report.started.rstrip("Z"),
            time="0",
        )
        outcomes = [
            _case(suite, titles.get(check, ""), areas.get(check, ""), findings)
            for check, findings in sorted(suites.get(name, {}).items())
        ]
        if name in why:
            case = ElementTree.SubElement(suite, "testcase", name="Host checked", classname="hosts", time="0")
            _tell(case, "error", [f"left out: {why[name]}"])
            outcomes.append(Outcome.UNKNOWN)
        for key, counted in _COUNTED.items():
            suite.set(key, str(len(outcomes) if counted is None else outcomes.count(counted)))
    for key in _COUNTED:
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _case(suite: ElementTree.Element, title: str, area: str, findings: Sequence[Finding]) -> Outcome:
    check, outcome = findings[0].check, overall(finding.outcome for finding in findings)
    case = ElementTree.SubElement(suite, "testcase", name=f"{check} {title}".strip(), classname=area or check, time="0")
    if outcome is not Outcome.PASS:
        _tell(case, _TAGS[outcome], (text for finding in findings for text in _sentences(finding)))
    return outcome


def _sentences(finding: Finding) -> Iterable[str]:
    if finding.outcome is Outcome.PASS:
        return
    yield f"{finding.outcome}: {finding.summary}"
    yield from (f"evidence: {line}" for line in evidence(finding.evidence))
    if finding.cause:
        yield f"likely cause: {finding.cause}"
    if finding.remedy or finding.commands:
        yield f"fix: {finding.remedy}".rstrip()
    yield from (f"  {command}" for command in finding.commands)
    if finding.retest:
        yield f"retest: {finding.retest}"


def _tell(case: ElementTree.Element, tag: str, sentences: Iterable[str]) -> None:
    lines = [clipped(sentence) for sentence in sentences]
    element = ElementTree.SubElement(case, tag)
    element.text = "\n".join(lines)
    if tag != "system-out":
        element.set("message", lines[0])
    if tag in ("failure", "error"):
        element.set("type", tag)
