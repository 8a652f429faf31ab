"""A run of check, probe or exec: what it has collected so far, and how that is judged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

from preflight.app.run_options import RunOptions
from preflight.app.session import Session
from preflight.checks.engine.registry import Check
from preflight.checks.engine.run import run_checks
from preflight.checks.engine.waivers import apply_waivers
from preflight.facts.types import ClusterFacts
from preflight.history.runs import RunSetting
from preflight.model.cluster import Cluster, Host
from preflight.model.finding import Finding
from preflight.model.measure import Observation
from preflight.model.outcome import Outcome
from preflight.model.report import LeftOut
from preflight.report.build import with_complete_commands


@dataclass
class ClusterRun:
    """A run over some hosts of a cluster. Without a `session` no host is contacted.

    `rounds` are inputs of the checks beside the facts, by the names that checks ask for. `refused` hosts are not
    judged, `untested` ones only had no tests with others; both map a host to the reason. `runner` ran the tests: a
    backend, or its replacement. `to_prove` is the command that remains before a job may start, or None.
    """

    command: str
    options: RunOptions
    cluster: Cluster
    hosts: tuple[Host, ...]
    session: Session | None = None
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    facts: ClusterFacts = field(default_factory=lambda: ClusterFacts({}))
    rounds: dict[str, object] = field(default_factory=dict)
    observations: tuple[Observation, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    untested: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    findings: Sequence[Finding] = ()
    runner: str = ""
    to_prove: str | None = None

    def judge(self, checks: Sequence[Check], ignored: Iterable[str] = ()) -> list[Finding]:
        """Return the findings of the checks, with waivers applied. `ignored` are ids of checks."""
        hosts = [host for host in self.hosts if host.name not in self.refused]
        findings = run_checks(self.cluster, self.facts, checks=checks, hosts=hosts, rounds=self.rounds)
        if self.observations:
            findings = _without_untested(findings, checks, self.observations)
        return apply_waivers(findings, self.cluster.waivers, ignored, date.today())

    def announce(self) -> None:
        """Give the findings so far to the stream, if there is one."""
        if stream := self.options.stream:
            stream.show_findings(with_complete_commands(self.findings, self.options.inventory, self.options.hosts))

    @property
    def left_out(self) -> list[LeftOut]:
        return [LeftOut(host, why) for host, why in {**self.refused, **self.untested}.items()]

    @property
    def setting(self) -> RunSetting:
        """Return what the run's figures hold for: the cluster and what ran the tests."""
        return setting_of(self.cluster, self.runner)


def setting_of(cluster: Cluster, runner: str = "") -> RunSetting:
    """Return the setting of a run. `runner` is the inventory's backend if it is empty."""
    return RunSetting(cluster.name, cluster.product.value, runner or cluster.probe.backend)


def _without_untested(
    findings: Iterable[Finding], checks: Iterable[Check], observations: Iterable[Observation]
) -> list[Finding]:
    """Return the findings, with a skip in place of a pass if a check needs tests and its host took part in none."""
    of_tests = {check.id for check in checks if "observations" in check.needs}
    tested: set[str | None] = {None, *(member.host for each in observations for member in each.test.members)}

    def is_untested(finding: Finding) -> bool:
        return finding.check in of_tests and finding.host not in tested and finding.outcome is Outcome.PASS

    return [
        replace(finding, outcome=Outcome.SKIP, summary=f"{finding.host}: not tested")
        if is_untested(finding)
        else finding
        for finding in findings
    ]
