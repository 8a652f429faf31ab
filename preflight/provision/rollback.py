"""Plans that roll a run back, made from the hosts' own journals."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from preflight.facts import answer_frame as framed
from preflight.grouping import grouped
from preflight.model.change import DEVICE_KINDS, Change, ChangePhase, Kind, Plan, Risk
from preflight.provision.accept import undo_refusal
from preflight.provision.apply import Way, put_in_order
from preflight.provision.host_run import HostRefusalError, HostRun, HostUndo
from preflight.provision.keeps import kept_values
from preflight.transport.types import TransportError

_HCCN_CONF = "/etc/hccn.conf"
_PARTLY = "{host}: only preflight's part of {file} is undone, because the file has other changes now"


@dataclass(frozen=True)
class Undoing:
    """The plan that rolls a run back.

    `keeps`: sentences about devices that keep something, because no command unsets it. `away`: sentences about what
    could not be collected, and why. `unfinished`: hosts on which a run is at work, or was cut off, with a sentence
    about it; their part of the plan may be incomplete. `at_work`: hosts on which a run was still at work after the
    timeout, and its owner. `notes`: further sentences. `known`: true if any host has seen the run. `strangers`: hosts
    that have no journal of it. `damaged`: hosts where lines of it cannot be read, and how many. `recorded`: all changes
    that the journals have, also those that no command reverts.
    """

    plan: Plan
    keeps: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    unfinished: Mapping[str, str] = field(default_factory=dict)
    at_work: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    known: bool = True
    strangers: tuple[str, ...] = ()
    damaged: Mapping[str, int] = field(default_factory=dict)
    recorded: tuple[Change, ...] = ()


def undoing(run: str, way: Way, this_run: str, begun: Collection[Change] = ()) -> Undoing:
    """Ask every host of `way` what `run` did there.

    `this_run`: the id of the asking run, for others to see. `begun`: the changes of the run that this machine knows of.
    """
    pushed = grouped((change.host, change.target) for change in begun)

    def undo_of_host(host_run: HostRun) -> HostUndo | str:
        return _trusted_undo(host_run, run, pushed.get(host_run.host_name, ()))

    names = {host.name for host in way.hosts}
    seconds = HostRun.seconds((), way.confirm_seconds)
    answers = way.on_each(names, this_run, undo_of_host, seconds=seconds, phase="journals")
    changes: list[Change] = []
    away, strangers, notes, unfinished, damaged = [], [], [], {}, {}
    for name, answer in answers.items():
        if isinstance(answer, TransportError | str):
            away.append(str(answer))
            continue
        if answer.changes is None:
            strangers.append(name)
        changes += answer.changes or ()
        notes += [_PARTLY.format(host=name, file=file) for file in answer.left]
        if answer.unfinished:
            unfinished[name] = answer.unfinished
        if answer.damaged:
            damaged[name] = answer.damaged
    plan, keeps = plan_of(changes)
    return Undoing(
        plan,
        keeps,
        tuple(away),
        unfinished,
        notes=tuple(notes),
        known=len(strangers) + len(away) < len(answers),
        strangers=tuple(strangers),
        damaged=damaged,
        recorded=tuple(changes),
    )


def _trusted_undo(host_run: HostRun, run: str, pushed: Collection[str]) -> HostUndo | str:
    """Return what undoes `run` on a host, or why that is not known. `pushed`: files that the run wrote there."""
    try:
        undo = host_run.undo_of(run)
    except (HostRefusalError, framed.NoAnswer) as error:
        return f"{host_run.host_name}: {error}"
    objection = next(filter(None, (undo_refusal(change, pushed) for change in undo.changes or ())), "")
    if not objection:
        return undo
    return f"{host_run.host_name}: nothing is undone, since its journal is not trustworthy: {objection}"


def undoing_in_order(run: str, way: Way, this_run: str, begun: Collection[Change] = ()) -> Undoing:
    """Return the same, to be carried out.

    If a run was cut off on a host, its changes may still revert themselves. Such hosts are put in order first and asked
    again; a host that is not in order then is left out.
    """
    undo = undoing(run, way, this_run, begun)
    if not undo.unfinished:
        return undo
    recovery = put_in_order(undo.unfinished, way, this_run)
    undo = undoing(run, way, this_run, begun)
    left_out = tuple(f"{name}: {why}" for name, why in undo.unfinished.items())
    plan = Plan(tuple(change for change in undo.plan.changes if change.host not in undo.unfinished))
    at_work = {name: owner for name, owner in recovery.at_work.items() if name in undo.unfinished}
    return replace(undo, plan=plan, away=undo.away + left_out, notes=recovery.notes + undo.notes, at_work=at_work)


def plan_of(changes: Iterable[Change]) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan without changes that cannot be reverted, and a sentence for each device that keeps something.

    Pure. Each host's changes are in the order of their phases, and in the order given within a phase. Changes that a
    step made only to the boot file of devices are undone with that file.
    """
    candidates = tuple(change for change in changes if change.kind is not Kind.DEVICE_SAVED)
    kept = [change for change in candidates if _cannot_be_unset(change)]
    holding = {change.host for change in kept}
    reverting = (_for_the_next_boot(c) if c.host in holding else c for c in candidates if not _cannot_be_unset(c))
    return Plan(tuple(_by_phase(reverting))), tuple(kept_values(kept))


def _cannot_be_unset(change: Change) -> bool:
    return change.kind in DEVICE_KINDS and (change.after is None or change.kind is Kind.DEVICE_RECOVERY)


def _for_the_next_boot(change: Change) -> Change:
    """Mark a change of the file that devices are set from at boot: it has more than can be set on them now."""
    if change.kind is Kind.FILE and change.target == _HCCN_CONF:
        return replace(change, risk=Risk.NEEDS_REBOOT)
    return change


def _by_phase(changes: Iterable[Change]) -> Iterator[Change]:
    phases = list(ChangePhase)
    for of_host in grouped((change.host, change) for change in changes).values():
        yield from sorted(of_host, key=lambda change: phases.index(change.phase))
