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
class _Answer:
    """See preflight/remote/publish/main.py."""

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
    ages = {"check": cluster.gate.max_age, "probe": cluster.gate.probe_max_age}

    def request(host: Host) -> dict[str, object]:
        own = {name: {**asdict(look), "max_age": ages[name]} for name, look in looks[host.name].items()}
        return {"host": host.name, "config": config_digest(cluster, host), "looks": own}

    todo = [host for host in hosts if looks.get(host.name)]
    heard = ask(todo, transport, source("publish", *GATE), request, _Answer, pool=pool, progress=progress)
    return {name: it if isinstance(it, str) else it.error for name, it in heard.items()}
