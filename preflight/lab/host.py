"""One lab host: its files, and the process that holds its namespaces together."""

import ipaddress
import os
import secrets
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from preflight.lab import gpus, kernel
from preflight.lab.addresses import Management
from preflight.lab.firewalls import FIREWALLS, HostFirewall
from preflight.lab.kernel import Process
from preflight.lab.spec import LabNames, Spec, leaf_name
from preflight.model.errors import PreflightError

INIT = Path(__file__).parent / "standins" / "host" / "init.sh"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ROOT_HOME = "/home/root"
HCCN_CONF = Path("/etc/hccn.conf")
START_TIMEOUT = 60.0

SSHD_CONFIG = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 1000
MaxSessions 1000
PrintMotd no
Subsystem sftp /usr/lib/openssh/sftp-server
"""


@dataclass(frozen=True)
class LabHost:
    """Place and names of a host. `directory` is its place below the lab's, which the host itself cannot see."""

    name: str
    number: int
    spec: Spec
    names: LabNames
    directory: Path

    @property
    def netns(self) -> str:
        """The name of its network namespace."""
        return self.names.host(self.name)

    @property
    def init(self) -> Process | None:
        """Its first process, if it runs. The process has recorded itself in a file."""
        with suppress(OSError, ValueError, IndexError):
            process = Process.from_stat((self.directory / "process").read_text())
            return process if process and process.alive else None
        return None

    @property
    def root(self) -> Path:
        """Its file tree, seen from outside. Raises PreflightError if the host is down."""
        return Path(f"/proc/{self.running().pid}/root")

    def running(self) -> Process:
        """Return its first process. Raise PreflightError if the host is down."""
        if process := self.init:
            return process
        raise PreflightError(f"{self.name} is down; `preflight lab fix host-dead` starts it again.")

    def run(self, *command: str) -> str:
        """Run a command inside the host, as root. Return its stdout."""
        return kernel.run("nsenter", "-t", str(self.running().pid), "-a", "--", *command)

    def start(self, standins: Path, lab: Path) -> None:
        """Start the host. `wait` returns once its sshd answers."""
        (self.directory / "process").unlink(missing_ok=True)
        enter = ["nsenter", f"--net={kernel.NETNS / self.netns}", "--"]
        separate = ["unshare", "--mount", "--uts", "--pid", "--ipc", "--fork", "--kill-child", "--"]
        init = ["/bin/sh", str(INIT), str(self.directory), str(standins), str(lab), *map(str, kept_visible())]
        with (self.directory / "console").open("w") as console:
            subprocess.Popen(
                [*enter, *separate, *init],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={"PATH": PATH, "LANG": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until sshd listens. Raise PreflightError with the host's output if it does not."""
        try:
            kernel.wait_until(lambda: self.listens(22), START_TIMEOUT, f"{self.name} did not start")
        except PreflightError as error:
            output = (self.directory / "console").read_text().strip()
            raise PreflightError(f"{error}: {output or 'no output'}") from None

    def listens(self, port: int) -> bool:
        """Return whether a process listens on this TCP port (IPv4), from the tables of its network namespace."""
        process = self.init
        if process is None:
            return False
        with suppress(OSError):
            rows = Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]
            return any(row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "0A" for row in rows)
        return False


def kept_visible() -> list[Path]:
    """Return the folders that hosts must see: the interpreter that runs the lab, which hosts.toml names as their
    Python, and preflight itself if it runs from a clone.
    """
    return sorted({Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2]})


def prepare(host: LabHost, management: Management, public_key: str) -> str:
    """Write the files of a fresh host. Return its known_hosts line."""
    spec, directory = host.spec, host.directory
    for name in ("etc/ssh", "var-lib", "usr", "usr-local", "opt", "home", "root", "log", "state", "run"):
        (directory / name).mkdir(parents=True)
    for name in ("etc", "var-lib", "usr", "usr-local", "opt", "root"):
        (directory / "overlay" / name).mkdir(parents=True)
    shutil.copymode("/root", directory / "root")
    devices = "".join(f"{index} {host.names.device(host.name, index)}\n" for index in range(spec.device_nics))
    (directory / "devices").write_text(devices)
    (directory / "state" / "devices").write_text(devices)
    firewall = FIREWALLS[spec.firewall]
    (directory / "state" / "first-boot").write_text(firewall.first_boot)
    (directory / "state" / "every-boot").write_text(firewall.every_boot)
    if spec.is_npu:
        (directory / "product").write_text(f"{spec.product}\n")
        if spec.fabric == "switched":
            (directory / "state" / "fabric").write_text(_cables(host))
        if spec.product == "atlas-a3":
            (directory / "superpod").write_text(f"pod=0\nsize={spec.hosts * spec.devices}\nserver={host.number + 1}\n")
    if spec.is_gpu:
        gpus.prepare(directory, host.number, spec)
    for path in ("etc/preflight", "var-lib/preflight", "usr-local/sbin/preflight-gate", "usr-local/lib/preflight"):
        _hide(directory / path)  # of the machine, which may itself be a host with preflight
    _write_etc(host, management)
    _write_homes(host, public_key)
    return _write_ssh(host, management.host(host.number))


def _cables(host: LabHost) -> str:
    """Return the switch and port of each device, as LLDP reports them.

    If all ports are in one bridge, each rail has a leaf on which every host has a port.
    """
    spec, lines = host.spec, []
    speed = 100 if spec.product == "atlas-a1" else 200
    host_leaf = spec.leaf_of(host.number)
    place = sum(spec.leaf_of(number) == host_leaf for number in range(host.number))
    for n in range(spec.devices):
        leaf, port = (host_leaf, place * spec.devices + n) if spec.leaves > 1 else (n, host.number)
        lines.append(f"leaf_{n}={leaf_name(leaf)}\nport_{n}={speed}GE1/0/{port + 1}\n")
    return "".join(lines)


def _hide(path: Path) -> None:
    """Hide the machine's file from the host. In an overlay, device 0:0 marks a deleted file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def _write_etc(host: LabHost, management: Management) -> None:
    etc = host.directory / "etc"
    if host.spec.is_npu:
        (etc / HCCN_CONF.name).touch(0o640)  # as the driver's installation leaves it; hccn_tool never creates the file
    else:
        _hide(etc / HCCN_CONF.name)  # the machine may itself be an Ascend server
    (etc / "hostname").write_text(f"{host.name}\n")
    (etc / "machine-id").write_text(f"{secrets.token_hex(16)}\n")
    cluster = (f"{management.host(number)} {name}\n" for number, name in enumerate(host.spec.host_names))
    (etc / "hosts").write_text("".join(["127.0.0.1 localhost\n", "::1 localhost ip6-localhost\n", *cluster]))
    users = _accounts(host.spec)
    (etc / "passwd").write_text(users)
    (etc / "group").write_text(_groups(host.spec))
    shadow = etc / "shadow"
    shadow.touch(0o640)
    # "*" means no password; sshd takes "!" for a locked account and refuses its keys.
    shadow.write_text("".join(f"{line.split(':')[0]}:*:20000:0:99999:7:::\n" for line in users.splitlines()))
    _write_firewall(etc, FIREWALLS[host.spec.firewall])
    if host.spec.user != "root":
        (etc / "sudoers.d").mkdir()
        (etc / "sudoers.d" / "lab").write_text(f"{host.spec.user} ALL=(ALL) NOPASSWD: ALL\n")
        (etc / "sudoers.d" / "lab").chmod(0o440)


def _write_firewall(etc: Path, firewall: HostFirewall) -> None:
    for name in firewall.fresh:
        (etc / name).mkdir()
        os.setxattr(etc / name, "trusted.overlay.opaque", b"y")  # hides the machine's directory
    for name, text in firewall.files.items():
        path = etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)


# Accounts of the hosts besides those of the system: the one that ssh uses, and the owner of the Ascend driver.
USER_ID = 1001
DRIVER_ID = 1000


def _accounts(spec: Spec) -> str:
    """Return the machine's system accounts, root with another home, and our accounts."""
    lines = [line for line in Path("/etc/passwd").read_text().splitlines() if _is_system(line)]
    lines = [f"root:x:0:0:root:{ROOT_HOME}:/bin/bash", *(line for line in lines if not line.startswith("root:"))]
    if spec.is_npu:
        lines.append(f"HwHiAiUser:x:{DRIVER_ID}:{DRIVER_ID}::/home/HwHiAiUser:/usr/sbin/nologin")
    if spec.user != "root":
        lines.append(f"{spec.user}:x:{USER_ID}:{USER_ID}::/home/{spec.user}:/bin/bash")
    return "\n".join(lines) + "\n"


def _groups(spec: Spec) -> str:
    lines = [line for line in Path("/etc/group").read_text().splitlines() if _is_system(line)]
    if spec.is_npu:
        lines.append(f"HwHiAiUser:x:{DRIVER_ID}:{'' if spec.user == 'root' else spec.user}")
    if spec.user != "root":
        lines.append(f"{spec.user}:x:{USER_ID}:")
    return "\n".join(lines) + "\n"


def _is_system(line: str) -> bool:
    """Return whether a line of passwd or group is a system account: below the first user's number, or 65534."""
    number = int(line.split(":")[2])
    return number < 1000 or number == 65534


def _write_homes(host: LabHost, public_key: str) -> None:
    homes = [("root", 0)] + ([(host.spec.user, USER_ID)] if host.spec.user != "root" else [])
    for name, owner in homes:
        home = host.directory / "home" / name
        ssh = home / ".ssh"
        ssh.mkdir(parents=True)
        keys = ssh / "authorized_keys"
        keys.write_text(public_key)
        for path, mode in ((home, 0o700), (ssh, 0o700), (keys, 0o600)):
            path.chmod(mode)
            shutil.chown(path, owner, owner)


def _write_ssh(host: LabHost, address: str) -> str:
    ssh = host.directory / "etc" / "ssh"
    (ssh / "sshd_config").write_text(SSHD_CONFIG)
    key = ssh / "ssh_host_ed25519_key"
    public = make_key(key, f"root@{host.name}")
    kind, body = public.split()[:2]
    return f"{ipaddress.ip_address(address)} {kind} {body}\n"


def make_key(path: Path, comment: str) -> str:
    """Make an ed25519 key pair without passphrase. Return the public half."""
    kernel.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path))
    return path.with_name(f"{path.name}.pub").read_text()
