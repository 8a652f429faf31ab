"""The order in which errors were logged, as far as times and places in files tell. Pure."""

import re
from collections.abc import Sequence

from preflight.diagnose.types import Seen

NEVER = float("inf")
_OUT_OF_ORDER = 5.0  # seconds, in which a launcher may print lines of several ranks in another order
_LINES_OUT_OF_ORDER = 50  # the same in lines
_INNER = re.compile(r"E[1-9A-Z]9\d{3}|EE8888|\d{6}")


def when(seen: Seen) -> float:
    """Return its time; an error without one comes last."""
    return NEVER if seen.time is None else seen.time


def first_of(all_seen: Sequence[Seen]) -> Seen:
    """Return the first one: by place within a file, else by time. Inner codes and numbers of CANN come last."""
    inner = [seen for seen in all_seen if _INNER.fullmatch(seen.sign.id)]
    rest = [seen for seen in all_seen if seen not in inner] or inner
    if len({seen.file for seen in rest}) == 1:
        return min(rest, key=lambda seen: seen.number)
    return min(rest, key=lambda seen: (when(seen), seen.number))


def is_before(seen: Seen, other: Seen) -> bool:
    """Return whether it was logged before the other one, for certain."""
    if seen.file == other.file:
        return seen.number < other.number
    return seen.time is not None and other.time is not None and seen.time < other.time


def is_well_before(seen: Seen, other: Seen) -> bool:
    """Return whether it was logged before the other one, also where lines of several ranks are out of order."""
    if seen.time is not None and other.time is not None and abs(seen.time - other.time) > _OUT_OF_ORDER:
        return seen.time < other.time
    return seen.file == other.file and other.number - seen.number > _LINES_OUT_OF_ORDER
