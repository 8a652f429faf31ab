"""Sessions with hosts: an inventory's cluster, the hosts of a command, and their transport."""

import argparse
import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import NamedTuple

from preflight.app.progress_line import ProgressLine
from preflight.inventory import limit, load
from preflight.model.cluster import Cluster, Host, Product, Ssh
from preflight.model.errors import UsageError
from preflight.model.ports import PortSet
from preflight.transport import open_transport
from preflight.transport.password import Password
from preflight.transport.types import Options, Transport


def _options(args: argparse.Namespace, cluster: Cluster, hosts: Sequence[Host]) -> Options:
    password = _sudo_password(cluster, hosts) if args.ask_sudo_password else None
    return Options(accept_new=args.accept_new, pool=args.pool, sudo_password=password)


def wants_password(cluster: Cluster, hosts: Sequence[Host]) -> bool:
    """Return whether any host is reached with sudo, which may ask for a password."""
    return bool(cluster.probe.user or any(host.ssh.sudo for host in hosts))


def _sudo_password(cluster: Cluster, hosts: Sequence[Host]) -> Password:
    """Ask for the sudo password on the terminal, wherever stdin and stdout lead. Raise UsageError if that fails."""
    if not wants_password(cluster, hosts):
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


class Session(NamedTuple):
    """A command's cluster, the hosts it is limited to, and their transport."""

    cluster: Cluster
    hosts: tuple[Host, ...]
    transport: Transport
    progress: ProgressLine


@contextmanager
def session(args: argparse.Namespace, cluster: Cluster | None = None) -> Iterator[Session]:
    """Read the inventory, unless `cluster` is given, open the transport, and close it afterwards.

    Raise UsageError for a bad inventory before any host is contacted.
    """
    cluster = cluster or load(args.inventory)
    hosts = cluster.hosts if args.limit is None else limit(cluster, args.limit)
    options = _options(args, cluster, hosts)
    progress = ProgressLine()
    progress.say(f"on the way to the hosts of {args.inventory}: {len(hosts)}")  # the transport's libraries load slowly
    transport = open_transport(cluster, options)
    try:
        yield Session(cluster, hosts, transport, progress)
    finally:
        progress.clear()
        transport.close()


def _local_product() -> Product:
    """Return the most likely product of this machine.

    Ascend generations are not distinguished, since their facts are read alike.
    """
    vendor = Path("/usr/local/Ascend/driver/tools/hccn_tool")
    if which("hccn_tool") or which("npu-smi") or vendor.exists():
        return Product.ATLAS_A2
    return Product.NVIDIA if which("nvidia-smi") else Product.CPU


@contextmanager
def this_machine() -> Iterator[Session]:
    """Open a session with this machine alone, without an inventory."""
    host = Host("localhost", "localhost", Ssh(transport="local"))
    cluster = Cluster("this machine", _local_product(), (host,), hccl_ports=PortSet.parse("60000-60031"))  # the default
    progress = ProgressLine()
    transport = open_transport(cluster, Options())
    try:
        yield Session(cluster, cluster.hosts, transport, progress)
    finally:
        progress.clear()
        transport.close()
