"""Print the gate's lines for slurm.conf, or check an existing slurm.conf.

  preflight gate install slurm                               # the lines
  preflight gate install slurm --conf /etc/slurm/slurm.conf  # its errors

No file is changed. Exit codes of --conf: 0 no error, 1 a line would open the gate or drain good
nodes, 2 the file is not readable. The check searches for programs on this machine, so run it both
where slurmd runs and where slurmctld runs. After a change of PrologSlurmctld, restart slurmctld.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from preflight.bounded_file import read_bounded
from preflight.gate import slurm_conf, slurm_running
from preflight.model.errors import UsageError

_LARGEST = 8 << 20  # bytes of a file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conf", type=Path, metavar="FILE", help="slurm.conf to check, with all files that it includes"
    )


def run(args: argparse.Namespace) -> int:
    if args.conf is None:
        print(slurm_conf.LINES + slurm_conf.CONTROLLER_LINES + slurm_conf.EXPIRY_LINES, end="")
        return 0
    text = _here.text(str(args.conf))
    if text is None:
        raise UsageError(f"{args.conf}: no such file. To find slurm.conf: scontrol show config")
    problems = slurm_conf.problems(str(args.conf), text, _here)
    for problem in problems:
        print(f"{'wrong' if problem.severe else 'note'}: {problem}")
    if not problems:
        print(f"{args.conf}: the gate is configured correctly")
    confs = slurm_conf.calls_controller(str(args.conf), text, _here)
    called = _called(confs) if confs else True
    return int(any(problem.severe for problem in problems) or not called)


def _called(confs: Sequence[str]) -> bool:
    """Return whether the running slurmctld calls the gate; true if none runs here."""
    controller = slurm_running.running(confs)
    if controller is None:
        print("note: no slurmctld runs here. Run this on the controller to check that it calls PrologSlurmctld.")
        return True
    called, sentence = slurm_running.told(controller)
    print(sentence if called else f"wrong: {sentence}")
    return called


class _Here:
    """Files of this machine, as preflight.gate.slurm_conf.Files."""

    def text(self, path: str) -> str | None:
        try:
            return read_bounded(Path(path), _LARGEST, pipes=True).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None

    def why_not_run(self, path: str) -> str:
        if not path.startswith("/"):
            return "is not an absolute path"
        if not Path(path).is_file():
            return "does not exist"
        if not os.access(path, os.X_OK):
            return "is not executable"
        with Path(path).open("rb") as file:
            first = file.readline(256).decode("utf-8", "replace").split()
        program = first[0].removeprefix("#!") if first and first[0].startswith("#!") else ""
        return f"starts with #!{program}, which does not exist" if program and not Path(program).is_file() else ""


_here = _Here()
