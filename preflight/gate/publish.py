"""Verdicts to the hosts that they are about: one round trip each, in parallel."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import msgspec

from preflight.facts import framed
from preflight.facts.decode import decode
from preflight.gate.policy import config_digest
from preflight.gate.verdict import Look
from preflight.model.cluster import Cluster, Host
from preflight.transport import fan_out
from preflight.transport.programs import source
from preflight.transport.types import Program, Progress, Transport, TransportError

_SECONDS = 60.0  # for a busy host with a slow disk, and another one who publishes there at the same time
_GATE = ("gate.answer", "gate.files", "gate.state", "gate.verdict")  # how the gate itself reads a verdict


@dataclass(frozen=True)
class _Answer:
    error: str


def publish(
    cluster: Cluster,
    looks: Mapping[str, Mapping[str, Look]],
    hosts: Sequence[Host],
    transport: Transport,
    *,
    pool: int,
    progress: Callable[[Progress], None] | None,
) -> dict[str, str]:
    """Write each host's looks there, beside what is published there already. `looks`: host → name → look.

    Host → why it has none of these, empty for those that have. Raises nothing that a host could cause.
    """
    program = source("publish", *_GATE)
    ages = {"check": cluster.gate.max_age, "probe": cluster.gate.probe_max_age}

    def one(host: Host) -> str:
        marker = secrets.token_hex(16)
        own = {name: {**asdict(look), "max_age": ages[name]} for name, look in looks[host.name].items()}
        request = {"marker": marker, "host": host.name, "config": config_digest(cluster, host), "looks": own}
        answer = transport.run(host, Program(program, json.dumps(request).encode()), timeout=_SECONDS)
        try:
            return decode(framed.document(answer, marker), _Answer).error
        except (framed.NoAnswer, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return str(error)

    todo = [host for host in hosts if looks.get(host.name)]
    done = fan_out(todo, one, pool=pool, deadline=_SECONDS, progress=progress, phase="publish")
    return {name: str(it) if isinstance(it, TransportError) else it for name, it in done.items()}
