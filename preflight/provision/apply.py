"""The plan carried out: one program a host makes its changes, a second connection confirms the firewall's."""

import getpass
import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from typing import TypeVar

import msgspec

from preflight.facts import framed
from preflight.facts.decode import decode
from preflight.model.change import Area, Change, Plan, StepResult, StepState
from preflight.model.cluster import Host
from preflight.transport import fan_out
from preflight.transport.types import Answer, Program, Progress, Transport, TransportError, Trouble

T = TypeVar("T")

JOURNAL = "/var/lib/preflight/journal"  # on the hosts
LOCK = "/run/preflight.lock"
CONFIRM_SECONDS = 30.0  # how long a host waits for a new connection before it takes its firewall changes back
_PATIENCE = 20.0  # seconds after that in which the host is asked what it did
_PAUSE = 1.0  # seconds between two attempts to get in again
_PROGRAM_SECONDS = 60.0  # for a host's program without its devices
_DEVICE_SECONDS = 5.0  # a device's change: hccn_tool may be busy, and the value takes its time to show


_MAYBE_BEGUN = (Trouble.CLOSED, Trouble.TIMEOUT)  # after any other trouble, nothing was begun on the host


# What the host program answers: see preflight/remote/apply.py.


@dataclass(frozen=True)
class _Step:
    state: StepState
    found: str | None
    message: str


@dataclass(frozen=True)
class _Applied:
    results: list[_Step]
    guarded: bool


@dataclass(frozen=True)
class _Verdict:
    verdict: str  # confirmed | reverted
    left: list[str]  # targets that could not be taken back


class _Refused(Exception):  # noqa: N818  (an answer, not a fault of ours)
    """The host program began nothing: its own sentence."""


def apply(
    plan: Plan,
    hosts: Sequence[Host],
    transport: Transport,
    *,
    run: str,
    pool: int = 32,
    progress: Callable[[Progress], None] | None = None,
    confirm_seconds: float = CONFIRM_SECONDS,
) -> list[StepResult]:
    """Carry out `plan`, hosts in parallel, and return a result for each of its changes, in its order.

    A host's changes stop at the first that does not end well; other hosts go on. `run` names the journal on the hosts.
    A host that cannot be reached ends in `FAILED` with the transport's sentence, never in an exception.
    """
    todo = [host for host in hosts if host.name in plan.hosts]
    deadlines = {host.name: _seconds(plan.of_host(host.name)) for host in todo}

    def one_host(host: Host) -> list[StepResult]:
        host_run = _HostRun(host, transport, run, deadlines[host.name], confirm_seconds)
        return host_run.carry_out(plan.of_host(host.name))

    longest = max(deadlines.values(), default=0.0) + 2 * (confirm_seconds + _PATIENCE)
    done = fan_out(todo, one_host, pool=pool, deadline=longest, progress=progress, phase="apply")
    return [result for name in plan.hosts for result in _of_host(done[name], plan.of_host(name), run)]


def _seconds(changes: Sequence[Change]) -> float:
    return _PROGRAM_SECONDS + _DEVICE_SECONDS * sum(change.area is Area.ADDRESSES for change in changes)


def _of_host(result: list[StepResult] | TransportError, changes: Sequence[Change], run: str) -> list[StepResult]:
    if not isinstance(result, TransportError):
        return result
    if result.trouble not in _MAYBE_BEGUN:
        return _refused(changes, result.summary)
    return _lost(changes, result.summary, run)


def _lost(changes: Sequence[Change], why: str, run: str) -> list[StepResult]:
    """How far the host came is not known here, so that nothing counts as done."""
    message = f"{why}; what was done there until then, if anything, stands in {JOURNAL}/{run}.jsonl"
    return [StepResult(change, StepState.FAILED, message=message) for change in changes]


def _refused(changes: Sequence[Change], message: str) -> list[StepResult]:
    first, *rest = changes
    return [
        StepResult(first, StepState.FAILED, message=message),
        *(StepResult(change, StepState.NOT_RUN) for change in rest),
    ]


class _HostRun:
    """One host's part of a run."""

    def __init__(self, host: Host, transport: Transport, run: str, seconds: float, confirm_seconds: float) -> None:
        self._host = host
        self._transport = transport
        self._run = run
        self._seconds = seconds
        self._confirm_seconds = confirm_seconds

    def carry_out(self, changes: Sequence[Change]) -> list[StepResult]:
        """Apply, then confirm where the host asks for it. Raises TransportError if the program was not heard out."""
        request = {
            "action": "apply",
            "owner": f"{getpass.getuser()}@{socket.gethostname()}, run {self._run}",
            "seconds": self._confirm_seconds,
            "changes": [asdict(change) for change in changes],
        }
        try:
            # A firewall change may stop this very connection; it comes back to life when the host has reverted it.
            answer = self._ask(request, _Applied, self._seconds + self._confirm_seconds + _PATIENCE)
            if len(answer.results) != len(changes):
                raise framed.NoAnswer(f"{len(changes)} changes were sent and {len(answer.results)} results came back")
        except _Refused as error:
            return _refused(changes, f"{self._host.name}: {error}")
        except framed.NoAnswer as error:
            return _lost(changes, f"{self._host.name}: {error}", self._run)
        results = [
            StepResult(change, step.state, step.found, step.message)
            for change, step in zip(changes, answer.results, strict=True)
        ]
        return self._confirmed(results) if answer.guarded else results

    def _confirmed(self, results: list[StepResult]) -> list[StepResult]:
        """The results after the host's verdict on its firewall changes."""
        seconds = self._confirm_seconds
        try:
            verdict = self._confirm()
        except (TransportError, _Refused, framed.NoAnswer) as error:
            message = f"could not be confirmed: {error}; the host takes it back by itself within {seconds:g} s"
            return [_unless_guarded(result, StepState.FAILED, message) for result in results]
        if verdict.verdict == "confirmed":
            return results
        message = f"no new connection came through within {seconds:g} s, so the host took it back"
        left = "was to be taken back, and could not be; the host's journal says why"
        return [
            _unless_guarded(result, StepState.FAILED, left)
            if result.change.target in verdict.left
            else _unless_guarded(result, StepState.REVERTED, message)
            for result in results
        ]

    def _confirm(self) -> _Verdict:
        """Keep trying over new connections until the host has answered, or has surely decided by itself."""
        deadline = time.monotonic() + self._confirm_seconds + _PATIENCE
        while True:
            try:
                return self._ask({"action": "confirm"}, _Verdict, self._confirm_seconds + _PATIENCE)
            except TransportError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE)

    def _ask(self, request: Mapping[str, object], type_: type[T], seconds: float) -> T:
        marker = secrets.token_hex(16)
        common = {"marker": marker, "run": self._run, "journal": JOURNAL, "lock": LOCK}
        source = files("preflight").joinpath("remote/apply.py").read_text(encoding="utf-8")
        program = Program(source, json.dumps({**common, **request}).encode())
        return _read(self._transport.run(self._host, program, timeout=seconds), marker, type_)


def _unless_guarded(result: StepResult, state: StepState, message: str) -> StepResult:
    """`result`, or what became of it if it was written and guarded."""
    if result.change.area is Area.FIREWALL and result.state is StepState.DONE:
        return replace(result, state=state, message=message)
    return result


def _read(answer: Answer, marker: str, type_: type[T]) -> T:
    """The framed document. Raises _Refused with the program's own refusal, NoAnswer for anything that is no answer."""
    document = framed.document(answer, marker)
    try:
        parts = decode(document, dict[str, msgspec.Raw])
        if "error" in parts:
            raise _Refused(decode(parts["error"], str))
        return decode(document, type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise framed.NoAnswer(f"the answer of the program on the host is not understood: {error}") from error
