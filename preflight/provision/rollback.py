"""A run → the plan that takes it back, from what the hosts themselves wrote down."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from preflight.facts import answer_frame as framed
from preflight.model.change import DEVICE_KINDS, Change, Kind, Phase, Plan, Risk
from preflight.model.cluster import Host
from preflight.provision.accept import undo_refusal
from preflight.provision.apply import Way, put_in_order
from preflight.provision.host_run import HostRun, HostUndo, Refused
from preflight.provision.keeps import keeping
from preflight.transport import fan_out
from preflight.transport.types import TransportError

_HCCN_CONF = "/etc/hccn.conf"


@dataclass(frozen=True)
class Undoing:
    """The plan that takes a run back. `keeps`: what a device keeps, because no command unsets it; `away`: what was not
    to be had, and why; `unfinished`: the hosts on which a run is at work, or was cut off, with a sentence about it, so
    that what is planned for them may not be all; `at_work`: those that were waited for in vain, and whose run it is;
    `notes`: what else is to be said; `known`: whether any host has seen the run; `strangers`: hosts that have no
    journal of it; `damaged`: hosts where lines of it cannot be read, and how many; `told`: all that the journals tell,
    also what no command takes back."""

    plan: Plan
    keeps: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    unfinished: Mapping[str, str] = field(default_factory=dict)
    at_work: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    known: bool = True
    strangers: tuple[str, ...] = ()
    damaged: Mapping[str, int] = field(default_factory=dict)
    told: tuple[Change, ...] = ()


def undoing(run: str, way: Way, this_run: str, begun: Collection[Change] = ()) -> Undoing:
    """Ask every host of `way` what `run` did there. `this_run` is the asking run's id, for others to see; `begun`: what
    this machine knows the run to have changed."""
    pushed = {name: [change.target for change in begun if change.host == name] for name in {c.host for c in begun}}

    def one_host(host: Host) -> HostUndo | str:
        try:
            undo = HostRun(host, way.transport, this_run, confirm_seconds=way.confirm_seconds).undo_of(run)
        except (Refused, framed.NoAnswer) as error:
            return f"{host.name}: {error}"
        strange = next(filter(None, (undo_refusal(c, pushed.get(host.name, ())) for c in undo.changes or ())), "")
        return f"{host.name}: its journal is not to be trusted, nothing is taken back: {strange}" if strange else undo

    seconds = HostRun.seconds((), way.confirm_seconds)
    told = fan_out(way.hosts, one_host, pool=way.pool, deadline=seconds, progress=way.progress, phase="journals")
    changes: list[Change] = []
    away, strangers, left, unfinished, damaged = [], [], [], {}, {}
    for name, answer in told.items():
        if isinstance(answer, TransportError | str):
            away.append(str(answer))
            continue
        if answer.changes is None:
            strangers.append(name)
        changes += answer.changes or ()
        left += [(name, file) for file in answer.left]
        if answer.unfinished:
            unfinished[name] = answer.unfinished
        if answer.damaged:
            damaged[name] = answer.damaged
    notes = [
        f"{host}: {file} is not put back whole, since somebody has changed it: only what is ours in it goes"
        for host, file in left
    ]
    plan, keeps = plan_of(changes)
    known = len(strangers) + len(away) < len(told)
    return Undoing(
        plan,
        keeps,
        tuple(away),
        unfinished,
        notes=tuple(notes),
        known=known,
        strangers=tuple(strangers),
        damaged=damaged,
        told=tuple(changes),
    )


def undoing_in_order(run: str, way: Way, this_run: str, begun: Collection[Change] = ()) -> Undoing:
    """The same, to be carried out. Where a run was cut off, what it did may still take itself back: such hosts are put
    in order first and asked again; one that is not in order then is left out."""
    undo = undoing(run, way, this_run, begun)
    if not undo.unfinished:
        return undo
    put = put_in_order(undo.unfinished, way, this_run)
    undo = undoing(run, way, this_run, begun)
    left_out = tuple(f"{name}: {why}" for name, why in undo.unfinished.items())
    plan = Plan(tuple(change for change in undo.plan.changes if change.host not in undo.unfinished))
    at_work = {name: owner for name, owner in put.at_work.items() if name in undo.unfinished}
    return replace(undo, plan=plan, away=undo.away + left_out, notes=put.notes + undo.notes, at_work=at_work)


def plan_of(changes: Iterable[Change]) -> tuple[Plan, tuple[str, ...]]:
    """The plan, each host's changes phase by phase and otherwise in the order given, without what cannot be done; and a
    sentence for each device that therefore keeps something. Pure.

    What a step only did to the boot file of devices is undone with that file.
    """
    given = tuple(change for change in changes if change.kind is not Kind.DEVICE_SAVED)
    kept = [change for change in given if _cannot_be_unset(change)]
    holding = {change.host for change in kept}
    rest = (_for_the_next_boot(c) if c.host in holding else c for c in given if not _cannot_be_unset(c))
    return Plan(tuple(_by_phase(tuple(rest)))), tuple(keeping(kept))


def _cannot_be_unset(change: Change) -> bool:
    return change.kind in DEVICE_KINDS and (change.after is None or change.kind is Kind.DEVICE_RECOVERY)


def _for_the_next_boot(change: Change) -> Change:
    """The file that devices are set from at boot says more than they can be brought to now."""
    if change.kind is Kind.FILE and change.target == _HCCN_CONF:
        return replace(change, risk=Risk.NEEDS_REBOOT)
    return change


def _by_phase(changes: Sequence[Change]) -> Iterable[Change]:
    hosts = dict.fromkeys(change.host for change in changes)
    phases = list(Phase)
    for host in hosts:
        of_host = (change for change in changes if change.host == host)
        yield from sorted(of_host, key=lambda change: phases.index(change.phase))
