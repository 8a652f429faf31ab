"""The Report as JUnit XML, for CI servers: a suite a host, a case a check.

As Jenkins' junit-10.xsd and the readers of other CI systems have it: `failure` is what failed, `error` what could not
be looked at, `skipped` what does not apply. A warning passes, and says so in `system-out`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree

from preflight.model.finding import Finding
from preflight.model.outcome import Outcome, overall
from preflight.model.report import Report
from preflight.report.text import clipped, evidence, printable

WHOLE = "cluster"  # the suite of what is said of no single host
_TAGS = {Outcome.FAIL: "failure", Outcome.UNKNOWN: "error", Outcome.SKIP: "skipped", Outcome.WARN: "system-out"}
_COUNTED = {"tests": None, "failures": Outcome.FAIL, "errors": Outcome.UNKNOWN, "skipped": Outcome.SKIP}


def junit(report: Report, titles: Mapping[str, str], areas: Mapping[str, str]) -> str:
    """`titles` and `areas`: of checks, by id."""
    suites: dict[str, dict[str, list[Finding]]] = {line.name: defaultdict(list) for line in report.hosts}
    for finding in report.findings:
        suites.setdefault(finding.host or WHOLE, defaultdict(list))[finding.check].append(finding)
    why = {left.host: left.why for left in report.left_out}
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
            case = ElementTree.SubElement(suite, "testcase", name="the host was looked at", classname="hosts", time="0")
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
    yield from (f"likely: {finding.cause}" for _ in filter(None, (finding.cause,)))
    yield from (f"| {line}" for line in evidence(finding.evidence))
    yield from (f"-> {finding.remedy}" for _ in filter(None, (finding.remedy,)))


def _tell(case: ElementTree.Element, tag: str, sentences: Iterable[str]) -> None:
    lines = [clipped(sentence) for sentence in sentences]
    element = ElementTree.SubElement(case, tag)
    element.text = "\n".join(lines)
    if tag != "system-out":
        element.set("message", lines[0])
    if tag in ("failure", "error"):
        element.set("type", tag)
