"""Ranks of a test in words: the stage they reached, and the ranks they waited for. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from preflight.model.cluster import Cluster
from preflight.model.measure import STAGES, End, Observation, RankView

HANDS = {"T": ": stopped", "D": ": in a driver", "Z": ": dead"}  # states of a process, as in /proc/PID/stat
_HOSTS = 6  # hosts shown in one line
_RANKS = 3  # ranks with logs that are shown


def places(views: Iterable[RankView]) -> str:
    """Return the devices of views in short: `node01/0-7, node02/0,3`."""
    devices: dict[str, list[int]] = defaultdict(list)
    for view in views:
        devices[view.member.host].append(view.member.device)
    words = [f"{host}/{_ranges(sorted(set(numbers)))}" for host, numbers in devices.items()]
    return ", ".join(words[:_HOSTS]) + (f" and {len(words) - _HOSTS} hosts more" if len(words) > _HOSTS else "")


def device_ranges(views: Sequence[RankView]) -> str:
    """Return the devices of views of one host in short: `devices 0-7`."""
    return f"devices {_ranges(sorted({view.member.device for view in views}))}"


def first_line(view: RankView) -> str:
    """Return the first line of a rank's error, without a full stop, so that a sentence can go on."""
    return view.error.strip().partition("\n")[0].rstrip(". ")[:200]


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def found_at(view: RankView, size: int = 0) -> str:
    """Return where a rank waited, or its current step: the stage after the last one that it completed.

    `size`: ranks of its group.
    """
    if view.stage == "closed":
        return "at its end"
    if view.stage in ("warm-up", "iteration"):
        return f"in {view.stage}"
    following = STAGES[STAGES.index(view.stage) + 1]
    count = f" {view.present}/{size}" if following == "peers" and view.present and size else ""
    return f"at {following}{count}"


def _by_place(seen: Observation, views: Iterable[RankView]) -> dict[str, list[RankView]]:
    by_place: dict[str, list[RankView]] = defaultdict(list)
    for view in views:
        by_place[found_at(view, len(seen.ranks))].append(view)
    return dict(sorted(by_place.items(), key=lambda item: -len(item[1])))


def waiting(seen: Observation, others: Sequence[RankView]) -> str:
    """Return `15 ranks waited at peers 15/16`, or nothing if no rank waited."""
    still_open = [view for view in others if view.end is not End.CLOSED]
    parts = [f"{len(views)} {_word(views)} waited {place}" for place, views in _by_place(seen, still_open).items()]
    return ", ".join(parts[:3])


def _word(views: Sequence[RankView]) -> str:
    return "rank" if len(views) == 1 else "ranks"


def evidence(cluster: Cluster, seen: Observation, named: Sequence[RankView]) -> Iterator[str]:
    """Yield the evidence, the most telling first: positions of ranks, addresses that they wait for, and logs."""
    for place, views in list(_by_place(seen, seen.ranks).items())[:4]:
        yield f"{place}: {places(views)}"
    missed_ranks = {rank for view in seen.ranks for rank in view.missing}
    absent_views = [view for view in seen.ranks if view.member.rank in missed_ranks and view.present is None]
    if {view.member for view in absent_views} - {view.member for view in named}:
        yield f"missing there: {places(absent_views)}"
    yield from (f"{view.member.place}: SIGKILL did not free the device" for view in named if view.held)
    yield from _addresses(cluster, seen, named)
    named_first = [*named, *(view for view in seen.ranks if view not in named)]
    errors = dict.fromkeys(first_line(view) for view in named_first if view.error)
    yield from list(errors)[:3]
    for view in [view for view in named_first if view.logs][:_RANKS]:
        yield from (f"{view.member.host}/{view.member.device} log: {line}" for line in view.logs)


def _addresses(cluster: Cluster, seen: Observation, named: Sequence[RankView]) -> Iterator[str]:
    """Yield the open connections, and the addresses where ranks at this stage are reached."""
    open_ = dict.fromkeys(place for view in [*named, *seen.ranks] for place in view.connecting)
    if open_:
        yield f"no answer from {', '.join(list(open_)[:4])} (TCP)"
    if seen.meeting is None:
        return
    stages = {view.stage for view in named}
    if stages & {"device", "store"}:
        yield f"they meet at {seen.meeting.place}"
    if stages & {"peers", "warm-up", "iteration"}:
        hosts = list(dict.fromkeys(view.member.host for view in [*named, *seen.ranks]))[:2]
        nics = [f"{host} {seen.meeting.nics[host]}" for host in hosts if host in seen.meeting.nics]
        if nics:
            yield f"host NICs: {', '.join(nics)}"
        if seen.meeting.backend == "hccl":
            planned_addresses = {
                (host.name, device.index): device.address for host in cluster.hosts for device in host.devices
            }
            addresses = [(view.member, planned_addresses.get((view.member.host, view.member.device))) for view in named]
            words = [f"{member.host}/{member.device} {address.ip}" for member, address in addresses[:4] if address]
            if words:
                yield f"device addresses: {', '.join(words)}, port 16666"
