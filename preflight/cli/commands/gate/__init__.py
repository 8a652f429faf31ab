"""Decide whether a job may start on a host, from published results and a few quick checks.

  preflight gate --local                   # on a machine that has preflight
  preflight gate install -i hosts.toml     # program and policy to all hosts
  preflight check -i hosts.toml --publish  # results that the gate needs

The `check` and `probe` commands publish their results on each host. The hosts do not need preflight.
`gate install` writes one program, /usr/local/sbin/preflight-gate, which runs with the Python on
the hosts.

Exit codes of --local: 0 the job may start, 1 the host is broken, 2 wrong usage, 3 unknown with a
closed policy.
"""

import argparse
import subprocess
import sys

from preflight.model.errors import UsageError
from preflight.model.gate import Context

_ACTIONS = {
    "install": "install the gate's program and policy on the hosts",
    "manifest": "print a Kubernetes manifest that tests its pods before the job starts",
    "controller": "test a Slurm job's nodes before the job starts",
    "clear": "clear published failures of repaired hosts",
}
_OUTPUTS = ("text", "json", "nagios", "npd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--local", action="store_true", help="decide for this machine")
    contexts = [context.value for context in Context if context is not Context.CONTROLLER]
    parser.add_argument("--context", choices=contexts, help="caller of the gate (default: job)")
    parser.add_argument("-o", "--output", choices=_OUTPUTS, default="text", help="output format (default: text)")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, help_text in _ACTIONS.items():
        actions.add_parser(name, help=help_text, module=f"{__name__}.{name}")


def run(args: argparse.Namespace) -> int:
    if not args.local:
        raise UsageError(f"gate needs --local or an action: {', '.join(_ACTIONS)}. See: preflight gate --help")
    from preflight.transport.programs import source

    context = ["--context", args.context] if args.context else []
    # Run the program of the hosts, in an interpreter that finds none of our modules.
    done = subprocess.run([sys.executable, "-IS", "-", *context, "-o", args.output], input=source("gate").encode())
    return done.returncode if done.returncode >= 0 else 3  # killed by a signal: the answer is unknown
