"""The network that NCCL's ranks used between hosts, in words. Pure."""

from collections import defaultdict
from collections.abc import Iterable

from preflight.model.measure import Observation, RankView

_SHOWN = 3


def ways_between(observations: Iterable[Observation]) -> list[RankView]:
    """The ranks of groups over several hosts that met, or were to meet, over NCCL; of each device the last that
    knows."""
    found: dict[str, RankView] = {}
    for seen in observations:
        met = seen.meeting and seen.meeting.backend == "nccl" and seen.test.op == "init"
        if met and len({member.host for member in seen.test.members}) > 1:
            for view in seen.ranks:
                if view.way or view.member.place not in found:
                    found[view.member.place] = view
    return list(found.values())


def sentence(observations: Iterable[Observation]) -> str:
    """`NCCL sent between hosts over IB (mlx5_0:1/RoCE …)`; "" where nobody knows."""
    hosts: dict[str, dict[str, str]] = defaultdict(dict)
    for view in ways_between(observations):
        if view.way and view.way.between_hosts:
            hosts[view.way.between_hosts].setdefault(view.member.host, next(iter(view.way.lines), ""))
    if not hosts:
        return ""
    if len(hosts) == 1:
        ((network, lines),) = hosts.items()
        return f"NCCL sent between hosts over {network} ({next(iter(lines.values())) or 'its log says no more'})"
    parts = (f"{network} on {_names(list(lines))}" for network, lines in sorted(hosts.items()))
    return f"NCCL sent between hosts over {', '.join(parts)}"


def _names(hosts: list[str]) -> str:
    more = f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
    return ", ".join(hosts[:_SHOWN]) + more
