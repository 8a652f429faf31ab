"""The command that installs Python packages where jobs run."""

import shlex
from collections.abc import Sequence

from preflight.checks.engine.registry import Scribe


def pip_install(scribe: Scribe, host: str, packages: Sequence[str]) -> tuple[str, ...]:
    """Return the command that installs packages in the jobs' Python on a host; none without packages."""
    if not packages:
        return ()
    probe = scribe.cluster.probe
    command = (probe.python, "-m", "pip", "install", *packages)
    if probe.setup:
        command = ("bash", "-c", f"{probe.setup} && {shlex.join(command)}")
    return (scribe.on(host, shlex.join((*probe.wrapper, *command))),)
