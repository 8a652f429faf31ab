"""`preflight exec`: usage of the command. What preflight says goes to stderr, since stdout is the job's."""

import argparse
import sys
from contextlib import redirect_stdout

from preflight.app.end import EndedRun
from preflight.app.jobs.exec import ExecOutput, choose_start, replace_process
from preflight.app.options import ExecOptions
from preflight.cli.options import run_options
from preflight.cli.output import present
from preflight.cli.report_options import refuse_unwritable
from preflight.model.errors import UsageError
from preflight.report.text import printable


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    args.program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not args.program or not args.program[0]:
        raise UsageError("say what is to be run: preflight exec -- torchrun train.py")
    if args.tool == "hccl-test":
        raise UsageError("HCCL Test goes by ssh, and exec by srun or mpirun; leave out --with")

    def show(ended: EndedRun) -> None:
        with redirect_stdout(sys.stderr):
            present(args, ended)

    start = choose_start(run_options(ExecOptions, args), ExecOutput(_say, show))
    if not isinstance(start, int):
        sys.stdout.flush()
        replace_process(start)
    return start


def _say(sentence: str) -> None:
    print(printable(f"preflight: {sentence}"), file=sys.stderr, flush=True)
