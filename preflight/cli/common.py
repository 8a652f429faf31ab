"""What the commands that go to hosts share: the inventory's options, the way in, and one line of progress."""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError
from preflight.transport.password import Password
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
    parser.add_argument(
        "-K",
        "--ask-sudo-password",
        action="store_true",
        help="ask for the password that sudo wants on hosts with sudo = true; once, and it is kept nowhere",
    )
    parser.add_argument("--pool", type=_pool, default=32, metavar="N", help="hosts worked on at once (default: 32)")


def add_basic_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--basic", action="store_true", help="look at what a first look needs, and no deeper: seconds instead of 20"
    )


def again(args: argparse.Namespace) -> str:
    """This very command, without what keeps it from changing anything."""
    words = [word for word in args.argv if word not in ("--dry-run", "--exit-code")]
    return shlex.join(["preflight", *words])


def _pool(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MOST_AT_ONCE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_AT_ONCE}")
    return int(text)


def _options(args: argparse.Namespace, cluster: Cluster, hosts: Sequence[Host]) -> Options:
    password = _sudo_password(cluster, hosts) if args.ask_sudo_password else None
    return Options(accept_new=args.accept_new, pool=args.pool, sudo_password=password)


def _sudo_password(cluster: Cluster, hosts: Sequence[Host]) -> Password:
    """Asked on the terminal, whatever stdin and stdout are. Raises UsageError where that does not lead to one."""
    import getpass

    if not (cluster.probe.user or any(host.ssh.sudo for host in hosts)):
        raise UsageError("-K: no host asked for is reached with sudo = true under [ssh], so no password is wanted")
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        raise UsageError(
            "-K: there is no terminal to ask for the sudo password on; let sudo do without one (NOPASSWD), or run this "
            "in a terminal"
        ) from None
    try:
        text = getpass.getpass("sudo password on the hosts: ")
    except EOFError:
        text = ""
    if not text:
        raise UsageError("-K: no password was typed")
    return Password(text)


class ProgressLine:
    """One line on stderr that names the host being waited for; silent where stderr is not a terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        line = f"{progress.phase or 'hosts'} {progress.done}/{progress.total}"
        if progress.failed:
            line += f"  failed {progress.failed}"
        if progress.slowest:
            line += f"  {progress.slowest} waits"
            line += f" for {progress.waiting_for}" if progress.waiting_for else ""
            line += f" ({progress.seconds:.0f} s)"
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
def session(args: argparse.Namespace, cluster: Cluster | None = None) -> Iterator[Session]:
    """Read the inventory, unless `cluster` stands for one (UsageError before anything is contacted), and open the
    transport, which is closed after."""
    from preflight.inventory import limit, load
    from preflight.transport import open_transport

    cluster = cluster or load(args.inventory)
    hosts = limit(cluster, args.limit) if args.limit else cluster.hosts
    progress = ProgressLine()
    transport = open_transport(cluster, _options(args, cluster, hosts))
    try:
        yield Session(cluster, hosts, transport, progress)
    finally:
        progress.clear()
        transport.close()
