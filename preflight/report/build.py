"""Findings and measurements → the one Report."""

import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Observation
from preflight.model.outcome import Outcome, overall
from preflight.model.report import HostLine, LeftOut, Report


def new_run_id(now: datetime) -> str:
    """A name for a run that sorts by time and is unique without asking anybody."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def host_lines(names: Iterable[str], findings: Iterable[Finding]) -> tuple[HostLine, ...]:
    """A line a host: the worst outcome of each check that spoke about it, counted."""
    worst: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for finding in findings:
        if finding.host is not None:
            seen = worst[finding.host].get(finding.check, finding.outcome)
            worst[finding.host][finding.check] = overall((seen, finding.outcome))
    lines = []
    for name in names:
        counted = Counter(worst[name].values())
        checks = {outcome.value: counted.get(outcome, 0) for outcome in Outcome}
        lines.append(HostLine(name, overall(worst[name].values()), checks))
    return tuple(lines)


def build(
    command: str,
    started: datetime,
    hosts: Sequence[str],
    findings: Sequence[Finding],
    *,
    observations: Sequence[Observation] = (),
    culprits: Sequence[Culprit] = (),
    left_out: Sequence[LeftOut] = (),
    notes: Sequence[str] = (),
    run: str | None = None,
) -> Report:
    """The report of a run that ends now."""
    return Report(
        run=run or new_run_id(started),
        command=command,
        started=utc(started),
        finished=utc(datetime.now(UTC)),
        hosts=host_lines(hosts, findings),
        findings=tuple(findings),
        tests=tuple(observation.test for observation in observations),
        culprits=tuple(culprits),
        left_out=tuple(left_out),
        notes=tuple(notes),
    )
