"""Findings of GPU checks where nvidia-smi gives no answer.

GPU101 reports that, and the checks that need the answer are skipped."""

from collections.abc import Iterator

from preflight.checks.engine.registry import Here
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.finding import Finding


def silent(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Yield the one skip of a host without an answer of nvidia-smi, or with an answer of names alone."""
    if nvidia.gpus.value is None:
        yield scribe.skip("nvidia-smi does not answer (GPU101)")
    elif nvidia.gpus.value.names_alone:
        yield scribe.skip("nvidia-smi reports only the names of GPUs (GPU101)")
