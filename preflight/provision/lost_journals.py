"""Hosts without a journal of a run, or with a damaged one, compared with the journal on this machine."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from preflight.grouping import grouped
from preflight.model.change import Change, Kind, Plan, StepResult, StepState
from preflight.provision.apply import Way, compare
from preflight.provision.host_run import JOURNAL
from preflight.provision.journal import PastRun, directory
from preflight.provision.plan import subject
from preflight.provision.rollback import Undoing

_MOST = 6  # targets that a sentence names
Place = tuple[str, Kind, str]  # host, kind and target of a change


@dataclass(frozen=True)
class UnrecordedEffects:
    """Effects of a run that no host's journal records.

    `away`: a sentence for each host on which something is, or may be, as the run left it. `notes`: further sentences.
    """

    away: tuple[str, ...]
    notes: tuple[str, ...]


def what_is_left(run: str, undo: Undoing, known: Sequence[PastRun], way: Way, this_run: str) -> UnrecordedEffects:
    """Compare hosts that do not record all of `run` with what this machine recorded of it.

    `known`: the runs of which this machine has a journal. Nothing is written.
    """
    changes = _unrecorded(run, undo, known)
    results = compare(Plan(changes), way, this_run) if changes else ()
    sentences = dict(_effects(run, results, undo.damaged))
    away = list(sentences.values())
    notes = list(_not_on(run, [name for name in undo.strangers if name not in sentences]))
    is_known = any(past.run == run for past in known)
    for host, count in undo.damaged.items():
        text = f"{host}: cannot read {count} line{'s' if count > 1 else ''} of {JOURNAL}/{run}.jsonl"
        if not is_known:
            away.append(f"{text}. Some changes of the run may stay.")
        elif host not in sentences:
            notes.append(f"{text}. The journal on this machine has no further changes.")
    return UnrecordedEffects(tuple(away), tuple(notes))


def _unrecorded(run: str, undo: Undoing, known: Iterable[PastRun]) -> tuple[Change, ...]:
    """Return the changes of hosts without a whole journal that no host records."""
    recorded = {_place(change) for change in undo.recorded}
    hosts = {*undo.strangers, *undo.damaged}
    return tuple(
        change for change in remaining_changes(run, known) if change.host in hosts and _place(change) not in recorded
    )


def _effects(run: str, results: Iterable[StepResult], damaged: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each host on which something is, or may be, as the run left it, with a sentence."""
    by_host = grouped((result.change.host, result) for result in results if result.state is not StepState.PENDING)
    for host, of_host in by_host.items():
        unchanged = [subject(result.change) for result in of_host if result.state is StepState.ALREADY]
        changed = [subject(result.change) for result in of_host if result.state is not StepState.ALREADY]
        yield host, _sentence(host, run, unchanged, changed, damaged=host in damaged)


def remaining_changes(run: str, known: Iterable[PastRun]) -> tuple[Change, ...]:
    """Return the changes that `run` made, or may have made, without those that a later run rolled back. Pure."""
    remaining: dict[Place, Change] = {}
    changes: dict[Place, Change] = {}
    depth: dict[str, int] = {}  # 0: the run; 1: its rollback; 2: the rollback of that …
    for past in sorted(known, key=lambda past: past.run):  # rollbacks come later
        places = {_place(change): change for change in past.made}
        if past.run == run:
            depth[run] = 0
            remaining = changes = places
        elif past.undoes in depth:
            depth[past.run] = depth[past.undoes] + 1
            if depth[past.run] % 2:
                remaining = {place: change for place, change in remaining.items() if place not in places}
            else:
                remaining = {**remaining, **{place: changes[place] for place in places if place in changes}}
    return tuple(remaining.values())


def _place(change: Change) -> Place:
    return change.host, change.kind, change.target


def _not_on(run: str, hosts: Sequence[str]) -> Iterator[str]:
    if hosts:
        yield f"run {run} did not change {', '.join(hosts[:5])}{' …' if len(hosts) > 5 else ''}"


def _sentence(host: str, run: str, unchanged: Sequence[str], changed: Sequence[str], *, damaged: bool) -> str:
    journal = f"{JOURNAL}/{run}.jsonl"
    parts = [f"{host}: {journal} has unreadable lines" if damaged else f"{host}: {journal} is missing"]
    parts += [f"Not undone: {_some(unchanged)}"] if unchanged else []
    parts += [f"Changed since, or unreadable: {_some(changed)}"] if changed else []
    return ". ".join([*parts, f"The old values are in {directory()}/{run}.jsonl on this machine."])


def _some(items: Sequence[str]) -> str:
    return ", ".join(items[:_MOST]) + (f" and {len(items) - _MOST} more" if len(items) > _MOST else "")
