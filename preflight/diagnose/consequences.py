"""Which of the errors that speak for a job's processes are causes, and which are consequences. Pure."""

from collections.abc import Sequence

from preflight.diagnose.order import Errors
from preflight.diagnose.types import Role, Seen, Weight

# Waits that begin when another process ends: an exception that no time is known of comes before them.
_LOST = ("peer-gone", "nccl-lost", "nccl-remote", "socket-lost")
_KILLED = "killed"  # launchers kill other ranks after the first has failed


def causes_and_consequences(leads: Sequence[Seen]) -> tuple[list[Seen], list[Seen]]:
    """Return both, each in the order of `leads`."""
    ends = Errors(seen for seen in leads if seen.sign.role is Role.ENDED)
    in_time = [seen for seen in leads if not ends.any_before(seen)]
    known = [seen for seen in in_time if seen.sign.role in (Role.OWN, Role.LINK)]
    causes = _known_causes(known)
    causes += _unknown_causes(in_time, leads)
    causes = _without_later_kills(causes)
    chosen = set(causes)
    return causes, [seen for seen in leads if seen not in chosen]


def _known_causes(known: Sequence[Seen]) -> list[Seen]:
    """Return errors that tell a cause, and deaths and symptoms that no such error came before."""
    strong = [seen for seen in known if seen.sign.weight is Weight.CAUSE]
    causes = Errors(strong)
    return strong + [seen for seen in known if seen.sign.weight is not Weight.CAUSE and not causes.any_before(seen)]


def _unknown_causes(in_time: Sequence[Seen], leads: Sequence[Seen]) -> list[Seen]:
    """Return exceptions that the catalogue does not have, where no rank had failed or begun to wait before them."""
    others = [seen for seen in leads if _explains(seen)]
    lost = Errors(seen for seen in others if seen.sign.id in _LOST)
    known = Errors(seen for seen in others if seen.sign.id not in _LOST)
    unknown = [seen for seen in in_time if seen.sign.role is Role.UNKNOWN]
    return [seen for seen in unknown if known.all_after(seen) and not lost.any_well_before(seen)]


def _explains(seen: Seen) -> bool:
    if seen.sign.role is Role.UNKNOWN or seen.sign.id == _KILLED:
        return False
    return seen.sign.role is not Role.WAIT or seen.sign.weight is not Weight.SYMPTOM


def _without_later_kills(causes: Sequence[Seen]) -> list[Seen]:
    others = Errors(seen for seen in causes if seen.sign.id != _KILLED)
    return [seen for seen in causes if seen.sign.id != _KILLED or not others.any_before(seen)]
