"""DeepSpeed's runner: on the first host, which reaches the others by pdsh or ssh.

It passes on few variables by itself, and the others from the file of DS_ENV_FILE (deepspeed/launcher/runner.py). Its
commands follow its documents, and were never run by us.
"""

from preflight.launch.job import HostLaunch, LaunchedJob, LaunchFile, Variable
from preflight.launch.launchers.one_host import environment, on_first_host, refuse_ipv6, ssh_port
from preflight.model.errors import UsageError

_HOSTS, _ENVIRONMENT = "hostfile.deepspeed", "env.deepspeed"


def launches(job: LaunchedJob) -> tuple[HostLaunch, ...]:
    """Return the launch of deepspeed. Raises UsageError for a program that is no Python file, and for IPv6 addresses of
    hosts."""
    if not job.is_python:
        raise UsageError(f"deepspeed starts only Python files, not {job.program[0]}. Use torchrun or shell")
    refuse_ipv6(job)
    variables = environment(job)
    hosts = "".join(f"{place.address} slots={max(place.devices) + 1}\n" for place in job.places)
    passed = "".join(f"{variable.name}={variable.value}\n" for variable in variables)
    module = ("--module", *job.program[1:]) if job.program[0] == "-m" else job.program
    port = ssh_port(job)
    groups = [
        (job.cluster.probe.python, "-m", "deepspeed.launcher.runner", "--hostfile", _HOSTS),
        _filter(job),
        ("--ssh_port", str(port)) if port else (),
        ("--master_addr", job.master, "--master_port", str(job.port)),
        module,
    ]
    own = Variable("DS_ENV_FILE", _ENVIRONMENT, "the file with the variables for ranks on the other hosts")
    files = (LaunchFile(_HOSTS, hosts), LaunchFile(_ENVIRONMENT, passed))
    return (on_first_host(job, (own, *variables), groups, files),)


def _filter(job: LaunchedJob) -> tuple[str, ...]:
    """Return the option for the devices of each host, if they are not its first ones.

    Without it, a host's first devices are taken, as many as it has slots. With it, the command for 4,000 hosts would be
    longer than Linux lets an argument be.
    """
    if all(place.devices == tuple(range(len(place.devices))) for place in job.places):
        return ()
    return ("--include", "@".join(f"{place.address}:{','.join(map(str, place.devices))}" for place in job.places))
