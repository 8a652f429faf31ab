"""Timeouts of one step of a rank: longer than the backend's own, so that its error message arrives first. Pure."""

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence

from preflight.model.cluster import ProbeSettings, Product
from preflight.model.measure import Scope

# Seconds that a step may take if the inventory's backend is not the one in use. HCCL reports its own timeout after
# 170 s at most, unless its variables are set.
DEADLINES = {"hccl": 180.0, "nccl": 60.0, "gloo": 60.0}
VARIABLES = ("HCCL_CONNECT_TIMEOUT", "HCCL_DFS_CONFIG")  # of HCCL: they set its timeouts
_CONNECT, _MORE, _DETECT = 120, 20, 20  # seconds; HCCL waits 20 s longer than HCCL_CONNECT_TIMEOUT
_SPARE = 10.0  # seconds for HCCL's message to arrive


def hccl_waits(variables: Mapping[str, str], product: Product) -> float:
    """Return the seconds after which HCCL reports a timeout (HCCL user guide: HCCL_CONNECT_TIMEOUT, HCCL_DFS_CONFIG).

    A value that HCCL does not accept counts as its default, since it is refused at once.
    """
    text = variables.get("HCCL_CONNECT_TIMEOUT", "")
    connect = int(text) if re.fullmatch(r"\d{1,5}", text) and 120 <= int(text) <= 7200 else _CONNECT
    if product is Product.ATLAS_A1:
        return connect + _MORE
    match = re.search(r"connection_fault_detection_time:(\d{1,5})\b", variables.get("HCCL_DFS_CONFIG", ""))
    detect = int(match[1]) if match else _DETECT
    if detect and not 20 <= detect <= 7200:
        detect = _DETECT
    return connect + _MORE + (detect + 10 if detect else 0)


def step_deadline(
    settings: ProbeSettings, backend: str, product: Product, variables: Iterable[Mapping[str, str]] = ()
) -> float:
    """Return the seconds that one step of a rank may take: the inventory's, or the backend's default.

    `variables`: of HCCL, in each host's jobs. If jobs give HCCL more time than usual, so does the probe.
    """
    deadline = settings.step_deadline if backend == settings.backend else DEADLINES[backend]
    if backend != "hccl":
        return deadline
    hccl_timeouts = [
        hccl_waits(environment, product) + _SPARE
        for environment in variables
        if any(name in environment for name in VARIABLES)
    ]
    return max([deadline, *hccl_timeouts])


def late(backend: str, deadline: float) -> float:
    """Return the seconds of waiting after which a rank's error is its backend's timeout. HCCL has none under 120 s."""
    return min(0.8 * deadline, _CONNECT) if backend == "hccl" else 0.8 * deadline


_FEWEST, _TIMES, _MORE_TIME = 0.25, 3.0, 5.0  # share of the groups; times their median; additional seconds
# Seconds that a step has in any case. A device alone loads torch and opens its driver, perhaps from a cold disk. The
# first pairs load what connects them; those of later rounds have done that before.
_LEAST = {Scope.DEVICE: 30.0, Scope.PAIR: 10.0}


def hurried(took: Sequence[float], groups: int, scope: Scope, deadline: float, *, first: bool = True) -> float:
    """Return the seconds that a step may take, once other groups have shown how long all their steps take.

    `took`: seconds of the groups that have finished, of this round of `groups` and of earlier ones with the same tests.
    If these are too few, or groups of this scope cannot be compared, the result is `deadline`. `first`: whether this is
    the first round of these tests.
    """
    if scope not in _LEAST or not took or len(took) < _FEWEST * groups:
        return deadline
    least = _LEAST[scope] if first else 0.0
    return min(deadline, max(least, _TIMES * statistics.median(took) + _MORE_TIME))
