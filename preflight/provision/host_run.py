"""One host's part of a run, carried out there by the program of preflight/remote/apply."""

import getpass
import json
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import msgspec

from preflight.facts import answer_frame as framed
from preflight.facts.decode import decode
from preflight.facts.documents.refused_document import json_error
from preflight.model.change import Area, Change, ChangePhase, Kind, StepResult, StepState
from preflight.model.cluster import Host
from preflight.provision import reverts
from preflight.provision.accept import operators_files
from preflight.provision.this_network import network_id
from preflight.transport.programs import source
from preflight.transport.types import Answer, ErrorKind, Program, Transport, TransportError

T = TypeVar("T")
Person = Callable[[str, float], bool]  # takes a host and seconds; returns whether a new login to the host works

JOURNAL = "/var/lib/preflight/journal"  # on the hosts
LOCK = "/run/preflight.lock"
WATCH = "/run/preflight"  # files and verdicts of guardians
CONFIRM_SECONDS = 30.0  # seconds that a host waits for a new connection before it reverts its firewall changes
_PATIENCE = 20.0  # seconds after that in which the host is asked what it did
_GUARDIAN = 5.0  # seconds that a host's guardian takes for its work
_GUARDED_SECONDS = 60.0  # for the guarded changes; then a guardian ends them, whatever they wait for
_RULE_SECONDS = 0.5  # in addition, for each rule that changes: ufw took 0.27 s for one on a machine of two cores
_PAUSE = 1.0  # seconds between two attempts to connect again
_ATTEMPTS = 2  # smallest number of attempts to confirm
_PROGRAM_SECONDS = 60.0  # for a host's program without its devices
_DEVICE_SECONDS = 5.0  # for a change of a device: hccn_tool may be busy, and the value takes its time to show
_MAYBE_BEGUN = (ErrorKind.CLOSED, ErrorKind.TIMEOUT)  # after any other error, nothing was begun on the host


# Answers of the host program: see preflight/remote/apply/main.py.


@dataclass(frozen=True)
class _Step:
    state: StepState
    found: str | None
    message: str
    maybe: bool = False


@dataclass(frozen=True)
class _Compared:
    results: list[_Step]
    open: str  # a run that has begun there and not finished
    at_work: str  # the owner of the run that is at work there


@dataclass(frozen=True)
class _Applied:
    results: list[_Step]
    guarded: bool
    own: bool = False  # true if the host is this machine


@dataclass(frozen=True)
class _Verdict:
    verdict: str  # confirmed | reverted
    left: list[str]  # targets that are not reverted
    trying: bool  # true if the host is still trying
    results: list[_Step]


@dataclass(frozen=True)
class _Recovered:
    recovered: str


@dataclass(frozen=True)
class _Undo:
    kind: Kind
    target: str
    area: Area
    before: str | None
    after: str | None


@dataclass(frozen=True)
class _UndoOf:
    changes: list[_Undo] | None
    left: list[str]  # files in which only our lines are undone
    open: str
    at_work: str
    damaged: int = 0  # lines of the run's journal that cannot be read


class HostRefusalError(Exception):
    """The host program's own sentence about why it began nothing.

    `at_work`: the owner of the run that is at work there, if that is the reason.
    """

    def __init__(self, sentence: str, at_work: str = "") -> None:
        super().__init__(sentence)
        self.at_work = at_work


@dataclass(frozen=True)
class HostOutcome:
    """Results of one host's changes, in the order of their phases.

    `at_work`: the owner of the run that was at work there instead, empty if none was.
    """

    results: tuple[StepResult, ...]
    at_work: str = ""


@dataclass(frozen=True)
class HostUndo:
    """Changes that lead a host back to its state before a run; None if the run was not there.

    `left`: the files in which only our lines are undone, since they have been changed after the run. `unfinished`: a
    sentence about the run that is at work there, or that was cut off, empty if there is none. `damaged`: the number of
    lines of the run's journal that cannot be read there.
    """

    changes: tuple[Change, ...] | None
    left: tuple[str, ...] = ()
    unfinished: str = ""
    damaged: int = 0


class HostRun:
    """A host, the transport to it, and the id of the run that is at work there."""

    def __init__(
        self,
        host: Host,
        transport: Transport,
        run: str,
        *,
        confirm_seconds: float = CONFIRM_SECONDS,
        person: Person | None = None,
    ) -> None:
        self._host = host
        self._transport = transport
        self._run = run
        self._confirm_seconds = confirm_seconds
        self._person = person

    @property
    def host_name(self) -> str:
        return self._host.name

    @staticmethod
    def seconds(changes: Sequence[Change], confirm_seconds: float) -> float:
        """Return the longest time in seconds that `carry_out` takes."""
        return _program_seconds(changes) + _guarded_seconds(changes) + (1 + _ATTEMPTS) * (confirm_seconds + _PATIENCE)

    def compare(self, changes: Sequence[Change]) -> tuple[StepResult, ...]:
        """Return the state that each change would have now: `PENDING`, `ALREADY`, `MOVED` or `FAILED`.

        Nothing is written.
        """
        changes = _in_phases(changes)
        try:
            answer = self._ask({"action": "compare", **_phases(changes)}, _Compared, _program_seconds(changes))
            if unfinished := _unfinished(answer.open, answer.at_work):
                return refused(changes, f"{self.host_name}: {unfinished}")
            return _results(changes, answer.results)
        except (TransportError, HostRefusalError, framed.NoAnswer) as error:
            return refused(changes, _with_name(self._host, error))

    def at_work(self) -> str:
        """Return the owner of the run that is at work here now, empty if none is.

        Nothing is written. Raises TransportError, HostRefusalError or NoAnswer.
        """
        return self._ask({"action": "compare", **_phases(())}, _Compared, _PROGRAM_SECONDS).at_work

    def recover(self) -> str:
        """Finish the work of a run that was cut off, once its guardian is done.

        Returns a sentence about it, empty if there was no such run. Raises TransportError, HostRefusalError (also where
        another run is at work) or NoAnswer.
        """
        timeout = self._confirm_seconds + _GUARDIAN  # for a guardian that has not decided yet
        request = {"action": "recover", "owner": self._owner(), "patience": timeout}
        return self._ask(request, _Recovered, _PROGRAM_SECONDS + self._confirm_seconds + _PATIENCE).recovered

    def undo_of(self, run: str) -> HostUndo:
        """Return the changes that lead this host back to its state before `run`.

        Nothing is written. Raises TransportError, HostRefusalError or NoAnswer.
        """
        answer = self._ask({"action": "undo-of", "run": run}, _UndoOf, _PROGRAM_SECONDS)
        unfinished = _unfinished(answer.open, answer.at_work)
        if answer.changes is None:
            return HostUndo(None, unfinished=unfinished)
        changes = (
            Change(self.host_name, undo.area, undo.kind, undo.target, undo.before, undo.after, why=run)
            for undo in answer.changes
        )
        return HostUndo(tuple(changes), tuple(answer.left), unfinished, answer.damaged)

    def carry_out(self, changes: Sequence[Change], *, undoes: str = "") -> HostOutcome:
        """Apply the changes, then confirm them if the host asks for it.

        A host that is lost ends in `FAILED`, not in an exception. `undoes`: the run that these changes roll back.
        Targets that have been changed since that run are then skipped.
        """
        changes = _in_phases(changes)
        is_local = self._host.ssh.transport == "local"
        if is_local and self._person is None and _of_phase(changes, ChangePhase.GUARDED):
            return self._without_firewall(changes, undoes)
        seconds = _program_seconds(changes) + _guarded_seconds(changes)
        request = {
            "action": "apply",
            "owner": self._owner(),
            "caller": network_id(),
            "person": self._person is not None,
            "seconds": self._confirm_seconds,
            "guarded_seconds": _guarded_seconds(changes),
            "limit": seconds,
            "go_on": bool(undoes),
            "undoes": undoes,
            **_phases(changes),
        }
        try:
            # A firewall change may block this very connection; it works again once the host has reverted the change.
            answer = self._ask(request, _Applied, seconds + self._confirm_seconds + _PATIENCE)
            applied = [change for change in changes if not (answer.guarded and change.phase is ChangePhase.KEPT)]
            results = _results(applied, answer.results)
        except (HostRefusalError, framed.NoAnswer, TransportError) as error:
            return self._outcome_of(error, changes)
        if answer.guarded:
            kept = _of_phase(changes, ChangePhase.KEPT)
            results = self._confirmed(results, kept, bool(undoes), own=answer.own or is_local)
        return HostOutcome(results)

    def _outcome_of(self, error: Exception, changes: Sequence[Change]) -> HostOutcome:
        """Return the outcome of a host that refused the changes, or of which no answer came."""
        message = error.summary if isinstance(error, TransportError) else _with_name(self._host, error)
        if isinstance(error, HostRefusalError):
            return HostOutcome(refused(changes, message), error.at_work)
        if isinstance(error, TransportError) and error.kind not in _MAYBE_BEGUN:
            return HostOutcome(refused(changes, message))
        return HostOutcome(lost(changes, message, self._run))

    def _confirmed(
        self, results: tuple[StepResult, ...], kept: Sequence[Change], go_on: bool, *, own: bool
    ) -> tuple[StepResult, ...]:
        """Return all results after the host's verdict on its firewall changes.

        A run with a failure is not made permanent. `own`: the host is this machine.
        """
        good_states = (StepState.DONE, StepState.ALREADY, *((StepState.MOVED,) if go_on else ()))
        succeeded = all(result.state in good_states for result in results)
        not_run = tuple(StepResult(change, StepState.NOT_RUN) for change in kept)
        try:
            verdict = self._confirm(kept if succeeded else (), go_on, own=own)
            if verdict.verdict == "confirmed":
                return results + (_results(kept, verdict.results) if succeeded else not_run)
        except (TransportError, HostRefusalError, framed.NoAnswer) as error:
            message = reverts.unknown(str(error), self._run)
            return tuple(_unless_guarded(result, StepState.FAILED, message) for result in results) + not_run
        return (*self._reverted(results, verdict, own=own), *not_run)

    def _reverted(self, results: Iterable[StepResult], verdict: _Verdict, *, own: bool) -> Iterator[StepResult]:
        """Yield the results after the host has reverted its firewall changes, or tried to."""
        sentence = reverts.done(self._confirm_seconds, own)
        for result in results:
            if result.change.target in verdict.left:
                message = reverts.not_reverted(result.change, verdict.trying, self._host.ssh.port)
                yield _unless_guarded(result, StepState.FAILED, message)
            else:
                yield _unless_guarded(result, StepState.REVERTED, sentence)

    def _without_firewall(self, changes: Sequence[Change], undoes: str) -> HostOutcome:
        """Carry out the changes that need no confirmation.

        This machine would confirm itself: a connection to its own addresses passes every firewall.
        """
        plain = _of_phase(changes, ChangePhase.PLAIN)
        outcome = self.carry_out(plain, undoes=undoes) if plain else HostOutcome(())
        firewall_changes = [change for change in changes if change.phase is not ChangePhase.PLAIN]
        message = f"{self.host_name}: {reverts.NO_PERSON}"
        return HostOutcome(outcome.results + refused(firewall_changes, message), outcome.at_work)

    def _confirm(self, kept: Sequence[Change], go_on: bool, *, own: bool) -> _Verdict:
        """Confirm over new connections until the host has answered, or has surely decided by itself.

        A host that was away for as long as an attempt takes is asked once more: it is likely to be back, and knows its
        verdict.
        """
        deadline = time.monotonic() + self._confirm_seconds + _PATIENCE
        attempts = 0
        timeout = self._confirm_seconds + _PATIENCE / 2  # for the guardians to end
        settings = {"heard": self._is_confirmed(own), "go_on": go_on, "patience": timeout}
        request = {"action": "confirm", **settings, **_phases(kept)}
        while True:
            try:
                return self._ask(request, _Verdict, self._confirm_seconds + _PATIENCE)
            except TransportError:
                attempts += 1
                if time.monotonic() >= deadline and attempts >= _ATTEMPTS:
                    raise
            time.sleep(_PAUSE)

    def _is_confirmed(self, own: bool) -> bool:
        """Return whether the confirmation counts: over ssh, its arrival; here, a person's answer about a new login."""
        return not own or (self._person is not None and self._person(self.host_name, self._confirm_seconds))

    def _owner(self) -> str:
        return f"{getpass.getuser()}@{socket.gethostname()}, run {self._run}"

    def _ask(self, request: Mapping[str, object], type_: type[T], seconds: float) -> T:
        marker = secrets.token_hex(16)
        common = {
            "marker": marker,
            "limit": seconds,
            "run": self._run,
            "journal": JOURNAL,
            "lock": LOCK,
            "watch": WATCH,
        }
        program = Program(source("apply"), json.dumps({**common, **request}).encode())
        return _read(self._transport.run(self._host, program, timeout=seconds), marker, type_)


def _of_phase(changes: Iterable[Change], phase: ChangePhase) -> list[Change]:
    return [change for change in changes if change.phase is phase]


def _program_seconds(changes: Sequence[Change]) -> float:
    return _PROGRAM_SECONDS + _DEVICE_SECONDS * sum(change.area is Area.ADDRESSES for change in changes)


def _guarded_seconds(changes: Sequence[Change]) -> float:
    guarded = _of_phase(changes, ChangePhase.GUARDED)
    rules = sum((text or "").count("\n") + 1 for change in guarded for text in (change.before, change.after))
    return _GUARDED_SECONDS + _RULE_SECONDS * rules


def _phases(changes: Sequence[Change]) -> dict[str, object]:
    phases = {phase.value: list(map(asdict, _of_phase(changes, phase))) for phase in ChangePhase}
    return {**phases, "named": operators_files(changes)}


def _in_phases(changes: Sequence[Change]) -> list[Change]:
    """Return the changes in the order in which the host makes them, and in which it answers."""
    return sorted(changes, key=lambda change: tuple(ChangePhase).index(change.phase))


def _results(changes: Sequence[Change], steps: Sequence[_Step]) -> tuple[StepResult, ...]:
    if len(steps) != len(changes):
        raise framed.NoAnswer(f"expected {len(changes)} results from the host, received {len(steps)}")
    return tuple(
        StepResult(change, step.state, step.found, step.message, step.maybe)
        for change, step in zip(changes, steps, strict=True)
    )


def _unfinished(run: str, at_work: str) -> str:
    """Return the sentence about a run that is at work on a host, or has begun there and was cut off."""
    if at_work:
        return f"another run is active on this host ({at_work}). Wait until it ends."
    if run:
        return f"run {run} was interrupted there. To recover, run preflight configure or preflight rollback {run}."
    return ""


def _with_name(host: Host, error: Exception) -> str:
    text = str(error)
    return text if text.startswith(f"{host.name}: ") else f"{host.name}: {text}"


def lost(changes: Sequence[Change], why: str, run: str) -> tuple[StepResult, ...]:
    """Return `FAILED` for all changes: how far the host came is not known here, so that nothing counts as done."""
    message = f"{why}. Changes made before that are in {JOURNAL}/{run}.jsonl on the host."
    return tuple(StepResult(change, StepState.FAILED, message=message, maybe=True) for change in changes)


def refused(changes: Sequence[Change], message: str) -> tuple[StepResult, ...]:
    """Return results of changes that were not begun: `FAILED` for the first, `NOT_RUN` for the others."""
    first, *later_changes = changes
    return (
        StepResult(first, StepState.FAILED, message=message),
        *(StepResult(change, StepState.NOT_RUN) for change in later_changes),
    )


def _unless_guarded(result: StepResult, state: StepState, message: str) -> StepResult:
    """Return `result`, with `state` and `message` if it was written and guarded."""
    if result.change.phase is ChangePhase.GUARDED and result.state is StepState.DONE:
        return replace(result, state=state, message=message, maybe=state is not StepState.REVERTED)
    return result


def _read(answer: Answer, marker: str, type_: type[T]) -> T:
    """Return the framed document. Raises HostRefusalError with the program's refusal, NoAnswer for any other output."""
    document = framed.document(answer, marker)
    try:
        parts = decode(document, dict[str, msgspec.Raw])
        if "error" in parts:
            at_work = decode(parts["at_work"], str) if "at_work" in parts else ""
            raise HostRefusalError(decode(parts["error"], str), at_work)
        return decode(document, type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise framed.NoAnswer(f"cannot parse the answer of the program on the host: {json_error(error)}") from error
