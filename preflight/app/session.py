"""Options, sessions and progress line, shared by the commands that contact hosts."""

import argparse
import os
import shlex
import shutil
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from preflight.app.timeline import Timeline
from preflight.model.cluster import Cluster, Host, Product, Ssh
from preflight.model.errors import PreflightError, UsageError
from preflight.model.ports import PortSet
from preflight.model.product_names import not_known
from preflight.report.console import is_dumb
from preflight.transport.password import Password
from preflight.transport.types import Options, Progress, Transport

DEFAULT_INVENTORY = Path("hosts.toml")
_MOST_DEVICES = 64  # on one host
MOST_AT_ONCE = 64  # hosts; paramiko does not get faster with more


def add_inventory_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i", "--inventory", type=Path, default=DEFAULT_INVENTORY, metavar="FILE", help="default: hosts.toml"
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


def product_name(text: str) -> str:
    """Return the product's name as inventories spell it. An empty name, the option's default, stays empty.

    Raise ArgumentTypeError, with the closest name, for an unknown one.
    """
    if text and text not in tuple(Product):
        raise argparse.ArgumentTypeError(not_known(text))
    return text


def add_basic_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--basic", action="store_true", help="look at what a first look needs, and no deeper: seconds instead of 20"
    )


def again(args: argparse.Namespace) -> str:
    """Return this very command, without the options that keep it from changing anything."""
    words = [word for word in args.argv if word not in ("--dry-run", "--exit-code")]
    return shlex.join(["preflight", *words])


def _pool(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MOST_AT_ONCE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_AT_ONCE}")
    return int(text)


def _options(args: argparse.Namespace, cluster: Cluster, hosts: Sequence[Host]) -> Options:
    password = _sudo_password(cluster, hosts) if args.ask_sudo_password else None
    return Options(accept_new=args.accept_new, pool=args.pool, sudo_password=password)


def wants_password(cluster: Cluster, hosts: Sequence[Host]) -> bool:
    """Return whether any host is reached with sudo, which may ask for a password."""
    return bool(cluster.probe.user or any(host.ssh.sudo for host in hosts))


def _sudo_password(cluster: Cluster, hosts: Sequence[Host]) -> Password:
    """Ask for the sudo password on the terminal, wherever stdin and stdout lead. Raise UsageError if that fails."""
    import getpass

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


class ProgressLine:
    """One line on stderr with the progress and the slowest host.

    It is silent if stderr is no terminal, or a terminal that cannot erase a line.
    """

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty() and not is_dumb()
        self._writing = threading.RLock()
        self.timeline = Timeline()

    def __call__(self, progress: Progress) -> None:
        self.timeline.take(progress)
        line = f"{progress.phase or 'hosts'} {progress.done}/{progress.total}"
        if progress.failed:
            line += f"  failed {progress.failed}"
        if progress.slowest:
            line += f"  {progress.slowest} waits {progress.seconds:.0f} s"
            line += f" for {progress.waiting_for}" if progress.waiting_for else ""
        self.say(line)

    def say(self, text: str) -> None:
        """Replace the line; an empty text clears it."""
        with self._writing:
            if self._terminal:
                sys.stderr.write(f"\r\x1b[K{text[: _width()]}")
                sys.stderr.flush()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Clear the line and write none meanwhile, since it would overwrite a question to the user."""
        with self._writing:
            self.clear()
            terminal, self._terminal = self._terminal, False
        try:
            yield
        finally:
            self._terminal = terminal

    def note(self, text: str) -> None:
        """Print a permanent line on stderr, wrapped to the width of a terminal."""
        self.clear()
        if self._terminal:
            text = textwrap.fill(text, _width(), break_on_hyphens=False, break_long_words=False)
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        self.say("")


def _width() -> int:
    return shutil.get_terminal_size().columns - 1


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
    from preflight.inventory import limit, load
    from preflight.transport import open_transport

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
    from shutil import which

    vendor = Path("/usr/local/Ascend/driver/tools/hccn_tool")
    if which("hccn_tool") or which("npu-smi") or vendor.exists():
        return Product.ATLAS_A2
    return Product.NVIDIA if which("nvidia-smi") else Product.CPU


@contextmanager
def this_machine() -> Iterator[Session]:
    """Open a session with this machine alone, without an inventory."""
    from preflight.transport import Options, open_transport

    host = Host("localhost", "localhost", Ssh(transport="local"))
    cluster = Cluster("this machine", _local_product(), (host,), hccl_ports=PortSet.parse("60000-60031"))  # the default
    progress = ProgressLine()
    transport = open_transport(cluster, Options())
    try:
        yield Session(cluster, cluster.hosts, transport, progress)
    finally:
        progress.clear()
        transport.close()


def devices(text: str) -> tuple[int, ...]:
    """Parse indices of devices: `0-3,6` → (0, 1, 2, 3, 6). Raise ArgumentTypeError for other text."""
    try:
        wanted = PortSet.parse(text)  # the same notation
    except ValueError:
        wanted = PortSet()
    if not wanted or wanted.ranges[-1][1] >= _MOST_DEVICES:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of devices such as 0-3 or 0,1")
    return tuple(number for low, high in wanted.ranges for number in range(low, high + 1))


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raise UsageError for an existing file, unless `force` is set."""
    if not force and (path.exists() or path.is_symlink()):
        raise UsageError(f"{path} is there already; name another file, or write over it with --force")


def refuse_place(path: Path, option: str) -> None:
    """Raise UsageError if `write_whole` could not write the file, before any host is contacted.

    `option` is the option that names the file on the command line.
    """
    try:
        if path.exists() and not path.is_file():
            kind = "a directory; name a file in it" if path.is_dir() else "no ordinary file; name another one"
            raise UsageError(f"{option} {path} is {kind}")
        _partial(path).exists()  # raises where the name is too long
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(f"{option} {path}: nothing can be written in {path.parent}: {error.strerror}") from None


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


def elsewhere(ssh: Mapping[str, Any], old: Path, new: Path) -> dict[str, str]:
    """Return the relative paths under [ssh], resolved from the old inventory's folder, for an inventory in another
    folder.
    """
    old_folder, new_folder = old.absolute().parent, new.absolute().parent
    paths = {key: ssh[key] for key in ("key", "known_hosts") if isinstance(ssh.get(key), str)}
    return {
        key: str(old_folder / text)
        for key, text in paths.items()
        if old_folder != new_folder and text[:1] not in ("/", "~")
    }


def write_whole(path: Path, content: str | bytes, what: str, mode: int = 0o644) -> None:
    """Write the file whole or not at all. Raise PreflightError, in which `what` names the content: "the facts".

    A device such as /dev/null is refused, since root would replace it by a file.
    """
    partial = _partial(path)
    try:
        if path.exists() and not path.is_file():
            raise PreflightError(f"{path}: {what} could not be written: it is no ordinary file; name another one")
        partial.unlink(missing_ok=True)  # a file of another user would keep its mode and owner
        data = content if isinstance(content, bytes) else content.encode()
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise PreflightError(f"{path}: {what} could not be written: {error.strerror}") from error
