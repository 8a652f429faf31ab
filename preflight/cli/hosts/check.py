"""`preflight check`: its report."""

import argparse
from datetime import UTC, datetime

from preflight.app.check import check_hosts, check_kinds, check_saved
from preflight.app.end import EndedRun
from preflight.app.hosts_alone import cluster_of
from preflight.app.run_options import CheckOptions
from preflight.cli.json_lines import stream_of
from preflight.cli.options import run_options
from preflight.cli.output import present
from preflight.model.cluster import Cluster


def check(args: argparse.Namespace, cluster: Cluster | None) -> int:
    """Check hosts or saved facts, show the report, and return the exit code. `cluster` is that of the inventory."""
    args.stream = stream_of(args)
    return present(args, _check(args, run_options(CheckOptions, args), cluster))


def _check(args: argparse.Namespace, options: CheckOptions, cluster: Cluster | None) -> EndedRun:
    if args.source:
        from preflight.app.saved.load_saved import load_saved  # few runs read a file, and it takes a while to load

        started = datetime.now(UTC)
        return check_saved(options, load_saved(args.source, args.inventory, args.limit), args.source, started)
    if options.hosts is not None:
        cluster = cluster_of(options.hosts)
    return check_kinds(options, args.also) if args.also else check_hosts(options, cluster)
