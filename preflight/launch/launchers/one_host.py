"""What launchers have in common that are started on the first host alone, and reach the others by themselves."""

from preflight.launch.environment import variables
from preflight.launch.job import Job, Launcher, Variable
from preflight.model.errors import UsageError

_SSH = 22
TAKE_A_PORT = frozenset({Launcher.MPIRUN, Launcher.DEEPSPEED})  # an option for all hosts of `ssh_port`


def environment(job: Job) -> tuple[Variable, ...]:
    """The one environment of all ranks. Raises UsageError where no such is right on every host."""
    several = len(job.places) > 1
    around = job.cluster.probe.wrapper
    if around and several:
        raise UsageError(
            f"{job.launcher} would start the other hosts' ranks outside of {' '.join(around)} (exec of the inventory); "
            "start the job with torchrun or shell, on every host"
        )
    of_hosts = [variables(job, place) for place in job.places]
    for name, first in ((it.name, it.value) for it in of_hosts[0]):
        for place, told in zip(job.places, of_hosts, strict=True):
            value = next((it.value for it in told if it.name == name), "nothing")
            if value != first:
                raise UsageError(
                    f"{job.launcher} gives all ranks one environment, and {name} is {first} on {job.places[0].name}, "
                    f"{value} on {place.name}; start the job with torchrun or shell, or --limit it to hosts that agree"
                )
    return of_hosts[0]


def refuse_ipv6(job: Job) -> None:
    """Raises UsageError for hosts that a list of HOST:N cannot hold: the launchers cut it at the first colon."""
    if other := next((place for place in job.places if ":" in place.address), None):
        raise UsageError(
            f"{job.launcher} takes {other.address} of {other.name} for a host and a number, as it does with every IPv6 "
            "address; give the inventory names or IPv4 addresses, or start the job with torchrun or shell"
        )


def ssh_port(job: Job) -> int | None:
    """The port on which sshd of all hosts listens, where the inventory has one, and ssh has to be told."""
    ports = {job.planned[place.name].ssh.port for place in job.places}
    port = ports.pop() if len(ports) == 1 and len(job.places) > 1 else None
    return None if port == _SSH else port


def of_rank(job: Job, rank: str, local: str, size: str) -> tuple[str, ...]:
    """argv that gives a program its ranks under torch's names, taken from those of the launcher, in the jobs' place.

    `rank`, `local`, `size`: names of the launcher's variables.
    """
    # A line of its own: a setup may end in a comment, or in `&`.
    setup = f"{job.cluster.probe.setup}\n" if job.cluster.probe.setup else ""
    told = f'export RANK="${rank}"\nexport LOCAL_RANK="${local}"\nexport WORLD_SIZE="${size}"'
    return ("bash", "-c", f'{setup}{told}\nexec "$@"', "rank", *job.interpreter, *job.program)
