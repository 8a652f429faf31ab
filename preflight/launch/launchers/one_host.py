"""Parts of the launchers that run on the first host alone, and reach the others by themselves."""

from preflight.launch.environment import variables
from preflight.launch.job import HostLaunch, JobLauncher, LaunchedJob, LaunchFile, RankProcess, Variable
from preflight.launch.words import folded
from preflight.model.errors import UsageError

_SSH = 22
TAKE_A_PORT = frozenset({JobLauncher.MPIRUN, JobLauncher.DEEPSPEED})  # an option for all hosts of `ssh_port`


def environment(job: LaunchedJob) -> tuple[Variable, ...]:
    """Return the one environment of all ranks. Raises UsageError where none is right on every host."""
    wrapper = job.cluster.probe.wrapper
    if wrapper and len(job.places) > 1:
        raise UsageError(
            f"{job.launcher} would start the other hosts' ranks outside of {' '.join(wrapper)} "
            "(exec in the inventory). Start the job on every host with torchrun or shell"
        )
    first, *further = (variables(job, place) for place in job.places)
    for name, expected in ((variable.name, variable.value) for variable in first):
        for place, host_variables in zip(job.places[1:], further, strict=True):
            value = next((variable.value for variable in host_variables if variable.name == name), "nothing")
            if value != expected:
                raise UsageError(
                    f"{job.launcher} gives all ranks the same environment, but {name} is {expected} on "
                    f"{job.places[0].name} and {value} on {place.name}. Start the job with torchrun or shell, or "
                    "select hosts that agree with --limit"
                )
    return first


def on_first_host(
    job: LaunchedJob, exported: tuple[Variable, ...], groups: list[tuple[str, ...]], files: tuple[LaunchFile, ...] = ()
) -> HostLaunch:
    """Return a command of these groups of words, which starts all ranks from the first host."""
    process = RankProcess(tuple(word for group in groups for word in group))
    return HostLaunch(job.places[0].name, exported, folded(*groups), (process,), files)


def refuse_ipv6(job: LaunchedJob) -> None:
    """Raise UsageError for hosts that a list of HOST:N cannot hold: the launchers cut it at the first colon."""
    if host := next((place for place in job.places if ":" in place.address), None):
        raise UsageError(
            f"{job.launcher} does not support IPv6 addresses such as {host.address} of {host.name}. Use names or IPv4 "
            "addresses in the inventory, or start the job with torchrun or shell"
        )


def ssh_port(job: LaunchedJob) -> int | None:
    """Return the one port of all hosts' sshd, where ssh needs an option for it."""
    ports = {job.planned[place.name].ssh.port for place in job.places}
    port = ports.pop() if len(ports) == 1 and len(job.places) > 1 else None
    return None if port == _SSH else port


def of_rank(job: LaunchedJob, rank: str, local: str, size: str) -> tuple[str, ...]:
    """Return argv that gives a program its ranks under torch's names.

    `rank`, `local` and `size` are the launcher's names for them.
    """
    # On a separate line, since a setup may end in a comment, or in `&`.
    setup = f"{job.cluster.probe.setup}\n" if job.cluster.probe.setup else ""
    exports = f'export RANK="${rank}"\nexport LOCAL_RANK="${local}"\nexport WORLD_SIZE="${size}"'
    return ("bash", "-c", f'{setup}{exports}\nexec "$@"', "rank", *job.interpreter, *job.program)
