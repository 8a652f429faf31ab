"""What is started on the hosts, as JSON (docs/contracts.md). Pure."""

import json
from collections.abc import Sequence

from preflight.launch.job import HostLaunch, Job


def document(job: Job, launches: Sequence[HostLaunch], notes: Sequence[str]) -> str:
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
                    "environment": {it.name: it.value for it in launch.variables},
                    "files": {it.name: it.text for it in launch.files},
                    "processes": [
                        {"environment": dict(it.variables), "argv": list(it.argv)} for it in launch.processes
                    ],
                }
                for launch in launches
            ],
            "notes": list(notes),
        },
        indent=1,
    )
