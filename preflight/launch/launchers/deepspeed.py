"""DeepSpeed's runner: on the first host, which reaches the others by pdsh or ssh.

It passes on few variables by itself; the others stand in the file that DS_ENV_FILE names
(deepspeed/launcher/runner.py).
Printed as documented; never run by us.
"""

from preflight.launch.job import File, HostLaunch, Job, Process, Variable
from preflight.launch.launchers.one_host import environment, refuse_ipv6, ssh_port
from preflight.launch.words import folded
from preflight.model.errors import UsageError

_HOSTS, _ENVIRONMENT = "hostfile.deepspeed", "env.deepspeed"


def launches(job: Job) -> tuple[HostLaunch, ...]:
    """Raises UsageError for a program that is no Python file, and where hosts have addresses of IPv6."""
    if not job.is_python:
        raise UsageError(f"deepspeed starts Python files, and {job.program[0]} is none; take torchrun or shell")
    refuse_ipv6(job)
    told = environment(job)
    hosts = "".join(f"{place.address} slots={max(place.devices) + 1}\n" for place in job.places)
    passed = "".join(f"{it.name}={it.value}\n" for it in told)
    # Without a filter a host's first devices are taken, as many as it has slots. A filter of 4,000 hosts would be
    # longer than Linux lets an argument be.
    first = all(place.devices == tuple(range(len(place.devices))) for place in job.places)
    included = "@".join(f"{place.address}:{','.join(map(str, place.devices))}" for place in job.places)
    module = ("--module", *job.program[1:]) if job.program[0] == "-m" else job.program
    port = ssh_port(job)
    groups = [
        (job.cluster.probe.python, "-m", "deepspeed.launcher.runner", "--hostfile", _HOSTS),
        () if first else ("--include", included),
        ("--ssh_port", str(port)) if port else (),
        ("--master_addr", job.master, "--master_port", str(job.port)),
        module,
    ]
    argv = tuple(word for group in groups for word in group)
    own = Variable("DS_ENV_FILE", _ENVIRONMENT, "the variables that ranks on the other hosts get")
    files = (File(_HOSTS, hosts), File(_ENVIRONMENT, passed))
    return (HostLaunch(job.places[0].name, (own, *told), folded(*groups), (Process(argv),), files),)
