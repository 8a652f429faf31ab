"""Clear the failures that check and probe have published on hosts.

  preflight gate clear -i hosts.toml --limit node02

A published failure closes its host until a newer run is published there, or until this. What passed stays. Whether the
host is healthy is then unknown until the next preflight check --publish. Exit codes: 0 cleared, 1 a host did not take
it.
"""

import argparse

from preflight.app.session import add_inventory_arguments, session
from preflight.model.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.gate.publish import clear
    from preflight.inventory import fold

    if not args.limit:
        raise UsageError("name the hosts that are fixed: --limit node02")
    with session(args) as s:
        answers = clear(s.cluster, s.hosts, s.transport, pool=args.pool, progress=s.progress)
        s.progress.clear()
    errors = {name: answer.error for name, answer in answers.items()}
    for error in sorted(set(errors.values())):
        names = fold(name for name, host_error in errors.items() if host_error == error)
        print(f"not cleared on {names}: {error}" if error else f"cleared on {names}")
    print("next: preflight check --publish")
    return int(any(errors.values()))
