"""Changes of a plan that have to wait, and warnings to show before it is carried out. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from preflight.facts.types import ClusterFacts, HostFacts, NpuProcess, NpuSmi, Os, Unreachable
from preflight.grouping import grouped
from preflight.model.change import Change, ChangePhase, Plan, Risk
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.provision.plan import short, subject

_NAMED = 5  # sentences that are shown; the others are only counted


def held_back(
    plan: Plan,
    facts: ClusterFacts,
    *,
    allow_disturbing: bool = False,
    force_busy: bool = False,
    by_ssh: bool = True,
) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan without changes that must wait, and a sentence for each of them.

    Changes of devices that a job uses or may use wait unless forced. Disturbing changes wait unless allowed. Changes of
    the live firewall wait unless hosts are reached by ssh: a site's engine keeps its connections, so it cannot confirm
    that hosts still accept new ones, and the end of its job may end the guardians.
    """
    kept: list[Change] = []
    notes: dict[str, None] = {}  # in order, each once
    for change in plan.changes:
        is_confirmed = by_ssh or change.phase is ChangePhase.PLAIN
        why = _why_not(change, facts, allow_disturbing, force_busy) if is_confirmed else _not_by_ssh(change)
        if why:
            notes[why] = None
        else:
            kept.append(change)
    return Plan(tuple(kept)), tuple(notes)


def _not_by_ssh(change: Change) -> str:
    return f"{change.host}: the firewall is left out: only ssh can confirm its changes. To include it, omit --via."


def _why_not(change: Change, facts: ClusterFacts, allow_disturbing: bool, force_busy: bool) -> str:
    if change.device is not None and not force_busy:
        busy = _busy(facts, change.host, change.device)
        if busy:
            return f"{change.host}: device {change.device} is left out: {busy}. To include it, add --force-busy."
    if change.risk is Risk.DISTURBING and not allow_disturbing:
        note = f" ({change.note})" if change.note else ""
        return (
            f"{change.host}: {subject(change)}: {short(change.before)} -> {short(change.after)} is left out, since it "
            f"may disturb running programs{note}. To include it, add --allow-disturbing."
        )
    return ""


def where_root(plan: Plan, facts: ClusterFacts) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan without hosts where preflight is not root, and a sentence for each such host.

    Hosts get a sentence if sudo refused, or if the plan would have changed them. The first few are listed, the others
    counted.
    """
    powerless = {name: why for name in facts.hosts if (why := _not_root(name, facts, plan.hosts))}
    kept = Plan(tuple(change for change in plan.changes if change.host not in powerless))
    return kept, _first_few(tuple(powerless.values()), "hosts are left out, since changing them needs root")


def _not_root(host: str, facts: ClusterFacts, changed: Collection[str]) -> str:
    host_facts = facts.hosts[host]
    os = host_facts.os if isinstance(host_facts, HostFacts) else None
    if not isinstance(os, Os) or os.root:
        return ""
    if os.refused:
        return f"{os.refused.summary}. It is left out, since changing it needs root. Fix: {os.refused.fix}"
    return (
        f"{host}: left out, since {os.user} is not root. To use sudo, set sudo = true under [ssh] in the inventory."
        if host in changed
        else ""
    )


def same_machine(facts: ClusterFacts) -> tuple[str, ...]:
    """Return a sentence for each machine that is in the inventory under several names.

    Hosts that were copied from one image share a machine id, but not their host names.
    """
    names = grouped(((os.machine_id, os.hostname), name) for name, os in _systems(facts) if os.machine_id)
    return tuple(
        f"{' and '.join(aliases)} are the same machine: host name {hostname}, machine id {machine}"
        for (machine, hostname), aliases in names.items()
        if len(aliases) > 1
    )


def unfinished(facts: ClusterFacts) -> tuple[str, ...]:
    """Return the hosts on which a run has begun and not finished."""
    return tuple(name for name, os in _systems(facts) if os.open_run)


def _systems(facts: ClusterFacts) -> Iterator[tuple[str, Os]]:
    for name, host_facts in facts.hosts.items():
        if isinstance(host_facts, HostFacts) and isinstance(host_facts.os, Os):
            yield name, host_facts.os


def not_reached(facts: ClusterFacts) -> tuple[str, ...]:
    """Return a sentence for each host that was not reached, so that the plan knows nothing of it.

    The first few are listed, the others counted.
    """
    sentences = [host_facts.summary for host_facts in facts.hosts.values() if isinstance(host_facts, Unreachable)]
    return _first_few(sentences, "hosts were not reached")


def not_seen(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return a sentence for each thing that could not be checked, so that its absence from the plan means nothing."""
    sentences = tuple(dict.fromkeys(finding.summary for finding in findings if finding.outcome is Outcome.UNKNOWN))
    return _first_few(sentences, "checks could not run")


def _first_few(sentences: Sequence[str], summary: str) -> tuple[str, ...]:
    count = len(sentences) - _NAMED
    return (*sentences[:_NAMED], *((f"{count} more {summary}",) if count > 0 else ()))


def _busy(facts: ClusterFacts, host: str, device: int) -> str:
    """Return which process uses the device, empty if none does.

    "Cannot tell" counts as busy: the process may be a container's.
    """
    host_facts = facts.hosts.get(host)
    npu_smi = host_facts.npu_smi if isinstance(host_facts, HostFacts) else None
    if not isinstance(npu_smi, NpuSmi):
        return "a job may use it" + (f", since npu-smi failed: {npu_smi.error}" if npu_smi else "")
    for process in npu_smi.processes:
        if process.device == device:
            return _use(process)
    for chip in npu_smi.chips:
        if chip.device == device and chip.busy_percent:
            return f"its AI cores are {chip.busy_percent}% busy, although npu-smi lists no process"
    return ""


def _use(process: NpuProcess) -> str:
    user = f", user {process.user}" if process.user else ""
    return f"process {process.name or 'without a name'} (pid {process.pid}{user}) uses it"
