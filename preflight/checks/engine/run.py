"""The run of checks over facts, including unreachable hosts, missing facts and skipped rounds. Pure."""

import difflib
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.checks.engine.obstacles import with_remedy
from preflight.checks.engine.registry import KNOWN, ROUNDS, All, Check, Here, all_checks
from preflight.facts.sections.accelerators import Accelerators
from preflight.facts.types import DEEP, ON_REQUEST, ClusterFacts, HostFacts, Missing, Unreachable
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError
from preflight.model.finding import Finding
from preflight.model.garbage import nothing_collected
from preflight.model.outcome import Outcome
from preflight.rules.accelerator_kind import other_kind

_CONTACT = "contact"  # the host's facts, or the reason for none; the only input of an unreachable host
_ROUND_INPUTS = frozenset((*ROUNDS, KNOWN))


@dataclass(frozen=True)
class NotRun:
    """A round that was skipped, as value in `rounds`, with the reason: "--no-ping"."""

    reason: str


def run_checks(
    cluster: Cluster,
    facts: ClusterFacts,
    *,
    checks: Iterable[Check],
    hosts: Sequence[Host],
    rounds: Mapping[str, object] | None = None,
) -> list[Finding]:
    """Return the findings of `checks` about `hosts`. A host without any facts gets none.

    `rounds`: the tuple of `pings` and `observations`, or `NotRun`. A host that was not reached gets one finding, from
    the check of reachability, even if that check was not selected. Nothing else is known of such a host."""
    reach_checks = {id_: check for id_, check in all_checks().items() if _CONTACT in check.needs}
    selected = {check.id: check for check in checks}
    of_other_kind = {host.name for host in hosts if _is_of_other_kind(cluster, facts.hosts.get(host.name))}
    findings: list[Finding] = []
    rounds = dict(rounds or {})
    with nothing_collected():
        for id_, check in sorted({**reach_checks, **selected}.items()):
            if KNOWN in check.needs:
                rounds[KNOWN] = tuple(findings)
            subjects = _subjects(check, hosts, facts, selected=id_ in selected)
            findings += (
                with_remedy(cluster, finding, other_product=finding.host in of_other_kind)
                for finding in _run(check, cluster, subjects, facts, rounds)
            )
    return findings


def _is_of_other_kind(cluster: Cluster, contact: HostFacts | Unreachable | None) -> bool:
    section = contact.accelerators if isinstance(contact, HostFacts) else None
    return isinstance(section, Accelerators) and other_kind(cluster.product, section)


def _subjects(check: Check, hosts: Iterable[Host], facts: ClusterFacts, *, selected: bool) -> list[Host]:
    """Return the hosts that a check is about. A host that was not reached has the checks of contact, and no others."""
    contacts: tuple[type, ...] = (HostFacts,) if selected else ()
    if _CONTACT in check.needs:
        contacts += (Unreachable,)
    return [host for host in hosts if isinstance(facts.hosts.get(host.name), contacts)]


def _run(
    check: Check, cluster: Cluster, hosts: Sequence[Host], facts: ClusterFacts, rounds: Mapping[str, object]
) -> Iterator[Finding]:
    why_not = _why_not(check, cluster, rounds)
    inputs: dict[str, dict[str, object]] = {}
    for host in hosts:
        values = why_not or _inputs(check, facts.hosts[host.name], rounds)
        if isinstance(values, dict):
            inputs[host.name] = values
        else:
            yield _not_checked(Here(check, cluster, host), values)
    ready_hosts = tuple(host for host in hosts if host.name in inputs)
    if check.scope == "cluster":
        yield from _run_over_all(All(check, cluster, ready_hosts), inputs, len(hosts))
        return
    for host in ready_hosts:
        scribe = Here(check, cluster, host)
        yield from _call(scribe, inputs[host.name]) or [scribe.finding(Outcome.PASS, check.title)]


def _not_checked(scribe: Here, reason: str | Missing | NotRun) -> Finding:
    if isinstance(reason, Missing):
        return scribe.unknown(f"{scribe.host.name}: could not be checked: {reason.error}")
    return scribe.skip(f"not checked: {reason.reason}" if isinstance(reason, NotRun) else reason)


def _run_over_all(scribe: All, inputs: Mapping[str, Mapping[str, object]], subjects: int) -> Iterator[Finding]:
    if not scribe.hosts:
        return
    if scribe.check.several and subjects < 2:
        yield scribe.skip("there is only one host, so there is nothing to compare", host=scribe.hosts[0].name)
        return
    findings = _call(scribe, _by_host(scribe.check, inputs))
    yield from findings
    hosts_with_findings = {finding.host for finding in findings}
    if None not in hosts_with_findings:
        for host in scribe.hosts:
            if host.name not in hosts_with_findings:
                yield scribe.finding(Outcome.PASS, scribe.check.title, host=host.name)


def _by_host(check: Check, inputs: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return the inputs of a cluster check: rounds as they are, sections as host → value."""
    first = next(iter(inputs.values()))
    return {
        name: first[name] if name in _ROUND_INPUTS else {host: values[name] for host, values in inputs.items()}
        for name in check.needs
    }


def _why_not(check: Check, cluster: Cluster, rounds: Mapping[str, object]) -> str:
    """Return why a check does not apply at all; empty if it does."""
    if cluster.product not in check.products:
        return f"does not apply to {cluster.product}"
    for name in ROUNDS:
        if name in check.needs and name not in check.optional:
            round_ = rounds.get(name, NotRun("not requested"))
            if isinstance(round_, NotRun):
                return f"not run: {round_.reason}"
    return ""


def _inputs(
    check: Check, contact: HostFacts | Unreachable, rounds: Mapping[str, object]
) -> dict[str, object] | Missing | NotRun:
    """Return the inputs of the check's function for one host by parameter name, or why they are missing."""
    values: dict[str, object] = {}
    for name in check.needs:
        value = _value(name, contact, rounds)
        if not isinstance(value, Missing | NotRun):
            values[name] = value
        elif name in check.optional:
            values[name] = None
        else:
            return value
    return values


def _value(name: str, contact: HostFacts | Unreachable, rounds: Mapping[str, object]) -> object:
    """Return a round's result or a section of the facts, or why there is none."""
    if name == _CONTACT:
        return contact
    if name in _ROUND_INPUTS:
        return rounds.get(name)
    value = getattr(contact, name)
    if value is not None:
        return value
    if name in ON_REQUEST:
        return NotRun(ON_REQUEST[name])
    return NotRun("--basic") if name in DEEP else Missing(f"the facts have no section {name}")


def _call(scribe: Here | All, inputs: Mapping[str, object]) -> list[Finding]:
    """Return the function's findings. A function that raises gives an unknown, and all other checks go on."""
    try:
        return list(scribe.check.function(scribe, **inputs))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return [
            scribe.finding(
                Outcome.UNKNOWN,
                f"the check crashed: {type(error).__name__}: {error}",
                remedy="report this bug in preflight, and attach the facts of the host",
                commands=("preflight facts -o json",),
                evidence=(f"{where.name}, line {where.lineno}",),
            )
        ]


def nearest(checks: Iterable[str], word: str, *, areas: Iterable[str] = ()) -> str:
    """Return a hint for a word that is no check.

    The hint has the ids that begin with the word, the id or area that was probably meant, or the command that lists
    them."""
    checks = sorted(checks)
    spelled = word.upper().replace("O", "0")  # ids end in digits, and an O is the usual typing error
    matches = [id_ for id_ in checks if word and id_.startswith((word.upper(), spelled))]
    if len(matches) > 1:
        return f"did you mean {', '.join(matches[:2])}{' …' if matches[2:] else ''}? See preflight list-checks"
    close = difflib.get_close_matches(word.lower(), list(areas), 1) or difflib.get_close_matches(spelled, checks, 1)
    return f"did you mean {close[0]}?" if close else "preflight list-checks lists all checks"


def _matching(checks: Mapping[str, Check], word: str) -> set[str]:
    """Return the ids that a word of --only, --skip or --ignore means: an id, the start of ids, or an area."""
    matches = {id_ for id_, check in checks.items() if id_.startswith(word.upper()) or check.area == word.lower()}
    if matches and word:
        return matches
    areas = sorted({check.area for check in checks.values()})
    raise UsageError(f"there is no check {word!r}; {nearest(checks, word, areas=areas)}")


def select(checks: Mapping[str, Check], only: Iterable[str] = (), skip: Iterable[str] = ()) -> list[Check]:
    """Return the checks that `only` names (all, if it names none) without those that `skip` names, sorted by id.

    A word is an id, the start of ids ("NPU", "PRT10") or an area ("ports"), in any case. Raise UsageError for an
    unknown word, and if no check is left."""
    wanted = {id_ for word in only for id_ in _matching(checks, word)} or set(checks)
    unwanted = {id_ for word in skip for id_ in _matching(checks, word)}
    if not wanted - unwanted:
        raise UsageError("no check is left to run: the skipped checks include all selected ones")
    return [checks[id_] for id_ in sorted(wanted - unwanted)]
