"""Facts of GPU checks by host, and findings where nvidia-smi gives no answer.

GPU101 reports that, and the checks that need the answer are skipped."""

from collections.abc import Iterator, Mapping

from preflight.checks.engine.registry import All, Here
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.finding import Finding


def by_host(scribe: All, nvidia: Mapping[str, Nvidia]) -> Iterator[tuple[Here, Nvidia]]:
    """Yield the scribe and the facts of each host of a cluster check."""
    for host in scribe.hosts:
        yield Here(scribe.check, scribe.cluster, host), nvidia[host.name]


def silent(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Yield the one skip of a host without an answer of nvidia-smi, or with an answer of names alone."""
    if nvidia.gpus.value is None:
        yield scribe.skip("nvidia-smi gives no answer, see GPU101")
    elif nvidia.gpus.value.names_alone:
        yield scribe.skip("nvidia-smi tells no more than names, see GPU101")
