"""What the commands that go to hosts share: the inventory's options, the way in, and one line of progress."""

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from preflight.model.cluster import Cluster, Host
from preflight.transport.types import Options, Progress, Transport

MOST_AT_ONCE = 64  # hosts; paramiko does not get faster beyond


def add_inventory_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i", "--inventory", type=Path, default=Path("hosts.toml"), metavar="FILE", help="default: hosts.toml"
    )
    parser.add_argument("--limit", metavar="HOSTS", help="only these hosts, such as node[01-04],node09")
    parser.add_argument(
        "--accept-new", action="store_true", help="trust host keys seen for the first time (a changed key is refused)"
    )
    parser.add_argument("--pool", type=_pool, default=32, metavar="N", help="hosts worked on at once (default: 32)")


def _pool(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MOST_AT_ONCE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_AT_ONCE}")
    return int(text)


def options(args: argparse.Namespace) -> Options:
    return Options(accept_new=args.accept_new, pool=args.pool)


class ProgressLine:
    """One line on stderr that names the host being waited for; silent where stderr is not a terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        line = f"{progress.phase or 'hosts'} {progress.done}/{progress.total}"
        if progress.failed:
            line += f"  failed {progress.failed}"
        if progress.slowest:
            line += f"  waiting for {progress.slowest} ({progress.seconds:.0f} s)"
        self.say(line)

    def say(self, text: str) -> None:
        """Replace the line; an empty text clears it."""
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{text[:width]}")
            sys.stderr.flush()

    def clear(self) -> None:
        self.say("")


class Session(NamedTuple):
    """A command's cluster, the hosts it is limited to, and the way to them."""

    cluster: Cluster
    hosts: tuple[Host, ...]
    transport: Transport
    progress: ProgressLine


@contextmanager
def session(args: argparse.Namespace) -> Iterator[Session]:
    """Read the inventory (UsageError before anything is contacted) and open the transport; both are closed after."""
    from preflight.inventory import limit, load
    from preflight.transport import open_transport

    cluster = load(args.inventory)
    hosts = limit(cluster, args.limit) if args.limit else cluster.hosts
    progress = ProgressLine()
    transport = open_transport(cluster, options(args))
    try:
        yield Session(cluster, hosts, transport, progress)
    finally:
        progress.clear()
        transport.close()
