"""Verdicts, written to the hosts that they are about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from preflight.gate.policy import config_digest
from preflight.gate.run_on_hosts import ask
from preflight.gate.verdict import Look
from preflight.model.cluster import Cluster, Host
from preflight.transport.programs import source
from preflight.transport.types import Progress, Transport

# The gate's own modules that read a verdict.
GATE = ("gate.answer", "gate.files", "gate.state", "gate.verdict")


@dataclass(frozen=True)
class Taken:
    """A host's answer.

    `error`: why nothing was written, empty if it was. `outdated`: true if its gate has another inventory's policy, so
    that it will not count this verdict.
    """

    error: str
    outdated: bool = False


def publish(
    cluster: Cluster,
    looks: Mapping[str, Mapping[str, Look]],
    hosts: Sequence[Host],
    transport: Transport,
    *,
    pool: int,
    progress: Callable[[Progress], None] | None,
) -> dict[str, Taken]:
    """Write each host's looks there, beside those published already, and return the answers of hosts with looks.

    `looks`: host → name → look. Raises nothing that a host could cause.
    """
    ages = {"check": cluster.gate.max_age, "probe": cluster.gate.probe_max_age}

    def request(host: Host) -> dict[str, object]:
        own = {name: {**asdict(look), "max_age": ages[name]} for name, look in looks[host.name].items()}
        return {"host": host.name, "config": config_digest(cluster, host), "looks": own}

    concerned = [host for host in hosts if looks.get(host.name)]
    answers = ask(concerned, transport, source("publish", *GATE), request, Taken, pool=pool, progress=progress)
    return {name: Taken(answer) if isinstance(answer, str) else answer for name, answer in answers.items()}


def clear(
    cluster: Cluster, hosts: Sequence[Host], transport: Transport, *, pool: int, progress: Callable[[Progress], None]
) -> dict[str, Taken]:
    """Remove the looks that failed from each of these hosts. Raises nothing that a host could cause."""

    def request(host: Host) -> dict[str, object]:
        return {"host": host.name, "config": config_digest(cluster, host), "looks": {}, "clear": True}

    answers = ask(hosts, transport, source("publish", *GATE), request, Taken, pool=pool, progress=progress)
    return {name: Taken(answer) if isinstance(answer, str) else answer for name, answer in answers.items()}
