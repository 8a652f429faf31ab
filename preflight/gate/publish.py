"""Verdicts, written to the hosts that they are about."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from preflight.gate.policy import config_digest
from preflight.gate.run_on_hosts import ask
from preflight.gate.verdict import Look
from preflight.model.cluster import Cluster, Host
from preflight.provision.apply import Way
from preflight.transport.programs import source

# The gate's own modules that read a verdict.
GATE = ("gate.answer", "gate.files", "gate.state", "gate.verdict")


@dataclass(frozen=True)
class PublishResult:
    """A host's answer.

    `error`: why nothing was written, empty if it was. `outdated`: true if its gate has another inventory's policy, so
    that it will not count this verdict.
    """

    error: str
    outdated: bool = False


def publish(cluster: Cluster, looks: Mapping[str, Mapping[str, Look]], way: Way) -> dict[str, PublishResult]:
    """Write each host's looks there, beside those published already, and return the answers of hosts with looks.

    `looks`: host → name → look. Raises nothing that a host could cause.
    """
    ages = {"check": cluster.gate.max_age, "probe": cluster.gate.probe_max_age}

    def request(host: Host) -> dict[str, object]:
        own = {name: {**asdict(look), "max_age": ages[name]} for name, look in looks[host.name].items()}
        return {"host": host.name, "config": config_digest(cluster, host), "looks": own}

    return _send(replace(way, hosts=[host for host in way.hosts if looks.get(host.name)]), request)


def clear(cluster: Cluster, way: Way) -> dict[str, PublishResult]:
    """Remove the looks that failed from each of these hosts. Raises nothing that a host could cause."""

    def request(host: Host) -> dict[str, object]:
        return {"host": host.name, "config": config_digest(cluster, host), "looks": {}, "clear": True}

    return _send(way, request)


def _send(way: Way, request: Callable[[Host], dict[str, object]]) -> dict[str, PublishResult]:
    answers = ask(way, source("publish", *GATE), request, PublishResult)
    return {name: PublishResult(answer) if isinstance(answer, str) else answer for name, answer in answers.items()}
