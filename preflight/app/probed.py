"""The end of `preflight probe`: results of any runner are judged, saved and shown."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from preflight.app.publish import publisher
from preflight.app.remember import setting_of
from preflight.app.session import Session
from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.checks.engine.waivers import apply_waivers
from preflight.cli.output import end, present
from preflight.facts.types import ClusterFacts
from preflight.model.finding import Finding
from preflight.model.measure import Observation
from preflight.model.report import LeftOut

_JUDGING = {"rehearsal", "observations", "hccl_test", "link_counts"}  # a check of the probe needs one of these


@dataclass(frozen=True)
class Probed:
    """Results of a probe.

    `refused`: host → why it was left out. `alone`: host → why only its own devices were tested. `rounds`: inputs of the
    checks. `runner`: the backend, or its replacement.
    """

    facts: ClusterFacts
    refused: Mapping[str, str]
    rounds: Mapping[str, object]
    observations: Sequence[Observation]
    notes: Sequence[str]
    runner: str
    alone: Mapping[str, str] = field(default_factory=dict)


def judged(s: Session, probed: Probed) -> list[Finding]:
    needed = _JUDGING & set(probed.rounds)
    checks = [check for check in all_checks().values() if needed & set(check.needs)]
    hosts = [host for host in s.hosts if host.name not in probed.refused]
    findings = run_checks(s.cluster, probed.facts, checks=checks, hosts=hosts, rounds=probed.rounds)
    return apply_waivers(findings, s.cluster.waivers, (), date.today())


def finish_probe(
    args: argparse.Namespace,
    s: Session,
    started: datetime,
    probed: Probed,
    findings: Sequence[Finding] | None = None,
    notes: Sequence[str] = (),
) -> int:
    """Judge, save and show the results, and return the exit code.

    `findings` are those of `judged`, if known already. `notes` are added to those of the probe.
    """
    limited = [f"limited to {args.limit}, as asked"] if args.limit else []
    ending = end(
        args,
        "probe",
        started,
        s.hosts,
        judged(s, probed) if findings is None else findings,
        observations=probed.observations,
        left_out=[LeftOut(host, why) for host, why in {**probed.refused, **probed.alone}.items()],
        notes=[*limited, *probed.notes, *notes],
        phases=s.progress.timeline.phases(started),
        setting=setting_of(s.cluster, probed.runner),
        facts=probed.facts,
        publish=publisher(args, s, probed.facts),
    )
    return present(args, ending)
