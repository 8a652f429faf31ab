"""The gate: may a job start on this machine? Answered from the verdict that check and probe have left there, and from
what can be looked at in no time.

  preflight gate --local                   # on a machine that has preflight
  preflight gate install -i hosts.toml     # program and policy to every host
  preflight check -i hosts.toml --publish  # … and what it answers from

Hosts need no preflight: what install brings is one file for the Python that they have, /usr/local/sbin/preflight-gate.
Exit codes of --local: 0 the job may run, 1 the host is broken, 3 nobody knows and the policy says closed, 2 wrong
usage.
"""

import argparse
import subprocess
import sys

from preflight.model.errors import UsageError
from preflight.model.gate import Context

_ACTIONS = {
    "install": "bring the gate's program and policy to the hosts",
    "manifest": "Kubernetes manifests that run the gate before a job",
    "controller": "Slurm's PrologSlurmctld: prove a job's nodes before it starts",
    "clear": "clear published failures of fixed hosts",
}
_OUTPUTS = ("text", "json", "nagios", "npd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--local", action="store_true", help="may a job start on this machine?")
    contexts = [context.value for context in Context if context is not Context.CONTROLLER]
    parser.add_argument("--context", choices=contexts, help="who asks (default: job)")
    parser.add_argument("-o", "--output", choices=_OUTPUTS, default="text")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, help_text in _ACTIONS.items():
        actions.add_parser(name, help=help_text, module=f"{__name__}.{name}")


def run(args: argparse.Namespace) -> int:
    if not args.local:
        raise UsageError(f"say --local, or one of: {', '.join(_ACTIONS)}; see preflight gate --help")
    from preflight.transport.programs import source

    context = ["--context", args.context] if args.context else []
    # Run the program of the hosts, in an interpreter that finds none of our modules.
    done = subprocess.run([sys.executable, "-IS", "-", *context, "-o", args.output], input=source("gate").encode())
    return done.returncode if done.returncode >= 0 else 3  # killed by a signal: the answer is unknown
