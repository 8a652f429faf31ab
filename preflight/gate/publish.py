"""Verdicts to the hosts that they are about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from preflight.gate.ask import ask
from preflight.gate.policy import config_digest
from preflight.gate.verdict import Look
from preflight.model.cluster import Cluster, Host
from preflight.transport.programs import source
from preflight.transport.types import Progress, Transport

GATE = ("gate.answer", "gate.files", "gate.state", "gate.verdict")  # how the gate itself reads a verdict


@dataclass(frozen=True)
class Taken:
    """What a host answers. `error`: why nothing was written, empty if it was; `outdated`: whether its gate goes by what
    another inventory says of it, so that it will not count this verdict."""

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
    """Write each host's looks there, beside what is published there already; what came of it, for each host that has
    any. `looks`: host → name → look. Raises nothing that a host could cause."""
    ages = {"check": cluster.gate.max_age, "probe": cluster.gate.probe_max_age}

    def request(host: Host) -> dict[str, object]:
        own = {name: {**asdict(look), "max_age": ages[name]} for name, look in looks[host.name].items()}
        return {"host": host.name, "config": config_digest(cluster, host), "looks": own}

    todo = [host for host in hosts if looks.get(host.name)]
    heard = ask(todo, transport, source("publish", *GATE), request, Taken, pool=pool, progress=progress)
    return {name: Taken(it) if isinstance(it, str) else it for name, it in heard.items()}


def clear(
    cluster: Cluster, hosts: Sequence[Host], transport: Transport, *, pool: int, progress: Callable[[Progress], None]
) -> dict[str, Taken]:
    """Take the looks that failed away from each of these hosts. Raises nothing that a host could cause."""

    def request(host: Host) -> dict[str, object]:
        return {"host": host.name, "config": config_digest(cluster, host), "looks": {}, "clear": True}

    heard = ask(hosts, transport, source("publish", *GATE), request, Taken, pool=pool, progress=progress)
    return {name: Taken(it) if isinstance(it, str) else it for name, it in heard.items()}
