"""The one Report, built from findings and measurements."""

import re
import secrets
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Observation
from preflight.model.outcome import Outcome, overall, worst_by
from preflight.model.report import HostLine, LeftOut, Phase, Report


def new_run_id(now: datetime) -> str:
    """Return a run's id, which sorts by time and is unique without a central registry."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def host_lines(names: Iterable[str], findings: Iterable[Finding]) -> tuple[HostLine, ...]:
    """Return one line for each host, with the number of checks for each of their worst outcomes there."""
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for (host, _), outcome in worst_by(
        ((finding.host, finding.check), finding.outcome) for finding in findings
    ).items():
        if host is not None:
            outcomes[host].append(outcome)
    lines = []
    for name in names:
        checks = {outcome.value: outcomes[name].count(outcome) for outcome in Outcome}
        lines.append(HostLine(name, overall(outcomes[name]), checks))
    return tuple(lines)


_WITH_INVENTORY = r"configure|probe|check|ranktable|diagnose(?= --fetch)"  # commands that need one
_WITH_HOSTS = r"check(?=[ \n]|$)"  # commands that take hosts without an inventory


def _naming(inventory: Path, finding: Finding, hosts: str | None = None) -> Finding:
    """Return the finding with preflight's commands made complete: they name this run's inventory, or its `hosts`."""
    if not (finding.remedy or finding.commands or finding.retest):
        return finding
    option = f" --hosts {shlex.quote(hosts)}" if hosts else f" --inventory {shlex.quote(str(inventory))}"
    commands_pattern = _WITH_HOSTS if hosts else _WITH_INVENTORY

    def named(text: str) -> str:
        return re.sub(
            rf"\bpreflight ({commands_pattern})[a-z-]*",
            lambda match: match[0] + option,
            text,
        )

    commands = tuple(map(named, finding.commands))
    return replace(finding, remedy=named(finding.remedy), commands=commands, retest=named(finding.retest))


def with_complete_commands(findings: Sequence[Finding], inventory: Path, hosts: str | None = None) -> list[Finding]:
    """Return the findings with commands that name the run's inventory, or its `hosts` without one."""
    return [_naming(inventory, finding, hosts) for finding in findings]


def culprits(findings: Iterable[Finding]) -> tuple[Culprit, ...]:
    """Return the culprits that failures name, each once. A warning is no reason to take a device out of service."""
    failures = (finding for finding in findings if finding.outcome is Outcome.FAIL)
    return tuple(dict.fromkeys(finding.culprit for finding in failures if finding.culprit))


@dataclass(frozen=True)
class RunDetails:
    """A run's results besides its findings. With `inventory`, preflight's commands in remedies name it.

    `hosts` are the hosts of a run without an inventory. Then the commands name these.
    """

    observations: Sequence[Observation] = ()
    left_out: Sequence[LeftOut] = ()
    notes: Sequence[str] = ()
    phases: Sequence[Phase] = ()
    inventory: Path | None = None
    hosts: str | None = None


NO_DETAILS = RunDetails()


def build(
    command: str,
    started: datetime,
    hosts: Sequence[str],
    findings: Sequence[Finding],
    details: RunDetails = NO_DETAILS,
) -> Report:
    """Return the report of a run that ends now."""
    if details.inventory:
        findings = with_complete_commands(findings, details.inventory, details.hosts)
    place = {name: number for number, name in enumerate(hosts)}
    return Report(
        run=new_run_id(started),
        command=command,
        started=utc(started),
        finished=utc(datetime.now(UTC)),
        hosts=host_lines(hosts, findings),
        findings=tuple(findings),
        tests=tuple(observation.test for observation in details.observations),
        culprits=culprits(findings),
        left_out=tuple(sorted(details.left_out, key=lambda entry: place.get(entry.host, len(place)))),
        notes=tuple(details.notes),
        phases=tuple(details.phases),
    )


def joined(started: datetime, reports: Sequence[Report]) -> Report:
    """Join reports of different hosts, in their order."""
    second = started.replace(microsecond=0)  # a report's start is in whole seconds
    return Report(
        run=new_run_id(started),
        command=reports[0].command,
        started=utc(started),
        finished=utc(datetime.now(UTC)),
        hosts=tuple(line for report in reports for line in report.hosts),
        findings=tuple(finding for report in reports for finding in report.findings),
        tests=tuple(test for report in reports for test in report.tests),
        culprits=tuple(culprit for report in reports for culprit in report.culprits),
        left_out=tuple(entry for report in reports for entry in report.left_out),
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
        phases=tuple(
            replace(phase, begin=phase.begin + (datetime.fromisoformat(report.started) - second).total_seconds())
            for report in reports
            for phase in report.phases
        ),
    )
