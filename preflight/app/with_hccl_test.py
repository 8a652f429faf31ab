"""`preflight probe` with the vendor's HCCL Test instead of torch."""

import argparse

from preflight.app.background import reached
from preflight.app.probed import Probed
from preflight.app.session import Session
from preflight.checks.engine.run import NotRun
from preflight.facts.collect import collect
from preflight.model.rehearsal import Rehearsal
from preflight.probe import hccl_test
from preflight.probe.permission import may_probe
from preflight.probe.rehearsal import rehearse


def with_hccl_test(args: argparse.Namespace, s: Session, rehearsal: Rehearsal | None = None) -> Probed:
    """Run HCCL Test over the hosts with devices that may be used, which are determined here.

    `rehearsal` is the port rehearsal, if there has been one.
    """
    sections = ("npu_smi", "os")
    facts = collect(s.cluster, s.hosts, s.transport, progress=s.progress, ports=s.cluster.ports, sections=sections)
    refused = dict(may_probe(s.cluster, facts, s.hosts, asked_idle=args.idle))
    usable = [host for host in reached(s.hosts, facts) if host.name not in refused]
    ports = rehearsal or rehearse(s.cluster, usable, s.transport, "hccl", s.progress)
    jobs = hccl_test.jobs(hccl_test.look(s.cluster, usable, s.transport, s.progress), usable)
    result = hccl_test.run(s.cluster, usable, jobs, s.transport, sizes=args.sizes, progress=s.progress)
    rounds = {"rehearsal": ports, "hccl_test": result, "observations": NotRun("HCCL Test took its place")}
    notes = ["HCCL Test in the probe's place: one job over all devices, which seldom tells where a fault is"]
    notes += filter(None, (ports.note,))
    observations = hccl_test.observations(result)
    return Probed(facts, refused, rounds, observations, notes, "hccl-test")
