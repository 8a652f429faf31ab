"""`preflight probe`: its report."""

import argparse
from datetime import UTC, datetime

from preflight.app.options import ProbeOptions
from preflight.app.probing.probe import probe, probe_session
from preflight.app.probing.probe_pods import probe_in_pod
from preflight.cli.options import run_options
from preflight.cli.output import present
from preflight.cli.report_options import refuse_unwritable


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    started, options = datetime.now(UTC), run_options(ProbeOptions, args)
    with probe_session(options) as s:
        if options.via == "pods":
            return probe_in_pod(options, s, lambda ended: present(args, ended))
        return present(args, probe(options, s, started))
