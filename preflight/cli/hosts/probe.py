"""`preflight probe`: its report."""

import argparse
from datetime import datetime

from preflight.app.probing.probe import probe, probe_session
from preflight.app.probing.probe_pods import probe_in_pod
from preflight.app.run_options import ProbeOptions
from preflight.cli.json_lines import stream_of
from preflight.cli.options import run_options
from preflight.cli.output import present
from preflight.model.cluster import Cluster


def probe_hosts(args: argparse.Namespace, cluster: Cluster, started: datetime) -> int:
    """Probe the hosts, show the report, and return the exit code."""
    args.stream = stream_of(args)
    options = run_options(ProbeOptions, args)
    with probe_session(options, cluster) as s:
        if options.via == "pods":
            return probe_in_pod(options, s, lambda ended: present(args, ended))
        return present(args, probe(options, s, started))
