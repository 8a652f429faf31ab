"""What the commands that go to hosts share: the inventory's options, the way in, and one line of progress."""

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

from preflight.cli.timeline import Timeline
from preflight.model.cluster import Cluster, Host, Product, Ssh
from preflight.model.errors import PreflightError, UsageError
from preflight.model.ports import PortSet
from preflight.model.product_names import not_known
from preflight.report.console import is_dumb
from preflight.transport.password import Password
from preflight.transport.types import Options, Progress, Transport

DEFAULT_INVENTORY = Path("hosts.toml")
_MOST_DEVICES = 64  # of a host
MOST_AT_ONCE = 64  # hosts; paramiko does not get faster beyond


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
    """Return the product as the inventory spells it; raises ArgumentTypeError with the one that is meant. Empty, as an
    option's default: not given."""
    if text and text not in tuple(Product):
        raise argparse.ArgumentTypeError(not_known(text))
    return text


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


def wants_password(cluster: Cluster, hosts: Sequence[Host]) -> bool:
    """Whether there is a sudo that may ask for one."""
    return bool(cluster.probe.user or any(host.ssh.sudo for host in hosts))


def _sudo_password(cluster: Cluster, hosts: Sequence[Host]) -> Password:
    """Asked on the terminal, whatever stdin and stdout are. Raises UsageError where that does not lead to one."""
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
    """One line on stderr that names the host being waited for; silent where stderr is no terminal, or one that cannot
    take a line back."""

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
        """Clear the line and write none meanwhile: it would write over a question to the user."""
        with self._writing:
            self.clear()
            terminal, self._terminal = self._terminal, False
        try:
            yield
        finally:
            self._terminal = terminal

    def note(self, text: str) -> None:
        """A line that stays, on stderr, terminal or not; where it is one, as wide as that."""
        self.clear()
        if self._terminal:
            text = textwrap.fill(text, _width(), break_on_hyphens=False, break_long_words=False)
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        self.say("")


def _width() -> int:
    return shutil.get_terminal_size().columns - 1


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
    hosts = cluster.hosts if args.limit is None else limit(cluster, args.limit)
    options = _options(args, cluster, hosts)
    progress = ProgressLine()
    progress.say(f"on the way to the hosts of {args.inventory}: {len(hosts)}")  # whose libraries load slowly
    transport = open_transport(cluster, options)
    try:
        yield Session(cluster, hosts, transport, progress)
    finally:
        progress.clear()
        transport.close()


def _local_product() -> Product:
    """What this machine most likely is. Which Ascend generation is not told: every fact is read alike for all."""
    from shutil import which

    vendor = Path("/usr/local/Ascend/driver/tools/hccn_tool")
    if which("hccn_tool") or which("npu-smi") or vendor.exists():
        return Product.ATLAS_A2
    return Product.NVIDIA if which("nvidia-smi") else Product.CPU


@contextmanager
def this_machine() -> Iterator[Session]:
    """A session with this machine alone, without an inventory."""
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
    """`0-3,6` → (0, 1, 2, 3, 6), indices of devices; raises ArgumentTypeError."""
    try:
        wanted = PortSet.parse(text)  # the same notation
    except ValueError:
        wanted = PortSet()
    if not wanted or wanted.ranges[-1][1] >= _MOST_DEVICES:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of devices such as 0-3 or 0,1")
    return tuple(number for low, high in wanted.ranges for number in range(low, high + 1))


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raises UsageError for a file that is not to be written over."""
    if not force and (path.exists() or path.is_symlink()):
        raise UsageError(f"{path} is there already; name another file, or write over it with --force")


def refuse_place(path: Path, option: str) -> None:
    """Raises UsageError where `write_whole` could not write: to be said before anybody is contacted. `option`: what
    names the file on the command line."""
    try:
        if path.exists() and not path.is_file():
            what = "a directory; name a file in it" if path.is_dir() else "no ordinary file; name another one"
            raise UsageError(f"{option} {path} is {what}")
        _partial(path).exists()  # raises where the name is too long
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(f"{option} {path}: nothing can be written in {path.parent}: {error.strerror}") from None


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


def elsewhere(ssh: Mapping[str, Any], old: Path, new: Path) -> dict[str, str]:
    """Paths of keys that start at the old inventory, for one that stands elsewhere."""
    here, there = old.absolute().parent, new.absolute().parent
    found = {key: ssh[key] for key in ("key", "known_hosts") if isinstance(ssh.get(key), str)}
    return {key: str(here / text) for key, text in found.items() if here != there and text[:1] not in ("/", "~")}


def write_whole(path: Path, content: str | bytes, what: str, mode: int = 0o644) -> None:
    """Whole or not at all. Raises PreflightError; `what` names it in the sentence: "the facts". A device, as /dev/null,
    would be replaced by a file where root writes: it is refused."""
    partial = _partial(path)
    try:
        if path.exists() and not path.is_file():
            raise PreflightError(f"{path}: {what} could not be written: it is no ordinary file; name another one")
        partial.unlink(missing_ok=True)  # another one's: its mode and owner would stay
        data = content if isinstance(content, bytes) else content.encode()
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise PreflightError(f"{path}: {what} could not be written: {error.strerror}") from error
