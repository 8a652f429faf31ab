"""`preflight gate clear`: published failures, cleared on hosts."""

import argparse

from preflight.app.session import session
from preflight.cli.options import host_options
from preflight.gate.publish import clear
from preflight.inventory import fold
from preflight.model.errors import UsageError
from preflight.provision.apply import Way


def run(args: argparse.Namespace) -> int:
    if not args.limit:
        raise UsageError("gate clear needs the repaired hosts, such as --limit node02")
    with session(host_options(args)) as s:
        answers = clear(s.cluster, Way(s.hosts, s.transport, args.pool, s.progress))
        s.progress.clear()
    errors = {name: answer.error for name, answer in answers.items()}
    for error in sorted(set(errors.values())):
        names = fold(name for name, host_error in errors.items() if host_error == error)
        print(f"not cleared on {names}: {error}" if error else f"cleared on {names}")
    print("next: preflight check --publish")
    return int(any(errors.values()))
