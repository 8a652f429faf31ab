"""Slurm's PrologSlurmctld: the nodes of a job are tested together before anything runs on them.

This names broken nodes and changes nothing. The program that calls it (remote/gate/slurm_controller.py) drains,
requeues and holds, with the same rules as on a node.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.types import ClusterFacts, HostFacts, Missing
from preflight.gate.convicted import convicted
from preflight.hostlists.host_list import TextError
from preflight.hostlists.slurm_nodelist import expand
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError
from preflight.model.finding import Finding, with_outcome
from preflight.model.gate import Context, Unknown
from preflight.model.measure import End, Observation, RankView
from preflight.model.outcome import Outcome
from preflight.probe.hooks import Hooks
from preflight.probe.rehearsal import RehearsalRequest, rehearse
from preflight.probe.request import Request
from preflight.probe.run import probe
from preflight.transport.types import Transport

SCHEMA = "preflight.gate-controller/1"
_SHOWN = 3  # hosts, or findings, that a sentence names


@dataclass(frozen=True)
class Bad:
    """A broken node, by its name in Slurm, and the check that failed for it."""

    node: str
    check: str
    sentence: str


@dataclass(frozen=True)
class Proof:
    """Result of testing a job's nodes together.

    `outcome`: pass, fail or unknown. A failure without nodes in `bad` is between nodes, or in all of them.
    """

    outcome: Outcome
    sentence: str
    bad: tuple[Bad, ...] = ()


def document(proof: Proof, cluster: Cluster) -> dict[str, object]:
    """Return the document that remote/gate/slurm_controller.py reads, with the inventory's settings for it."""
    drain = cluster.gate.drain
    return {
        "schema": SCHEMA,
        "outcome": proof.outcome.value,
        "open": cluster.gate.unknown[Context.CONTROLLER] is Unknown.OPEN,
        "sentence": proof.sentence,
        "bad": [{"node": node.node, "check": node.check, "sentence": node.sentence} for node in proof.bad],
        "drain": {"nodes": drain.nodes, "percent": drain.percent},
        "requeues": cluster.gate.requeues,
    }


def nodes_of_job(environment: Mapping[str, str]) -> list[str]:
    """Return the job's nodes by their names in Slurm, which a PrologSlurmctld gets in SLURM_JOB_NODELIST.

    Raises UsageError.
    """
    text = environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST") or ""
    try:
        names = [name for name, _ in expand(text)]
    except TextError as error:
        raise UsageError(f"SLURM_JOB_NODELIST={text[:200]}: {error}") from None
    if not names:
        raise UsageError("SLURM_JOB_NODELIST is not set. Slurm sets it for PrologSlurmctld. Otherwise use --nodes")
    return list(dict.fromkeys(names))


def hosts_of(cluster: Cluster, nodes: Iterable[str]) -> tuple[dict[str, Host], list[str]]:
    """Return each node's host, and the nodes that the inventory does not know.

    A node is the host of the same name, or of the same name up to the first dot if there is only one.
    """
    by_name = {host.name: host for host in cluster.hosts}
    short: dict[str, list[Host]] = {}
    for host in cluster.hosts:
        short.setdefault(host.name.partition(".")[0], []).append(host)
    host_of: dict[str, Host] = {}
    strangers = []
    for node in nodes:
        namesakes = short.get(node.partition(".")[0], [])
        node_host = by_name.get(node) or (namesakes[0] if len(namesakes) == 1 else None)
        if node_host is None:
            strangers.append(node)
        else:
            host_of[node] = node_host
    return host_of, strangers


def prove(
    cluster: Cluster, hosts: Sequence[Host], transport: Transport, seconds: float
) -> tuple[list[Finding], Sequence[Observation]]:
    """Return findings and observations of the port rehearsal and the quick probe over `hosts`, in `seconds` at most.

    If the rehearsal names a culprit, the probe is left out. The hosts are the job's alone, so they are not asked
    whether they are idle: the key used here is not for the collector of facts.
    """
    checks = [check for check in all_checks().values() if {"rehearsal", "observations"} & set(check.needs)]
    facts = ClusterFacts({host.name: _NOT_ASKED for host in hosts})

    def judged(**rounds: object) -> list[Finding]:
        return run_checks(cluster, facts, checks=checks, hosts=hosts, rounds=rounds)

    def taken(present: Sequence[Host]) -> Sequence[Host]:
        return () if any(convicted(finding) for finding in judged(rehearsal=rehearsal.result())) else present

    backend = cluster.probe.backend
    request = Request(backend, cluster.probe.sizes, quick=True, budget=seconds)
    until = time.monotonic() + seconds / 3
    with ThreadPoolExecutor(1) as pool:
        rehearsal = pool.submit(rehearse, RehearsalRequest(cluster, hosts, backend), transport, until=until)
        hooks = Hooks(begin=taken, ports_free=rehearsal.exception, unreached=lambda: rehearsal.result().unreached)
        result = probe(cluster, hosts, transport, request, hooks)
    rounds = {
        "rehearsal": rehearsal.result(),
        "observations": result.observations,
        "located": result.located,
        "limit": result.limit,
    }
    return judged(**rounds), result.observations


_NONE = Missing("not asked")
_NOT_ASKED = HostFacts(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, arrivals=_NONE)


def judge(
    findings: Sequence[Finding], observations: Sequence[Observation], known: Mapping[str, Host], strange: Sequence[str]
) -> Proof:
    """Return the verdict on the job's nodes.

    A host or device that a failure identifies is broken. If a link fails, either end may be broken, so neither is
    identified. A failure of all tested nodes is systemic and identifies none. Tests show nothing about a host that was
    lost on the way or never started an agent.
    """
    lost = _lost_ranks(observations)
    answering = {host.name: node for node, host in known.items() if host.name not in lost}
    failures = with_outcome(findings, Outcome.FAIL)
    broken = _broken(failures, answering)
    systemic = len(broken) == len(answering) > 1
    if broken and not systemic:
        return Proof(Outcome.FAIL, f"{len(broken)} of {len(known)} nodes are broken: {_sentences(broken)}", broken)
    if reasons := [*_not_in_inventory(strange), *_without_agent(known, lost)]:
        return Proof(Outcome.UNKNOWN, "; ".join(reasons))
    if failures:
        return Proof(
            Outcome.FAIL, f"systemic failure, no single node is at fault: {failures[0].check} {failures[0].summary}"
        )
    if unknown := with_outcome(findings, Outcome.UNKNOWN):
        return Proof(Outcome.UNKNOWN, f"{unknown[0].check} {unknown[0].summary}")
    return Proof(Outcome.PASS, f"{len(known)} nodes passed all tests together")


def _not_in_inventory(nodes: Sequence[str]) -> Iterator[str]:
    if nodes:
        yield f"not in the inventory: {_listed(nodes)}"


def _lost_ranks(observations: Iterable[Observation]) -> dict[str, list[RankView]]:
    """Return the ranks of hosts that were lost on the way or never gave an agent, by host."""
    lost: dict[str, list[RankView]] = defaultdict(list)
    for observation in observations:
        for view in observation.ranks:
            if view.end is End.LOST:
                lost[view.member.host].append(view)
    return lost


def _without_agent(known: Mapping[str, Host], lost: Mapping[str, Sequence[RankView]]) -> Iterator[str]:
    if silent := [node for node, host in known.items() if host.name in lost]:
        errors = (view.error for views in lost.values() for view in views)
        yield f"no agent on {_listed(silent)} ({next(filter(None, errors), 'no error message')})"


def _broken(failures: Iterable[Finding], node_of: Mapping[str, str]) -> tuple[Bad, ...]:
    """Return the nodes that failures identify as culprits, each with the first of its failures. `node_of`: by host."""
    broken: dict[str, Bad] = {}
    for finding in failures:
        for host in sorted(convicted(finding) & node_of.keys()):
            broken.setdefault(host, Bad(node_of[host], finding.check, finding.summary))
    return tuple(broken.values())


def _listed(names: Sequence[str]) -> str:
    suffix = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + suffix


def _sentences(broken: Sequence[Bad]) -> str:
    suffix = f"; and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
    return "; ".join(f"{node.check} {node.sentence}" for node in broken[:_SHOWN]) + suffix
