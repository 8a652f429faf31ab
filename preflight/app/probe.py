"""A probe: tests over all devices, judged."""

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from preflight.app.background import FactsOfHosts, in_background, left, reached, rehearse_ports, result_by, unreached
from preflight.app.causes import causes
from preflight.app.link_counts import after_tests, before_tests
from preflight.app.probe_pods import in_pod
from preflight.app.probed import Probed, finish_probe
from preflight.app.publish import refuse_partial_probe
from preflight.app.remember import baseline_of, setting_of
from preflight.app.session import Session, session
from preflight.app.with_hccl_test import with_hccl_test
from preflight.cli.report_options import refuse_unwritable
from preflight.facts.link_counts import LinkCounts, sentence
from preflight.facts.pings.device_ports import leaves
from preflight.facts.types import ClusterFacts
from preflight.model.cluster import Host, ProbeSettings, Product
from preflight.model.errors import NotSeenError, UsageError
from preflight.model.measure import End, Observation, TestOutcome
from preflight.model.rehearsal import Rehearsal
from preflight.probe.estimate import without_groups
from preflight.probe.hccl_test import nobody_has_torch
from preflight.probe.hooks import Hooks
from preflight.probe.line_rate import ports, with_line_rates
from preflight.probe.permission import may_probe
from preflight.probe.request import USUAL, Request
from preflight.probe.rounds import Plan
from preflight.probe.run import probe
from preflight.transport.engine import Engine, open_engine


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    started = datetime.now(UTC)
    with session(args) as by_ssh, reached_as_asked(args, by_ssh) as s:
        refuse_partial_probe(args, s.cluster.probe)
        if not (args.idle or s.cluster.probe.idle):
            raise UsageError(
                "the probe keeps every device busy; say that these hosts are idle and yours with --idle, or with "
                "idle = true under [probe] in the inventory"
            )
        if args.via == "pods":
            return in_pod(args, s, probed)
        return finish_probe(args, s, started, probed(args, s))


def probed(args: argparse.Namespace, s: Session) -> Probed:
    """Run the requested tests over the session's hosts.

    Raise UsageError for an invalid request, and NotSeenError if the engine ends.
    """
    s = _meeting_as_asked(s, args.init)
    _refuse_strange_backend(args.backend, s.cluster.product)
    if args.tool == "hccl-test":
        if args.budget:
            raise UsageError("HCCL Test takes as long as it takes; leave out --budget, or --with")
        if not s.cluster.product.is_npu or args.backend not in (None, "hccl"):
            raise UsageError("HCCL Test runs over the devices of an NPU cluster; leave out --with, or --backend")
        return with_hccl_test(args, s)
    return _with_torch(args, s)


@contextmanager
def reached_as_asked(args: argparse.Namespace, s: Session) -> Iterator[Session]:
    """Yield the session, over the site's engine if requested. Raise UsageError if that is impossible from here."""
    via = args.via or s.cluster.probe.via
    s = s._replace(cluster=replace(s.cluster, probe=replace(s.cluster.probe, via=via)))
    if via in ("ssh", "pods"):  # pods have to arrive first
        yield s
        return
    if args.ask_sudo_password:
        raise UsageError(
            f"-K: what one host is told over {via}, all hosts hear, so no password is; let sudo do without one "
            "(NOPASSWD), or go by --via ssh"
        )
    if args.tool == "hccl-test":
        raise UsageError(f"HCCL Test starts its ranks by an mpirun of its own and ssh, not over {via}: --via ssh")

    with open_engine(via, s.hosts, os.environ) as engine:
        yield s._replace(transport=engine)


def _start_engine(s: Session, budget: float | None) -> None:
    """Start the site's engine, within half of the budget.

    Raise NotSeenError if it starts nothing: no host is at fault.
    """
    if s.cluster.probe.via == "ssh":
        return

    if isinstance(s.transport, Engine):
        s.progress.say(f"waiting for the hosts to come, by {s.cluster.probe.via}")
        s.transport.begin(s.hosts, budget / 2 if budget else None)
        _stop_without_engine(s)


def _stop_without_engine(s: Session) -> None:
    """Raise NotSeenError if the engine has ended by itself, which is no host's fault."""
    if s.cluster.probe.via == "ssh":
        return

    if isinstance(s.transport, Engine) and s.transport.ended:
        raise NotSeenError(
            f"the probe came to no verdict: {s.transport.ended}; leave out hosts that it does not reach: --limit"
        )


def _meeting_as_asked(s: Session, init: str | None) -> Session:
    """Return the session with the requested meeting of ranks. Raise UsageError if a file needs an unknown directory."""
    if init == "file" and not s.cluster.probe.shared_dir:
        raise UsageError("--init file needs shared_dir under [probe] in the inventory, which all hosts share")
    return s._replace(cluster=replace(s.cluster, probe=replace(s.cluster.probe, init=init))) if init else s


def _refuse_strange_backend(backend: str | None, product: Product) -> None:
    """Raise UsageError for a backend that needs devices of another product. gloo runs everywhere."""
    supported = {"hccl": product.is_npu, "nccl": product is Product.NVIDIA}
    if backend and not supported.get(backend, True):
        backends = [name for name, has_devices in supported.items() if has_devices]
        raise UsageError(f"--backend {backend} does not run on {product}; {' or '.join([*backends, 'gloo'])} does")


def _with_torch(args: argparse.Namespace, s: Session) -> Probed:
    request = request_of(args, s.cluster.probe)
    notes = [*_without_groups(args, s, request)]
    begin = time.monotonic()

    def share(part: float) -> float:
        """Return the time at which that part of the run's budget is spent."""
        return begin + part * (request.budget or float("inf"))

    _start_engine(s, request.budget)
    # Busy devices and reachable hosts are determined while the hosts import torch.
    product = s.cluster.product
    section = "npu_smi" if product.is_npu else "nvidia" if product is Product.NVIDIA else "os"
    facts = FactsOfHosts(s, (section,))
    refused: dict[str, str] = {}

    def idle(present: Sequence[Host]) -> list[Host]:
        facts_in_time = facts.of(present, share(1 / 2))
        late = [host.name for host in present if host.name not in facts_in_time.hosts]
        refused.update(dict.fromkeys(late, "it did not say in time whether its devices are in use"))
        refused.update(may_probe(s.cluster, facts_in_time, present, asked_idle=args.idle))
        return [host for host in present if host.name not in refused]

    def usable() -> list[Host]:
        facts_in_time = facts.of(s.hosts, share(1 / 4))
        busy = dict(may_probe(s.cluster, facts_in_time, s.hosts, asked_idle=args.idle))
        return [host for host in reached(s.hosts, facts_in_time) if host.name not in busy]

    rehearsal = rehearse_ports(s, request.backend, usable, share(1 / 3))
    nics = in_background(lambda: before_tests(s, request.backend))
    end = share(1)
    hooks = Hooks(
        s.progress,
        s.progress.note,
        notes.append,
        idle,
        ports_free=lambda: rehearsal.exception(left(share(1 / 3))),
        unreached=lambda: unreached(rehearsal),
        leaves=lambda: leaves(result_by(nics, end, ClusterFacts({}))),
    )
    proof = probe(s.cluster, s.hosts, s.transport, request, hooks)
    _stop_without_engine(s)
    refused.update(proof.busy)
    observations = proof.observations
    rehearsed = result_by(rehearsal, end, Rehearsal(request.backend, (), (), "no port rehearsal: its time was spent"))
    if args.tool is None and request.backend == "hccl" and nobody_has_torch(observations):
        if not request.budget and s.cluster.probe.via == "ssh":
            return with_hccl_test(args, s, rehearsed)
        notes.append("no host's jobs have torch; HCCL Test would take its place, without --budget and --via")
    before = result_by(nics, end, ClusterFacts({}))
    tested = [host for host in s.hosts if host.name not in refused]
    counts = after_tests(s, tested, request.backend, before, observations, until=end)
    observations = with_line_rates(observations, ports(before))
    counted = sentence(counts) if isinstance(counts, LinkCounts) else ""
    notes += filter(None, (rehearsed.note, _spent(observations, request.budget), counted))
    if proof.located and request.seed is None:
        notes.append(f"the same pairs again: --seed {proof.seed}")
    baseline = baseline_of(setting_of(s.cluster, request.backend))
    rounds = {
        "rehearsal": rehearsed,
        "observations": observations,
        "baseline": baseline,
        "located": proof.located,
        "link_counts": counts,
        "limit": proof.limit,
        "causes": causes(s, tested, proof, before, rehearsed, until=end),
    }
    return Probed(facts.of(s.hosts, end), refused, rounds, observations, notes, request.backend, proof.alone)


def _without_groups(args: argparse.Namespace, s: Session, request: Request) -> Iterator[str]:
    """Yield a note on requested scopes that have no test. Raise UsageError if no test remains."""
    empty = without_groups(Plan(s.cluster, s.hosts, request))
    if len(empty) == len(request.scopes):
        raise UsageError(
            f"--scope {','.join(empty)}: the hosts asked for are too few, or have too few devices, for any such test; "
            "take scope device or all"
        )
    if args.scope and empty:
        yield f"no test for --scope {','.join(empty)}: too few hosts, or too few devices"


def _spent(observations: Sequence[Observation], budget: float | None) -> str:
    """Return a note if the budget ended before all tests were run.

    Late hosts are reported by the roll-call, which is the first observation.
    """
    cut = [observation for observation in observations if any(view.end is End.CUT for view in observation.ranks)]
    not_run = sum(
        observation.test.outcome is TestOutcome.NOT_RUN for observation in cut if observation.test.id != "r0-0"
    )
    if not budget or not cut:
        return ""
    if len(observations) == 1:
        return f"the budget of {budget:.0f} s was spent before a host was there"
    return f"the budget of {budget:.0f} s was spent: {not_run} tests were not run" if not_run else ""


def request_of(args: argparse.Namespace, settings: ProbeSettings) -> Request:
    """Return the request. `settings` are the inventory's defaults for options that are not given."""
    return Request(
        args.backend or settings.backend,
        args.sizes or settings.sizes,
        args.scope or USUAL,
        quick=args.quick,
        budget=args.budget,
        seed=args.seed,
    )
