"""`preflight probe --via pods`: the pods of one job test each other, each in its init container.

The first pod runs the probe over all pods, as soon as they have arrived, and sends each its verdict. The verdict
becomes that pod's exit code and termination message (docs/kubernetes.md).
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import NoReturn

import msgspec

from preflight.app.end import EndedRun
from preflight.app.probing.probe import end_probe, judge_probe, run_probe
from preflight.app.run_options import ProbeOptions
from preflight.app.session import Session
from preflight.facts.documents.refused_document import json_error
from preflight.gate.gang import GOOD, MESSAGE, UNKNOWN, PodVerdict, unknown, verdicts
from preflight.model.errors import NotSeenError, UsageError
from preflight.transport.engine.pods import Pod, PodLocation, follow, gather, open_pods, tell

Show = Callable[[EndedRun], object]


def probe_in_pod(options: ProbeOptions, s: Session, show: Show) -> int:
    """Run the probe as one pod of a job, and return its exit code. Raise UsageError.

    The inventory's hosts are the pods, ordered by index. `show` prints the report, in the first pod.
    """
    for option, value in {"--limit": options.limit, "-K": options.ask_sudo_password, "--with": options.tool}.items():
        if value:
            raise UsageError(f"--via pods tests all pods together, with torch. Remove {option}.")
    pod = Pod.of(os.environ)
    if pod.index >= len(s.hosts):
        raise UsageError(
            f"this is pod {pod.index}, but the inventory has {len(s.hosts)} hosts. It belongs to another job."
        )
    signal.signal(signal.SIGTERM, _interrupted)  # the first process of a container has no default handler for it
    try:
        verdict = _lead(options, s, pod, show) if pod.index == 0 else _follow(s, pod)
    except NotSeenError as error:
        verdict = _nobody_knows(s, str(error))
    return _end(pod, verdict)


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _nobody_knows(s: Session, why: str) -> PodVerdict:
    return unknown([host.name for host in s.hosts], why)[s.hosts[0].name]


def _follow(s: Session, pod: Pod) -> PodVerdict:
    try:
        return msgspec.json.decode(follow(pod, s.hosts), type=PodVerdict)
    except msgspec.MsgspecError as error:
        raise NotSeenError(f"{s.hosts[0].name} sent an invalid verdict: {json_error(error)}. See its log.") from None


def _lead(options: ProbeOptions, s: Session, pod: Pod, show: Show) -> PodVerdict:
    """Run the probe over all pods, once they have arrived. Send each its verdict, and return this pod's."""
    started, names = datetime.now(UTC), [host.name for host in s.hosts]
    with open_pods(pod, s.hosts) as engine:
        arrivals = gather(engine, s.hosts, pod.wait, s.progress)
        locations = {name: location for name, location in arrivals.items() if isinstance(location, PodLocation)}
        if missing := {name: f"{location}" for name, location in arrivals.items() if name not in locations}:
            pod_verdicts = unknown(names, _missing(missing))
        else:
            try:
                run = run_probe(options, _met(s, locations)._replace(transport=engine), started)
                judge_probe(run)
                show(end_probe(run))
                nodes = {name: location.node for name, location in locations.items()}
                pod_verdicts = verdicts(names, run.findings, {**run.refused, **run.untested}, nodes)
            except NotSeenError as error:
                pod_verdicts = unknown(names, str(error))
        tell(engine, s.hosts[1:], {name: asdict(verdict) for name, verdict in pod_verdicts.items()})
    return pod_verdicts[names[0]]


def _missing(pods: Mapping[str, str]) -> str:
    """Return a sentence on the missing pods. `pods` maps each name to the reason."""
    first = list(pods)[:8]
    remainder = f" and {len(pods) - len(first)} others" if len(pods) > len(first) else ""
    return f"{', '.join(first)}{remainder} did not connect: {pods[first[0]]}"


def _met(s: Session, there: Mapping[str, PodLocation]) -> Session:
    """Return the session with the pods' addresses in place of their names, so that no name has to be resolved."""
    hosts = tuple(replace(host, address=there[host.name].address or host.address) for host in s.hosts)
    return s._replace(hosts=hosts, cluster=replace(s.cluster, hosts=hosts))


def _end(pod: Pod, verdict: PodVerdict) -> int:
    """Return the exit code. Write its meaning to the container's log, and for Kubernetes if the file is there."""
    opened = verdict.code == UNKNOWN and pod.opens
    message = verdict.message + (". The job starts nevertheless (PREFLIGHT_UNKNOWN=open)." if opened else "")
    print(message, file=sys.stderr)
    try:
        if pod.log.exists():
            content = message.encode(errors="replace")[:MESSAGE]
            pod.log.write_text(content.decode(errors="ignore"), encoding="utf-8")
    except OSError as error:
        print(f"preflight: {pod.log}: {error.strerror}", file=sys.stderr)
    return GOOD if opened else verdict.code
