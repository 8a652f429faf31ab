"""A probe with the vendor's HCCL Test instead of torch."""

from preflight.app.background import reached
from preflight.app.run import ClusterRun
from preflight.app.run_options import ProbeOptions
from preflight.app.session import Session
from preflight.checks.engine.run import NotRun
from preflight.model.rehearsal import Rehearsal
from preflight.probe import hccl_test
from preflight.probe.permission import may_probe
from preflight.probe.rehearsal import RehearsalRequest, rehearse


def run_hccl_test(run: ClusterRun, options: ProbeOptions, s: Session, rehearsal: Rehearsal | None = None) -> None:
    """Run HCCL Test over the hosts with devices that may be used, which are determined here.

    `rehearsal` is the port rehearsal, if there has been one.
    """
    run.facts = s.collect(sections=("npu_smi", "os"))
    run.refused = dict(may_probe(s.cluster, run.facts, s.hosts, asked_idle=options.idle))
    usable = [host for host in reached(s.hosts, run.facts) if host.name not in run.refused]
    ports = rehearsal or rehearse(RehearsalRequest(s.cluster, usable, "hccl"), s.transport, s.progress)
    jobs = hccl_test.jobs(hccl_test.look(s.cluster, usable, s.transport, s.progress), usable)
    plan = hccl_test.HcclTestPlan(s.cluster, usable, jobs, options.sizes)
    result = hccl_test.run(plan, s.transport, s.progress)
    run.rounds = {"rehearsal": ports, "hccl_test": result, "observations": NotRun("HCCL Test ran instead")}
    run.notes = ["HCCL Test ran instead of the probe: one job over all devices, which rarely locates a fault"]
    run.notes += filter(None, (ports.note,))
    run.observations = tuple(hccl_test.observations(result))
    run.runner = "hccl-test"
