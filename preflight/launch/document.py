"""The commands of a job on its hosts, as JSON (docs/contracts.md). Pure."""

import json
from collections.abc import Sequence

from preflight.launch.job import HostLaunch, LaunchedJob


def document(job: LaunchedJob, launches: Sequence[HostLaunch], notes: Sequence[str]) -> str:
    probe = job.cluster.probe
    return json.dumps(
        {
            "schema": "preflight.launch/1",
            "launcher": job.launcher,
            "world_size": job.size,
            "master": {"address": job.master, "port": job.port},
            "hosts": [place.name for place in job.places],
            "setup": probe.setup,
            "exec": list(probe.wrapper),
            "user": probe.user,
            "start": [
                {
                    "host": launch.host,
                    "environment": {variable.name: variable.value for variable in launch.variables},
                    "files": {file.name: file.text for file in launch.files},
                    "processes": [
                        {"environment": dict(process.variables), "argv": list(process.argv)}
                        for process in launch.processes
                    ],
                }
                for launch in launches
            ],
            "notes": list(notes),
        },
        indent=1,
    )
