"""A real sshd on a loopback port, with keys, configuration and log of its own in a temporary directory."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from preflight.model.cluster import Bastion, Host, Ssh


@dataclass(frozen=True)
class Sshd:
    """One running server. `known_hosts` holds its key, `key` is a private key that it accepts."""

    directory: Path
    port: int
    key: Path
    known_hosts: Path

    @property
    def host_key(self) -> str:
        """Type and base64 text of its ed25519 host key."""
        return " ".join((self.directory / "host_ed25519.pub").read_text().split()[:2])

    @property
    def known_as(self) -> str:
        return f"[127.0.0.1]:{self.port}"

    def host(self, transport: str, **settings: object) -> Host:
        """An inventory host that leads here; `settings` are fields of Ssh."""
        ssh: dict[str, object] = {
            "user": getpass.getuser(),
            "port": self.port,
            "key": str(self.key),
            "known_hosts": str(self.known_hosts),
            "transport": transport,
        }
        return Host(name="node01", address="127.0.0.1", ssh=Ssh(**{**ssh, **settings}))  # type: ignore[arg-type]

    @property
    def bastion(self) -> Bastion:
        return Bastion("127.0.0.1", user=getpass.getuser(), port=self.port)


def new_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "preflight test", "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return path


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(directory: Path, *extra: str, host_keys: tuple[str, ...] = ("ed25519",)) -> Iterator[Sshd]:
    """Start an sshd that only takes keys; `extra` are lines of sshd_config. Stopped by its own pid at the end."""
    sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")
    assert sshd, "these tests need sshd: apt-get install openssh-server"
    assert os.geteuid() == 0, "these tests need root: sshd gives up its privileges for every connection"
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd locks itself up before login
    directory.mkdir(parents=True, exist_ok=True)
    for kind in host_keys:
        new_key(directory / f"host_{kind}", kind)
    key = new_key(directory / "id_user")
    (directory / "authorized_keys").write_text((directory / "id_user.pub").read_text())
    port = free_port()
    config = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        *(f"HostKey {directory}/host_{kind}" for kind in host_keys),
        f"AuthorizedKeysFile {directory}/authorized_keys",
        "PidFile none",
        "StrictModes no",
        "UsePAM no",
        "MaxStartups 100:30:200",  # one server plays many hosts here; by default it drops some of 10 logins at once
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        *extra,
    ]
    (directory / "sshd_config").write_text("\n".join(config) + "\n")
    server = subprocess.Popen([sshd, "-D", "-f", f"{directory}/sshd_config", "-E", f"{directory}/sshd.log"])
    try:
        _wait_for(port, server)
        known_hosts = directory / "known_hosts"
        public = " ".join((directory / f"host_{host_keys[0]}.pub").read_text().split()[:2])
        known_hosts.write_text(f"[127.0.0.1]:{port} {public}\n")
        yield Sshd(directory, port, key, known_hosts)
    finally:
        server.terminate()
        server.wait(timeout=5)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("sshd did not start; see its log")
