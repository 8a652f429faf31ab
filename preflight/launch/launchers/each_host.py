"""Parts of the launchers that are started on each host with its node rank."""

from collections.abc import Callable

from preflight.launch.environment import variables
from preflight.launch.job import HostLaunch, JobHost, LaunchedJob, RankProcess, Variable
from preflight.launch.words import NODE_RANK, folded

_Groups = Callable[[LaunchedJob, JobHost, str], list[tuple[str, ...]]]


def on_each_host(job: LaunchedJob, groups: _Groups) -> tuple[HostLaunch, ...]:
    """Return a command for each host. `groups` returns its words for a host and its node rank."""
    return tuple(_launch(job, place, number, groups) for number, place in enumerate(job.places))


def _launch(job: LaunchedJob, place: JobHost, number: int, groups: _Groups) -> HostLaunch:
    node_rank = Variable("NODE_RANK", str(number), "the number of this host, counted from 0")
    exact = tuple(word for group in groups(job, place, str(number)) for word in group)
    exported = (node_rank, *variables(job, place))
    return HostLaunch(place.name, exported, folded(*groups(job, place, NODE_RANK)), (RankProcess(exact),))
