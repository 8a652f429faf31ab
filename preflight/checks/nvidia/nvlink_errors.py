"""Checks of the error counters of NVLinks."""

from collections.abc import Iterator

from preflight.checks.engine.registry import Here, host_check
from preflight.checks.nvidia.nvlinks import gpu_links
from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import lacks
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink_errors import LinkErrors, NvLinkErrors
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.gpus import GPU, gpus

_NOT_ASKED = "was not run"  # the collector's message
Place = tuple[int, int]  # GPU and link


@host_check("GPU122", "NVLink errors", severity=Outcome.WARN, products=GPU)
def link_errors(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: A link that resends packets or retrains is intermittently slow, and often goes down later. A healthy link
    has counted no errors since the driver was loaded.

    Result: WARN if a link has errors. The check never fails, because the format is known from users' posts and not from
    real output. UNKNOWN if preflight knows none of a link's counters. The counters are not read if the kernel log has
    to be read from journald.

    Check manually:
      nvidia-smi nvlink -e

    Fix: Reset all GPUs of the host together, or reboot it. Check whether the counts rise again. If they do, check the
    board, or the bridge between the GPUs.
    """
    counters = nvidia.nvlink_errors
    if counters.value is None:
        yield _without_counters(scribe, nvidia)
        return
    if counters.value.unread:
        yield scribe.unknown(f"{scribe.host.name}: {counters.value.unread[0].error}")
    else:
        yield from _links_without_counts(scribe, nvidia, counters.value)
    for gpu in counters.value.gpus:
        bad = {link.number: counts for link in gpu.links if (counts := _counts_above_zero(link))}
        if bad:
            first = next(iter(bad))
            suffix = f" ({len(bad) - 1} more NVLink{'s' if len(bad) > 2 else ''} with errors)" if len(bad) > 1 else ""
            yield scribe.bad(
                f"{scribe.host.name}: GPU {gpu.index}: NVLink {first} reports {bad[first]}{suffix}",
                device=gpu.index,
                expected="no errors",
                found=bad[first],
                evidence=tuple(f"link {number}: {counts}" for number, counts in bad.items()),
                remedy=f"read the counters again. If the counts rise, reset all GPUs on {scribe.host.name} together, "
                "then check the GPU board",
                commands=(scribe.on(scribe.host.name, f"nvidia-smi nvlink -e -i {gpu.index}"),),
            )


def _without_counters(scribe: Here, nvidia: Nvidia) -> Finding:
    """Return the finding of a host without counters: unknown where it has links that were to be queried, else skip."""
    error = nvidia.nvlink_errors.error
    answers = nvidia.gpus.value is not None  # else GPU101 reports it
    up = bool(nvidia.nvlinks.error) or bool(_active_links(nvidia))
    missed = answers and up and _NOT_ASKED not in error and not lacks(error)
    report = scribe.unknown if missed else scribe.skip
    return report(f"{scribe.host.name}: {error or 'nvidia-smi nvlink -e lists no NVLink'}")


def _links_without_counts(scribe: Here, nvidia: Nvidia, errors: NvLinkErrors) -> Iterator[Finding]:
    """Yield the links without any counter.

    These are links that are up, or all listed ones where it is not known which are up. A host for which the driver
    reports N/A for all of them is skipped."""
    counts = {(gpu.index, link.number): _counts(link) for gpu in errors.gpus for link in gpu.links}
    places = sorted(_active_links(nvidia) or counts)
    silent = [place for place in places if not counts.get(place)]
    if not places:
        yield scribe.skip(f"{scribe.host.name}: nvidia-smi lists no NVLink that is up")
    elif silent:
        (index, number), *further = silent
        suffix = f" and {len(further)} more" if further else ""
        report = scribe.skip if set(silent) == set(places) <= counts.keys() else scribe.unknown
        yield report(
            f"{scribe.host.name}: GPU {index}: nvidia-smi nvlink -e has no error counters for NVLink {number}{suffix}"
        )


def _active_links(nvidia: Nvidia) -> set[Place]:
    """Return the links that are up, without those of GPUs in MIG mode, for which GPU115 expects none."""
    split_gpus = {gpu.uuid for gpu in gpus(nvidia) if gpu.mig.current}
    return {
        (gpu.index, link.number)
        for gpu in gpu_links(nvidia)
        if gpu.uuid not in split_gpus
        for link in gpu.links
        if link.speed
    }


_NAMES = {  # of counters whose own names are not plural nouns
    "link recovery successful events": "successful link recoveries",
    "link recovery failed events": "failed link recoveries",
    "total link recovery events": "link recoveries in total",
}


def _counts(link: LinkErrors) -> dict[str, int]:
    """Return the reported counters, by their names in a sentence."""
    newer = {_NAMES.get(name, name): count for name, count in link.others.items()}
    counts = {"replays": link.replay, "recoveries": link.recovery, "CRC errors": link.crc, **newer}
    return {name: count for name, count in counts.items() if count is not None}


def _singular(name: str) -> str:
    """Return `recovery` for `recoveries`, and `CRC error` for `CRC errors`."""
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


def _counts_above_zero(link: LinkErrors) -> str:
    """Return the counters above zero as `3 replays, 1 recovery`; "" if there are none."""
    return ", ".join(
        f"{count:,} {_singular(name) if count == 1 else name}" for name, count in _counts(link).items() if count
    )
