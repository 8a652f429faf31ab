"""`preflight exec`: reports and messages. What preflight says goes to stderr, since stdout is the job's."""

import argparse
import sys
from contextlib import redirect_stdout

from preflight.app.end import EndedRun
from preflight.app.jobs.exec import ExecOutput, choose_start, replace_process
from preflight.app.run_options import ExecOptions
from preflight.cli.options import run_options
from preflight.cli.output import present
from preflight.model.cluster import Cluster
from preflight.model.text import printable


def start_job(args: argparse.Namespace, cluster: Cluster | None) -> int:
    """Start the job in place of this process. Return the exit code if nothing is started.

    `cluster` is that of the inventory; None without one.
    """

    def show(ended: EndedRun) -> None:
        with redirect_stdout(sys.stderr):
            present(args, ended)

    start = choose_start(run_options(ExecOptions, args), cluster, ExecOutput(_say, show))
    if not isinstance(start, int):
        sys.stdout.flush()
        replace_process(start)
    return start


def _say(sentence: str) -> None:
    print(printable(f"preflight: {sentence}"), file=sys.stderr, flush=True)
