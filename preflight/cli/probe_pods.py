"""`preflight probe --via pods`: the pods of one job prove each other, each in its init container.

The first pod runs the probe over all of them, as soon as they have come, and tells each its verdict, which becomes that
one's exit code and termination message (docs/kubernetes.md).
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

from preflight.cli.common import Session
from preflight.cli.probed import Probed, finish_probe, judged
from preflight.facts.documents.refused_document import json_error
from preflight.gate.gang import GOOD, MESSAGE, UNKNOWN, PodVerdict, unknown, verdicts
from preflight.model.errors import NotSeenError, UsageError

if TYPE_CHECKING:
    from preflight.transport.engine.pods import Pod, PodLocation

Probe = Callable[[argparse.Namespace, Session], Probed]


def in_pod(args: argparse.Namespace, s: Session, probe: Probe) -> int:
    """`s`: the inventory's hosts are the pods, in the order of their indices. Raises UsageError."""
    from preflight.transport.engine.pods import Pod

    for option, given in {"--limit": args.limit, "-K": args.ask_sudo_password, "--with": args.tool}.items():
        if given:
            raise UsageError(f"{option}: the pods of a gang are proved all together, by torch; leave it out")
    pod = Pod.of(os.environ)
    if pod.index >= len(s.hosts):
        raise UsageError(
            f"this is pod {pod.index}, and the inventory has {len(s.hosts)}; it is the gang's of another job"
        )
    signal.signal(signal.SIGTERM, _interrupted)  # which the first process of a container has to ask for
    try:
        verdict = _lead(args, s, pod, probe) if pod.index == 0 else _follow(s, pod)
    except NotSeenError as error:
        verdict = _nobody_knows(s, str(error))
    return _end(pod, verdict)


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _nobody_knows(s: Session, why: str) -> PodVerdict:
    return unknown([host.name for host in s.hosts], why)[s.hosts[0].name]


def _follow(s: Session, pod: "Pod") -> PodVerdict:
    import msgspec

    from preflight.transport.engine.pods import follow

    try:
        return msgspec.json.decode(follow(pod, s.hosts), type=PodVerdict)
    except msgspec.MsgspecError as error:
        raise NotSeenError(f"{s.hosts[0].name} sent a verdict that is none: {json_error(error)}; see its log") from None


def _lead(args: argparse.Namespace, s: Session, pod: "Pod", probe: Probe) -> PodVerdict:
    from preflight.transport.engine.pods import PodLocation, gather, open_pods, tell

    started, names = datetime.now(UTC), [host.name for host in s.hosts]
    with open_pods(pod, s.hosts) as engine:
        found = gather(engine, s.hosts, pod.wait, s.progress)
        there = {name: one for name, one in found.items() if isinstance(one, PodLocation)}
        if len(there) < len(names):
            said = unknown(names, _missing({name: f"{one}" for name, one in found.items() if name not in there}))
        else:
            try:
                met = _met(s, there)._replace(transport=engine)
                probed = probe(args, met)
                findings = judged(met, probed)
                finish_probe(args, met, started, probed, findings)
                left_out = {**probed.refused, **probed.alone}
                said = verdicts(names, findings, left_out, {name: one.node for name, one in there.items()})
            except NotSeenError as error:
                said = unknown(names, str(error))
        tell(engine, s.hosts[1:], {name: asdict(verdict) for name, verdict in said.items()})
    return said[names[0]]


def _missing(pods: Mapping[str, str]) -> str:
    """`pods`: name → what became of it."""
    first = list(pods)[:8]
    others = f" and {len(pods) - len(first)} others" if len(pods) > len(first) else ""
    return f"{', '.join(first)}{others} did not come: {pods[first[0]]}"


def _met(s: Session, there: "Mapping[str, PodLocation]") -> Session:
    """The session with the pods' addresses in the place of their names: no name has to be resolved any more."""
    hosts = tuple(replace(host, address=there[host.name].address or host.address) for host in s.hosts)
    return s._replace(hosts=hosts, cluster=replace(s.cluster, hosts=hosts))


def _end(pod: "Pod", verdict: PodVerdict) -> int:
    """The exit code; what it means is said in the container's log, and to Kubernetes, where that listens."""
    opened = verdict.code == UNKNOWN and pod.opens
    message = verdict.message + ("; the job begins all the same, as PREFLIGHT_UNKNOWN says" if opened else "")
    print(message, file=sys.stderr)
    try:
        if pod.log.exists():
            said = message.encode(errors="replace")[:MESSAGE]
            pod.log.write_text(said.decode(errors="ignore"), encoding="utf-8")
    except OSError as error:
        print(f"preflight: {pod.log}: {error.strerror}", file=sys.stderr)
    return GOOD if opened else verdict.code
