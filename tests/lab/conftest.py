"""Labs for tests: the tests of a file share what it brings up, and it always takes it down."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.lab.local_host import LocalHost, network_of_its_own
from tests.lab.sshd import Sshd, running

ROOT = Path(__file__).parents[2]


def preflight(*arguments: str | Path, check: bool = True, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run `python -m preflight ARGUMENTS`; with `check`, a failure fails the test with what was said."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    command = [sys.executable, "-m", "preflight", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **options)
    if check and done.returncode != 0:
        pytest.fail(
            f"`preflight {' '.join(map(str, arguments))}` exited {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done


@dataclass(frozen=True)
class LabHandle:
    """A lab that is up. `dir` is its directory, `inventory` its hosts.toml."""

    dir: Path

    @property
    def inventory(self) -> Path:
        """The inventory that the lab wrote."""
        return self.dir / "hosts.toml"

    @property
    def status(self) -> dict[str, Any]:
        """What `lab status -o json` says now."""
        document: dict[str, Any] = json.loads(self.lab("status", "-o", "json").stdout)
        return document

    @cached_property
    def addresses(self) -> dict[str, str]:
        """Host name → management address."""
        return {host["name"]: host["address"] for host in self.status["hosts"]}

    def lab(self, action: str, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run `preflight lab ACTION ARGUMENTS --dir DIR`."""
        return preflight("lab", action, *arguments, "--dir", self.dir, check=check)

    def ssh_command(self, host: str, command: str, timeout: int = 10) -> list[str]:
        """Return the arguments that run a shell command on a host through the system's ssh."""
        options = [f"UserKnownHostsFile={self.dir / 'known_hosts'}", f"ConnectTimeout={timeout}", "BatchMode=yes"]
        flags = [word for option in options for word in ("-o", option)]
        key = str(self.dir / "id_ed25519")
        return ["ssh", "-F", "none", "-i", key, *flags, f"root@{self.addresses[host]}", command]

    def ssh(self, host: str, command: str, timeout: int = 10) -> "subprocess.CompletedProcess[str]":
        """Run a shell command on a host; the answer has returncode, stdout and stderr."""
        return subprocess.run(self.ssh_command(host, command, timeout), capture_output=True, text=True, check=False)

    def connects(self, host: str, address: str, port: int) -> bool:
        """Whether the port answers at all: an open port and a refusal both do, a firewall that drops does not."""
        program = f"timeout 1 bash -c 'echo > /dev/tcp/{address}/{port}' 2>/dev/null; test $? != 124"
        return self.ssh(host, program).returncode == 0

    def configure_devices(self) -> None:
        """Give every device its address of the plan in hosts.toml, with the hosts' own hccn_tool, and reserve the
        ports: an outgoing connection would take one of them now and then."""
        reserve = "sysctl -qw net.ipv4.ip_local_reserved_ports=29500,60000-60031"
        for number, host in enumerate(self.status["hosts"]):
            self.ssh(host["name"], "\n".join((reserve, *_address_commands(number, len(host["devices"])))))


def _address_commands(number: int, devices: int) -> Iterator[str]:
    """The four-subnets plan of an Atlas A1 lab."""
    for device in range(devices):
        subnet = f"192.168.{100 + device % 4}"
        yield f"hccn_tool -i {device} -ip -s address {subnet}.{11 + 2 * number + device // 4} netmask 255.255.255.0"
        yield f"hccn_tool -i {device} -gateway -s gateway {subnet}.1"
        yield f"hccn_tool -i {device} -netdetect -s address {subnet}.1"


MakeLab = Callable[..., LabHandle]


@pytest.fixture(scope="module")
def make_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeLab]:
    """`make_lab(hosts=2, devices=8, product="atlas-a1", firewall="nftables", ...)` brings a lab up."""
    if os.geteuid() != 0:
        pytest.fail("tests marked `lab` need root: they make network namespaces, mounts and a real sshd.")
    labs: list[LabHandle] = []

    def make(
        hosts: int = 2,
        devices: int = 8,
        product: str = "atlas-a1",
        firewall: str = "nftables",
        fabric: str = "switched",
        user: str = "root",
        leaves: int = 1,
    ) -> LabHandle:
        handle = LabHandle(tmp_path_factory.mktemp("lab") / "lab")
        labs.append(handle)
        size = ("--hosts", str(hosts), "--devices", str(devices), "--product", product)
        network = ("--firewall", firewall, "--fabric", fabric, "--leaves", str(leaves))
        handle.lab("up", *size, *network, "--user", user)
        # Tests that are not about it do not wait until a device has forgotten a job that was killed.
        handle.lab("set", "linger-s", "0")
        return handle

    yield make
    for handle in labs:
        handle.lab("down", check=False)


@pytest.fixture(scope="module")
def two_by_two(make_lab: MakeLab) -> LabHandle:
    """Two hosts with two devices each, which have the addresses of the plan; tests leave it as they found it."""
    lab = make_lab(hosts=2, devices=2, firewall="none")
    lab.configure_devices()
    return lab


@pytest.fixture
def host(tmp_path: Path) -> LocalHost:
    """This machine as a host whose changes are applied here, with a journal of its own."""
    return LocalHost(tmp_path)


@pytest.fixture
def netns(host: LocalHost) -> Iterator[LocalHost]:
    """The same, in a network namespace that ends with the test."""
    with network_of_its_own(host) as inside:
        yield inside


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A real sshd on loopback."""
    with running(tmp_path_factory.mktemp("sshd") / "server") as sshd:
        yield sshd


@pytest.fixture(params=["fabric", "openssh"])
def transport(request: pytest.FixtureRequest) -> str:
    """Both ways over the network."""
    return str(request.param)
