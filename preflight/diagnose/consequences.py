"""Causes and consequences among the errors that lead a job's processes. Pure."""

from collections.abc import Sequence

from preflight.diagnose.order import Errors
from preflight.diagnose.types import LoggedError, Role, Weight

# Waits that begin when another process ends: an exception without a known time comes before them.
_LOST = ("peer-gone", "nccl-lost", "nccl-remote", "socket-lost")
_KILLED = "killed"  # launchers kill other ranks after the first has failed


def causes_and_consequences(leads: Sequence[LoggedError]) -> tuple[list[LoggedError], list[LoggedError]]:
    """Return causes and consequences, each in the order of `leads`."""
    ends = Errors(error for error in leads if error.sign.role is Role.ENDED)
    in_time = [error for error in leads if not ends.any_before(error)]
    faults = [error for error in in_time if error.sign.role in (Role.OWN, Role.LINK)]
    causes = _known_causes(faults)
    causes += _unknown_causes(in_time, leads)
    causes = _without_later_kills(causes)
    chosen = set(causes)
    return causes, [error for error in leads if error not in chosen]


def _known_causes(known: Sequence[LoggedError]) -> list[LoggedError]:
    """Return errors that name a cause, and deaths and symptoms without such an error before them."""
    strong = [error for error in known if error.sign.weight is Weight.CAUSE]
    causes = Errors(strong)
    return strong + [error for error in known if error.sign.weight is not Weight.CAUSE and not causes.any_before(error)]


def _unknown_causes(in_time: Sequence[LoggedError], leads: Sequence[LoggedError]) -> list[LoggedError]:
    """Return exceptions that the catalogue does not have, if no rank had failed or begun to wait before them."""
    explaining = list(filter(_explains, leads))
    lost = Errors(error for error in explaining if error.sign.id in _LOST)
    failures = Errors(error for error in explaining if error.sign.id not in _LOST)
    unknown = (error for error in in_time if error.sign.role is Role.UNKNOWN)
    return [error for error in unknown if failures.all_after(error) and not lost.any_well_before(error)]


def _explains(error: LoggedError) -> bool:
    if error.sign.role is Role.UNKNOWN or error.sign.id == _KILLED:
        return False
    return error.sign.role is not Role.WAIT or error.sign.weight is not Weight.SYMPTOM


def _without_later_kills(causes: Sequence[LoggedError]) -> list[LoggedError]:
    other_errors = Errors(error for error in causes if error.sign.id != _KILLED)
    return [error for error in causes if error.sign.id != _KILLED or not other_errors.any_before(error)]
