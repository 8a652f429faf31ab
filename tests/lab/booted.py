"""A whole-system host: systemd is its first process, its units start what runs, and it can really be rebooted.

It takes the place of one host of a lab: the same name, address, keys and switch port, so the lab's inventory and
`LabHandle.ssh` reach it, and `lab down` ends it with the rest.

    with whole_system(make_lab(hosts=2, devices=0, product="cpu", firewall="nftables"), "node01") as host:
        host.reboot()

Its kernel is the machine's, as a lab host's is. What a reboot resets of a kernel, reserved ports and firewall rules,
belongs to the network namespace: every boot gets a new one. /run and /tmp are new, too; every other file stays.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from preflight.lab import kernel, lifecycle, network, state
from preflight.lab.addresses import Management
from preflight.lab.firewalls import FIREWALLS
from preflight.lab.host import START_TIMEOUT, LabHost
from preflight.lab.kernel import Process
from preflight.model.errors import PreflightError
from tests.lab.conftest import LabHandle
from tests.lab.debian_tree import debian_tree

# Mount and process namespaces whose first process dies with the test's: nothing of the host outlives it.
APART = ("setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
# $1 directory of the host, $2 the tree under it, $3 its network namespace, $4 its name; the rest are control groups.
# nspawn keeps book in /run/systemd: not in the machine's. A network namespace that it did not make counts as a shared
# one, so it has to be told what the host may do in there.
BOOT = """
host=$1 tree=$2 netns=$3 name=$4
shift 4
for group in "$@"; do
    mkdir -p "$group"
    echo $$ > "$group/cgroup.procs"
done
mkdir -p /run/systemd
mount -t tmpfs tmpfs /run/systemd
mount -t overlay -o "lowerdir=$tree,upperdir=$host/files,workdir=$host/files.work" overlay "$host/root"
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network
exec systemd-nspawn --quiet --boot --settings=no --register=no --keep-unit --directory="$host/root" --machine="$name" \
    --network-namespace-path="/run/netns/$netns" --capability=CAP_NET_ADMIN \
    --console=pipe --resolv-conf=off --timezone=off --link-journal=no
"""
REBOOTED = 133  # how nspawn ends when the system inside asked for a reboot

# Debian's netfilter-persistent, which loads these files, does not go together with ufw: a unit does what it does.
LOAD_IPTABLES = """\
[Unit]
Before=network-pre.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c "iptables-restore < /etc/iptables/rules.v4 && ip6tables-restore < /etc/iptables/rules.v6"
[Install]
WantedBy=multi-user.target
"""
# How an administrator has a fresh Debian load its firewall at every boot.
FIRST_BOOT = {
    "nftables": "systemctl enable -q --now nftables",
    "ufw": "ufw allow 22/tcp && systemctl enable -q ufw && ufw --force enable",
    "firewalld": "systemctl enable -q --now firewalld",
    "iptables": f"echo '{LOAD_IPTABLES}' > /etc/systemd/system/load-iptables.service; "
    "systemctl enable -q --now load-iptables",
    "none": ":",
}
# Of the files that the lab wrote for its host: who it is.
IDENTITY = ("hostname", "hosts", "machine-id", "ssh/ssh_host_ed25519_key")


@dataclass
class BootedHost:
    """One whole-system host. `place` is its lab host: name, network namespace, directory, and `run` while it is up."""

    place: LabHost
    management: Management
    tree: Path
    _system: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def boot(self) -> None:
        """Switch it on; return when all its services have started."""
        place = self.place
        self._plug_in()
        arguments = (str(place.directory), str(self.tree), place.netns, place.name, *map(str, self._groups()))
        with self._console.open("w") as console:
            self._system = subprocess.Popen(
                [*APART, "sh", "-ec", BOOT, "boot", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        kernel.wait_until(self._find_init, START_TIMEOUT, f"{place.name} does not boot")
        place.wait()
        place.run("systemctl", "is-system-running", "--wait")

    def reboot(self) -> None:
        """`systemctl reboot`, and the next boot."""
        with suppress(PreflightError):  # the answer may be lost with the system that gives it
            self.place.run("systemctl", "reboot")
        self.wait_for_reboot()

    def wait_for_reboot(self) -> None:
        """Wait until a reboot that somebody asked for has ended the system; boot it again."""
        assert self._system
        code = self._system.wait(60)
        assert code == REBOOTED, f"{self.place.name} ended with {code}: {self._console.read_text()}"
        self.pull_the_plug()
        self.boot()

    def pull_the_plug(self) -> None:
        """End it at once, as its power supply would."""
        if self._system:
            self._system.kill()
            self._system.wait()
        kernel.kill_and_wait(kernel.processes_in([self.place.netns]))
        kernel.wait_until(lambda: all(map(_removed, self._groups())), 10, f"{self.place.name}'s control groups stay")

    def _plug_in(self) -> None:
        """A new network namespace at the host's switch port: a kernel without settings and rules."""
        name, netns, switch = self.place.name, self.place.netns, self.place.names.management
        [nic] = json.loads(kernel.run("ip", "-json", "-n", netns, "link", "show", "eth0"))
        # The link first: it is gone when this returns, the rest of a namespace some time later.
        kernel.ip_batch([f"link del {name}"], switch)
        kernel.ip_batch([f"netns del {netns}", f"netns add {netns}"])
        # A NIC keeps its address; the neighbours would look for the old one for a while.
        peer = f"peer name eth0 address {nic['address']} netns {netns}"
        kernel.ip_batch([f"link add {name} netns {switch} type veth {peer}"])
        network.configure_host(netns, self.management, self.place.number)
        kernel.ip_batch([f"link set {name} master mgmt up"], switch)

    def _find_init(self) -> bool:
        """Note which process is the system's first, where the lab's own commands look for it."""
        assert self._system
        if self._system.poll() is not None:
            said = self._console.read_text()
            pytest.fail(f"{self.place.name} did not boot; nspawn ended with {self._system.returncode}: {said}")
        for process in kernel.processes_in([self.place.netns]):
            if _is_init(process):
                line = Path(f"/proc/{process.pid}/stat").read_text()
                (self.place.directory / "process").write_text(line)
                return True
        return False

    @property
    def _console(self) -> Path:
        return self.place.directory / "console"

    def _groups(self) -> list[Path]:
        """Control groups of its own, in the hierarchies that a systemd keeps; it would use the test's otherwise."""
        rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        roots = [row[1] for row in rows if row[2] == "cgroup2" or (row[2] == "cgroup" and "name=systemd" in row[3])]
        return [Path(root, self.place.netns) for root in roots]


def _is_init(process: Process) -> bool:
    with suppress(OSError):
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        return status["Name"] == "systemd" and status["NSpid"].split()[-1] == "1"
    return False


def _removed(group: Path) -> bool:
    """Remove a control group and those below; False while a process of it is still being taken apart."""
    try:
        for directory in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            directory.rmdir()
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def booted_host(lab: LabHandle, name: str) -> BootedHost:
    """A whole system at the place of a lab's host, not booted yet."""
    network = Management(IPv4Network(state.load(lab.dir).network))
    return BootedHost(lab_host(lab, name), network, debian_tree())


def lab_host(lab: LabHandle, name: str) -> LabHost:
    """A host of a lab, as the lab knows it."""
    return lifecycle.selected(lifecycle.hosts_of(state.load(lab.dir), lab.dir), name)


@contextmanager
def whole_system(lab: LabHandle, name: str) -> Iterator[BootedHost]:
    """Boot a whole system in the place of a lab's host, with the lab's firewall (one of FIRST_BOOT) as a service."""
    host = booted_host(lab, name)
    kernel.kill_and_wait(kernel.processes_in([host.place.netns]))
    _prepare(host.place, (lab.dir / "id_ed25519.pub").read_text())
    try:
        host.boot()
        host.place.run("sh", "-ec", FIRST_BOOT[host.place.spec.firewall])
        yield host
    finally:
        host.pull_the_plug()


def _prepare(place: LabHost, public_key: str) -> None:
    """The host's files above the tree: who it is, what its firewall lets in, and who may log in."""
    files = place.directory / "files"
    for path in (place.directory / "root", place.directory / "files.work", files / "root" / ".ssh"):
        path.mkdir(parents=True, exist_ok=True)  # the lab has made `root`
    for path in (files / "root", files / "root" / ".ssh"):
        path.chmod(0o700)
    (files / "root" / ".ssh" / "authorized_keys").write_text(public_key)
    for name in (*IDENTITY, *FIREWALLS[place.spec.firewall].files):
        target = files / "etc" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(place.directory / "etc" / name, target)
