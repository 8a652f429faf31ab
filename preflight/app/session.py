"""Sessions with hosts: an inventory's cluster, the hosts of a command, and their transport."""

import getpass
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import NamedTuple

from preflight.app.options import HostOptions
from preflight.app.progress_line import ProgressLine
from preflight.app.site_engine import ENGINES, engine_of, open_site_engine, start
from preflight.facts.collect import POOL, FactsRequest, collect
from preflight.facts.pings.run import ping, reachable_hosts
from preflight.facts.types import ClusterFacts
from preflight.inventory import limit, load
from preflight.model.cluster import Cluster, Host, Product, Ssh
from preflight.model.errors import UsageError
from preflight.model.ping import Ping
from preflight.model.ports import PortSet
from preflight.transport import open_transport, process_limits
from preflight.transport.fanout import RunLimits
from preflight.transport.password import Password
from preflight.transport.types import Options, Transport

OPEN_FILES = 3  # for each host: its connection, and those of the same time to a bastion or to start an agent
NO_SUDO_HOST = "-K is for hosts with sudo = true under [ssh]; none of the selected hosts has it"


def wants_password(cluster: Cluster, hosts: Sequence[Host]) -> bool:
    """Return whether any host is reached with sudo, which may ask for a password."""
    return bool(cluster.probe.user or any(host.ssh.sudo for host in hosts))


def _sudo_password(cluster: Cluster, hosts: Sequence[Host]) -> Password:
    """Ask for the sudo password on the terminal, wherever stdin and stdout lead. Raise UsageError if that fails."""
    if not wants_password(cluster, hosts):
        raise UsageError(NO_SUDO_HOST)
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        raise UsageError(
            "-K needs a terminal to ask for the sudo password. Run this in a terminal, or let sudo work without a "
            "password (NOPASSWD)."
        ) from None
    try:
        text = getpass.getpass("sudo password on the hosts: ")
    except EOFError:
        text = ""
    if not text:
        raise UsageError("-K: no password was entered")
    return Password(text)


class Session(NamedTuple):
    """A command's cluster, the hosts it is limited to, and their transport.

    `pool` is the number of hosts at once. `until` is the moment of the monotonic clock at which hosts are given up.
    """

    cluster: Cluster
    hosts: tuple[Host, ...]
    transport: Transport
    progress: ProgressLine
    pool: int = POOL
    until: float = math.inf

    @property
    def limits(self) -> RunLimits:
        return RunLimits(self.pool, self.until)

    def collect(
        self,
        hosts: Sequence[Host] | None = None,
        *,
        sections: Sequence[str] = (),
        readings: Sequence[str] = (),
        deep: bool = False,
        quiet: bool = False,
    ) -> ClusterFacts:
        """Return the facts of `hosts`, or of all hosts of the session. `quiet` reports no progress."""
        return collect(
            FactsRequest(
                self.cluster, self.hosts if hosts is None else hosts, sections=sections, readings=readings, deep=deep
            ),
            self.transport,
            progress=None if quiet else self.progress,
            limits=self.limits,
        )

    def ping(self, facts: ClusterFacts, pings: Sequence[Ping]) -> tuple[Ping, ...]:
        """Send the pings, which were planned from `facts`, and return them with their results."""
        return ping(reachable_hosts(self.cluster, facts), self.transport, pings, self.progress, limits=self.limits)


@contextmanager
def session(
    options: HostOptions, cluster: Cluster | None = None, *, parks: bool = False, start_within: float | None = None
) -> Iterator[Session]:
    """Read the inventory, unless `cluster` is given, open the transport, and close it afterwards.

    `parks`: connections are kept for the next program, as the command changes nothing on hosts. `start_within`: seconds
    for the site's engine to start. Raise UsageError for a
    bad inventory before any host is contacted, and NotSeenError if the site's engine does not start.
    """
    cluster = cluster or load(options.inventory)
    hosts = cluster.hosts if options.limit is None else limit(cluster, options.limit)
    progress = ProgressLine(options.stream)
    origin = f" of {options.inventory}" if options.hosts is None else ""
    progress.say(f"connecting to {len(hosts)} hosts{origin}")  # the transport's libraries load slowly
    if options.via in ENGINES:
        cluster = replace(cluster, probe=replace(cluster.probe, via=options.via))
        transport: Transport = open_site_engine(options.via, options, hosts)
    else:
        transport = _ssh(options, cluster, hosts, parks=parks)
    try:
        if engine := engine_of(options.via or "ssh", transport):
            start(engine, hosts, progress, start_within)
        yield Session(cluster, hosts, transport, progress, options.pool)
    finally:
        progress.clear()
        transport.close()


def _ssh(options: HostOptions, cluster: Cluster, hosts: Sequence[Host], *, parks: bool) -> Transport:
    """Return the transport that the inventory names for each host."""
    password = _sudo_password(cluster, hosts) if options.ask_sudo_password else None
    allowed = process_limits.allow_open_files(OPEN_FILES * len(hosts)) // OPEN_FILES
    parked = allowed if parks else 0
    return open_transport(cluster, Options(accept_new=options.accept_new, parked=parked, sudo_password=password))


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
