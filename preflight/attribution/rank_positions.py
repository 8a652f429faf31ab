"""Ranks of a test in words: the stage they reached, and the ranks they waited for. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from preflight.model.cluster import Cluster
from preflight.model.measure import STAGES, End, Meeting, Observation, RankView
from preflight.model.number_ranges import number_ranges

_STATES = {"T": ": stopped", "D": ": waits in the kernel", "Z": ": zombie"}  # of a process, as in /proc/PID/stat
_ACTIVITIES = {  # of a rank, by the last stage that it reported
    "none": "while starting",
    "spawned": "while starting Python",
    "python": "while importing torch",
    "torch": "while loading the backend",
    "backend": "while opening the device",
    "device": "while connecting to the rendezvous store",
    "store": "while joining the other ranks",
    "peers": "while creating the communicator",
    "communicator": "before its next test",
    "warm-up": "during the warm-up of a test",
    "iteration": "during a test",
    "values": "while closing the communicator",
    "closed": "while exiting",
}
_HOSTS = 6  # hosts shown in one line
_RANKS = 3  # ranks with logs that are shown


def places(views: Iterable[RankView]) -> str:
    """Return the devices of views in short: `node01/0-7, node02/0,3`."""
    devices: dict[str, list[int]] = defaultdict(list)
    for view in views:
        devices[view.member.host].append(view.member.device)
    words = [f"{host}/{number_ranges(sorted(set(numbers)))}" for host, numbers in devices.items()]
    return ", ".join(words[:_HOSTS]) + (f" and {len(words) - _HOSTS} more hosts" if len(words) > _HOSTS else "")


def device_ranges(views: Sequence[RankView]) -> str:
    """Return the devices of views of one host in short: `devices 0-7`."""
    return f"devices {number_ranges(sorted({view.member.device for view in views}))}"


def activity(stage: str, state: str = "") -> str:
    """Return `while creating the communicator (last stage: peers)`. `state`: of its process, if that tells more."""
    details = [] if stage == "none" else [f"last stage: {stage}"]
    details += [f"process state {state}{_STATES.get(state, '')}"] if state else []
    return _ACTIVITIES[stage] + (f" ({', '.join(details)})" if details else "")


def first_line(view: RankView) -> str:
    """Return the first line of a rank's error, without a full stop, so that a sentence can go on."""
    return view.error.strip().partition("\n")[0].rstrip(". ")[:200]


def found_at(view: RankView, size: int = 0, noun: str = "stage ") -> str:
    """Return where a rank waited, or its current step: the stage after the last one that it completed.

    `size`: ranks of its group. `noun`: the word before the name of the stage.
    """
    if view.stage == "closed":
        return "at its end"
    if view.stage in ("warm-up", "iteration"):
        return f"in {noun}{view.stage}"
    following = STAGES[STAGES.index(view.stage) + 1]
    count = f" ({view.present} of {size} ranks present)" if following == "peers" and view.present and size else ""
    return f"at {noun}{following}{count}"


def _by_place(observation: Observation, views: Iterable[RankView]) -> dict[str, list[RankView]]:
    by_place: dict[str, list[RankView]] = defaultdict(list)
    for view in views:
        by_place[found_at(view, len(observation.ranks))].append(view)
    return dict(sorted(by_place.items(), key=lambda item: -len(item[1])))


def waiting(observation: Observation, views: Sequence[RankView]) -> str:
    """Return `15 other ranks waited at stage peers (15 of 16 ranks present)`, or nothing if no rank waited."""
    still_open = _by_place(observation, (view for view in views if view.end is not End.CLOSED))
    parts = [f"{len(ranks)} other {_noun(ranks)} waited {place}" for place, ranks in still_open.items()]
    return ", ".join(parts[:3])


def _noun(views: Sequence[RankView]) -> str:
    return "rank" if len(views) == 1 else "ranks"


def evidence(cluster: Cluster, observation: Observation, culprits: Sequence[RankView]) -> Iterator[str]:
    """Yield the evidence, the most telling first: positions of ranks, addresses that they wait for, and logs."""
    for place, views in list(_by_place(observation, observation.ranks).items())[:4]:
        yield f"ranks {place}: {places(views)}"
    yield from _missing_ranks(observation, culprits)
    yield from (f"{view.member.place}: SIGKILL did not free the device" for view in culprits if view.held)
    yield from _addresses(cluster, observation, culprits)
    culprits_first = [*culprits, *(view for view in observation.ranks if view not in culprits)]
    errors = dict.fromkeys(first_line(view) for view in culprits_first if view.error)
    yield from list(errors)[:3]
    yield from _logs(culprits_first)


def _missing_ranks(observation: Observation, culprits: Iterable[RankView]) -> Iterator[str]:
    """Yield the ranks that others missed, if they are not just the culprits."""
    missed_ranks = {rank for view in observation.ranks for rank in view.missing}
    absent_views = [view for view in observation.ranks if view.member.rank in missed_ranks and view.present is None]
    if {view.member for view in absent_views} - {view.member for view in culprits}:
        yield f"missing ranks: {places(absent_views)}"


def _logs(views: Iterable[RankView]) -> Iterator[str]:
    for view in [view for view in views if view.logs][:_RANKS]:
        yield from (f"{view.member.host}/{view.member.device} log: {line}" for line in view.logs)


def _addresses(cluster: Cluster, observation: Observation, culprits: Sequence[RankView]) -> Iterator[str]:
    """Yield the open connections, and the addresses where ranks at this stage are reached."""
    views = [*culprits, *observation.ranks]
    meeting = observation.meeting
    connecting = dict.fromkeys(place for view in views for place in view.connecting)
    if connecting:
        yield f"no answer from {', '.join(list(connecting)[:4])} (TCP)"
    if meeting is None:
        return
    stages = {view.stage for view in culprits}
    if stages & {"device", "store"}:
        yield f"rendezvous: {meeting.place}"
    if stages & {"peers", "warm-up", "iteration"}:
        yield from _host_nics(meeting, views)
        if meeting.backend == "hccl":
            yield from _device_addresses(cluster, culprits)


def _host_nics(meeting: Meeting, views: Iterable[RankView]) -> Iterator[str]:
    hosts = list(dict.fromkeys(view.member.host for view in views))[:2]
    nics = [f"{host} {meeting.nics[host]}" for host in hosts if host in meeting.nics]
    if nics:
        yield f"host NICs: {', '.join(nics)}"


def _device_addresses(cluster: Cluster, views: Sequence[RankView]) -> Iterator[str]:
    planned = {
        (host.name, device.index): device.address.ip
        for host in cluster.hosts
        for device in host.devices
        if device.address
    }
    ends = [(view.member.host, view.member.device) for view in views[:4]]
    words = [f"{host}/{device} {planned[host, device]}" for host, device in ends if (host, device) in planned]
    if words:
        yield f"device addresses: {', '.join(words)}, port 16666"
