"""What of a plan has to wait, and what has to be said before it is carried out. Pure."""

from collections.abc import Collection, Iterable, Sequence

from preflight.facts.types import ClusterFacts, HostFacts, NpuSmi, Os, Unreachable
from preflight.model.change import Change, Plan, Risk
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.provision.plan import short, subject

_NAMED = 5  # of what was not reached or not seen; the rest is counted


def held_back(
    plan: Plan, facts: ClusterFacts, *, allow_disturbing: bool = False, force_busy: bool = False
) -> tuple[Plan, tuple[str, ...]]:
    """The plan without what must not be done now, and a sentence for each thing left out.

    Left out are changes of devices that a job uses, or of which nobody can tell, unless forced, and disturbing ones
    unless allowed.
    """
    kept: list[Change] = []
    notes: dict[str, None] = {}  # in order, each once
    for change in plan.changes:
        why = _why_not(change, facts, allow_disturbing, force_busy)
        if why:
            notes[why] = None
        else:
            kept.append(change)
    return Plan(tuple(kept)), tuple(notes)


def _why_not(change: Change, facts: ClusterFacts, allow_disturbing: bool, force_busy: bool) -> str:
    if change.device is not None and not force_busy:
        busy = _busy(facts, change.host, change.device)
        if busy:
            return f"{change.host}: device {change.device} is left alone unless --force-busy: {busy}"
    if change.risk is Risk.DISTURBING and not allow_disturbing:
        more = f" ({change.note})" if change.note else ""
        return (
            f"{change.host}: {subject(change)}: {short(change.before)} -> {short(change.after)} may disturb what "
            f"runs there{more}: left out without --allow-disturbing"
        )
    return ""


def where_root(plan: Plan, facts: ClusterFacts) -> tuple[Plan, tuple[str, ...]]:
    """The plan without hosts where we are not root, and a sentence for each that sudo refused, or that would have been
    changed; the first few, and how many more."""
    powerless = {name: why for name in facts.hosts if (why := _not_root(name, facts, plan.hosts))}
    kept = Plan(tuple(change for change in plan.changes if change.host not in powerless))
    return kept, _first_few(tuple(powerless.values()), "hosts are left alone, since changing them needs root")


def _not_root(host: str, facts: ClusterFacts, changed: Collection[str]) -> str:
    found = facts.hosts[host]
    os = found.os if isinstance(found, HostFacts) else None
    if not isinstance(os, Os) or os.root:
        return ""
    if os.refused:
        return f"{os.refused.summary}; it is left alone, since changing it needs root: {os.refused.remedy}"
    return (
        f"{host}: {os.user} is not root, so it is left alone; sudo = true under [ssh] lets preflight use sudo there"
        if host in changed
        else ""
    )


def same_machine(facts: ClusterFacts) -> tuple[str, ...]:
    """A sentence for each machine that stands in the inventory under several names. Hosts that were copied from one
    image share a machine id, but not their names."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, found in facts.hosts.items():
        if isinstance(found, HostFacts) and isinstance(found.os, Os) and found.os.machine_id:
            names.setdefault((found.os.machine_id, found.os.hostname), []).append(name)
    return tuple(
        f"{' and '.join(same)} are one machine: host name {hostname}, machine id {machine}"
        for (machine, hostname), same in names.items()
        if len(same) > 1
    )


def unfinished(facts: ClusterFacts) -> tuple[str, ...]:
    """The hosts on which a run has begun and not finished."""
    return tuple(
        name
        for name, found in facts.hosts.items()
        if isinstance(found, HostFacts) and isinstance(found.os, Os) and found.os.open_run
    )


def not_reached(facts: ClusterFacts) -> tuple[str, ...]:
    """A sentence for each host that the plan cannot know anything about; the first few, and how many more."""
    away = [found.summary for found in facts.hosts.values() if isinstance(found, Unreachable)]
    return _first_few(away, "hosts were not reached")


def not_seen(findings: Iterable[Finding]) -> tuple[str, ...]:
    """A sentence for each thing that could not be looked at, so that its absence from the plan means nothing."""
    blind = tuple(dict.fromkeys(finding.summary for finding in findings if finding.outcome is Outcome.UNKNOWN))
    return _first_few(blind, "things could not be looked at")


def _first_few(sentences: Sequence[str], rest: str) -> tuple[str, ...]:
    more = len(sentences) - _NAMED
    return (*sentences[:_NAMED], *((f"{more} more {rest}",) if more > 0 else ()))


def _busy(facts: ClusterFacts, host: str, device: int) -> str:
    """Who uses the device; empty if nobody does. "Cannot tell" counts as busy: it may be a container's."""
    found = facts.hosts.get(host)
    npu_smi = found.npu_smi if isinstance(found, HostFacts) else None
    if not isinstance(npu_smi, NpuSmi):
        return "cannot tell whether a job uses it" + (f": {npu_smi.error}" if npu_smi else "")
    for process in npu_smi.processes:
        if process.device == device:
            user = f", user {process.user}" if process.user else ""
            return f"process {process.name or 'without a name'} (pid {process.pid}{user}) uses it"
    for chip in npu_smi.chips:
        if chip.device == device and chip.busy_percent:
            return f"its AI cores are {chip.busy_percent} % busy, though no process is shown"
    return ""
