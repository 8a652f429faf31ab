"""The network that NCCL's ranks used between hosts, in words. Pure."""

from collections import defaultdict
from collections.abc import Iterable

from preflight.model.measure import Observation, RankView

_SHOWN = 3


def ways_between(observations: Iterable[Observation]) -> list[RankView]:
    """Return the ranks of groups over several hosts that met, or were to meet, over NCCL.

    For each device this is the last rank that knows its network."""
    views_by_place: dict[str, RankView] = {}
    for observation in observations:
        over_nccl = observation.meeting and observation.meeting.backend == "nccl" and observation.test.op == "init"
        if over_nccl and len({member.host for member in observation.test.members}) > 1:
            for view in observation.ranks:
                if view.way or view.member.place not in views_by_place:
                    views_by_place[view.member.place] = view
    return list(views_by_place.values())


def sentence(observations: Iterable[Observation]) -> str:
    """Return `NCCL traffic between hosts used IB (mlx5_0:1/RoCE …)`; "" where no rank knows."""
    hosts: dict[str, dict[str, str]] = defaultdict(dict)
    for view in ways_between(observations):
        if view.way and view.way.between_hosts:
            hosts[view.way.between_hosts].setdefault(view.member.host, next(iter(view.way.lines), ""))
    if not hosts:
        return ""
    if len(hosts) == 1:
        ((network, lines),) = hosts.items()
        return f"NCCL traffic between hosts used {network} ({next(iter(lines.values())) or 'no details in its log'})"
    parts = (f"{network} on {_names(list(lines))}" for network, lines in sorted(hosts.items()))
    return f"NCCL traffic between hosts used {', '.join(parts)}"


def _names(hosts: list[str]) -> str:
    suffix = f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
    return ", ".join(hosts[:_SHOWN]) + suffix
