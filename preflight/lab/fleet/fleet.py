"""A fleet from its start to its end: its files, its answers and its servers."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from ipaddress import IPv4Network
from pathlib import Path

import asyncssh

from preflight.inventory import load
from preflight.lab import kernel
from preflight.lab.fleet.answers import FleetAnswers
from preflight.lab.fleet.server import OnReady, serve
from preflight.lab.fleet.spec import NETWORK, FleetSpec, SimulatedHost, draw
from preflight.lab.fleet.template import record
from preflight.model.errors import UsageError
from preflight.transport import process_limits

_OPEN_FILES = 3  # for each host: its listener, a connection, and one that ends
INVENTORY = "hosts.toml"
TRUTH = "fleet.json"  # what each host does, for tests and benchmarks


def run(spec: FleetSpec, directory: Path, on_ready: OnReady) -> None:
    """Write the files of a fleet into `directory`, and serve its hosts until a signal ends this process."""
    wanted = _OPEN_FILES * spec.hosts
    if (allowed := process_limits.allow_open_files(wanted)) < wanted:
        raise UsageError(f"the fleet needs {wanted:,} open files, and this shell allows {allowed:,} (ulimit -Hn).")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))  # so that the route and the lab are taken down
    hosts = draw(spec)
    user_key = asyncssh.generate_private_key("ssh-ed25519", comment="preflight fleet")
    keys = [asyncssh.generate_private_key("ssh-ed25519") for _ in hosts]
    with _local(NETWORK):
        directory.mkdir(parents=True, exist_ok=True)
        _write_files(spec, hosts, keys, user_key, directory)
        answers = FleetAnswers(record(spec.product, spec.devices), load(directory / INVENTORY))
        users = asyncssh.import_authorized_keys(user_key.export_public_key().decode())
        asyncio.run(serve(list(zip(hosts, keys, strict=True)), users, spec.port, answers, on_ready))


@contextmanager
def _local(network: IPv4Network) -> Iterator[None]:
    """Make all addresses of a network this machine's own, on loopback. Raise UsageError if it has a route already."""
    route = ("local", str(network), "dev", "lo")
    if kernel.run("ip", "route", "show", "table", "all", "root", str(network)).strip():
        raise UsageError(
            f"{network} is in use on this machine. Another fleet runs, or one was killed. To remove its route: "
            f"ip route del {' '.join(route)}"
        )
    kernel.run("ip", "route", "add", *route)
    try:
        yield
    finally:
        kernel.run("ip", "route", "del", *route)


def _write_files(
    spec: FleetSpec,
    hosts: list[SimulatedHost],
    keys: list[asyncssh.SSHKey],
    user_key: asyncssh.SSHKey,
    directory: Path,
) -> None:
    user_key.write_private_key(str(directory / "id_ed25519"))
    (directory / "id_ed25519").chmod(0o600)
    public = [" ".join(key.export_public_key().decode().split()[:2]) for key in keys]
    lines = (f"[{host.address}]:{spec.port} {key}\n" for host, key in zip(hosts, public, strict=True))
    (directory / "known_hosts").write_text("".join(lines))
    (directory / TRUTH).write_text(json.dumps([asdict(host) for host in hosts], indent=1))
    (directory / INVENTORY).write_text(inventory(spec, hosts))


def inventory(spec: FleetSpec, hosts: list[SimulatedHost]) -> str:
    """Return the text of hosts.toml."""
    devices = f"devices = {spec.devices}\n" if spec.devices else ""
    plan = (
        '\n[device_addresses]\nplan = "one-subnet"\nsubnet = "10.64.0.0/16"\nfirst = "10.64.0.11"\n'
        'gateway = "10.64.0.1"\ndetect = "gateway"\n'
        if spec.devices
        else ""
    )
    entries = "".join(f'\n[[hosts]]\nname = "{host.name}"\naddress = "{host.address}"\n' for host in hosts)
    return (
        "# A fleet of simulated hosts (preflight lab fleet). Nothing here is a real machine.\n"
        f'[cluster]\nname = "fleet"\nproduct = "{spec.product}"\ncidrs = ["{NETWORK}"]\n{devices}\n'
        f'[ssh]\nuser = "root"\nport = {spec.port}\nkey = "id_ed25519"\nknown_hosts = "known_hosts"\n\n'
        '[network]\nnic = "eth0"\n'
        f"{plan}"
        '\n[ports]\nhccl_base = 60000\nhccl_count = 32\njob = ["29500"]\n\n[firewall]\npolicy = "allow"\n'
        f'\n[probe]\nbackend = "gloo"\nidle = true\n{entries}'
    )
