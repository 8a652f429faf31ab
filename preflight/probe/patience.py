"""How long one step of a rank may take: longer than the backend itself waits before it says what is wrong. Pure."""

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence

from preflight.model.cluster import ProbeSettings, Product

# Seconds that a step may take where the inventory's backend is not the one used. HCCL's own words come after 170 s at
# most, where nobody sets its variables.
DEADLINES = {"hccl": 180.0, "nccl": 60.0, "gloo": 60.0}
VARIABLES = ("HCCL_CONNECT_TIMEOUT", "HCCL_DFS_CONFIG")  # of HCCL: they say how long it waits
_CONNECT, _MORE, _DETECT = 120, 20, 20  # seconds; HCCL_CONNECT_TIMEOUT is what it waits but for 20 s more
_SPARE = 10.0  # seconds for HCCL's words to come through


def hccl_waits(variables: Mapping[str, str], product: Product) -> float:
    """Seconds after which HCCL says what it waited for in vain (HCCL user guide: HCCL_CONNECT_TIMEOUT,
    HCCL_DFS_CONFIG). A value that it does not take counts as its default: it is refused at once."""
    text = variables.get("HCCL_CONNECT_TIMEOUT", "")
    connect = int(text) if re.fullmatch(r"\d{1,5}", text) and 120 <= int(text) <= 7200 else _CONNECT
    if product is Product.ATLAS_A1:
        return connect + _MORE
    found = re.search(r"connection_fault_detection_time:(\d{1,5})\b", variables.get("HCCL_DFS_CONFIG", ""))
    detect = int(found[1]) if found else _DETECT
    if detect and not 20 <= detect <= 7200:
        detect = _DETECT
    return connect + _MORE + (detect + 10 if detect else 0)


def step_deadline(
    settings: ProbeSettings, backend: str, product: Product, variables: Iterable[Mapping[str, str]] = ()
) -> float:
    """Seconds that one step of a rank may take: the inventory's, or the backend's default.

    `variables`: of HCCL, as each host's jobs have them. Where jobs give HCCL more time than usual, so does the probe.
    """
    chosen = settings.step_deadline if backend == settings.backend else DEADLINES[backend]
    if backend != "hccl":
        return chosen
    asked = [hccl_waits(given, product) + _SPARE for given in variables if any(name in given for name in VARIABLES)]
    return max([chosen, *asked])


def late(backend: str, deadline: float) -> float:
    """Seconds of waiting after which a rank's error is its backend's own time-out; HCCL has none under 120 s."""
    return min(0.8 * deadline, _CONNECT) if backend == "hccl" else 0.8 * deadline


_FEWEST, _TIMES, _MORE_TIME = 0.5, 3.0, 5.0  # share of the groups; times their median, and seconds
_LEAST = 10.0  # seconds


def hurried(took: Sequence[float], groups: int, deadline: float) -> float:
    """Seconds that a step may take once others have shown how long all of it takes: `took` by those of the round's
    `groups` that have finished. `deadline` where they are too few to tell."""
    if not took or len(took) < _FEWEST * groups:
        return deadline
    return min(deadline, max(_LEAST, _TIMES * statistics.median(took) + _MORE_TIME))
