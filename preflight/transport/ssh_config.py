"""Settings of a host's connection: the inventory, then ~/.ssh/config and /etc/ssh/ssh_config, then ssh's defaults.

The files are searched for the host's address, as `ssh ADDRESS` does it.
"""

import getpass
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paramiko import SSHConfig
from paramiko.config import SSHConfigDict
from paramiko.ssh_exception import ConfigParseError

from preflight.model.cluster import Bastion, Host, Ssh
from preflight.model.errors import UsageError
from preflight.model.text import last_line
from preflight.transport import errors
from preflight.transport.errors import Target
from preflight.transport.ssh_files import LARGEST_CONFIG, text_of

_MOST_JUMPS = 8
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_DEFAULT_KNOWN_HOSTS = ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
_SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True)
class Endpoint:
    """One ssh server to log in to, with all settings resolved.

    `target` has an address, a port and a user. `keys` are private key files in order; some may not exist.
    `only_these_keys` (IdentitiesOnly) excludes the agent's other keys. `known_as` is its name in known_hosts.
    New keys go to the first file of `known_hosts`, with a hashed name if `hash_names` (HashKnownHosts) is set.
    `via` is the bastion.
    """

    target: Target
    keys: tuple[str, ...]
    only_these_keys: bool
    known_as: str
    known_hosts: tuple[str, ...]
    hash_names: bool
    via: "Endpoint | None" = None


class SshConfig:
    """The user's and the system's ssh configuration, read once. Raises UsageError for a damaged file.

    `notice` receives a message about each Include, which paramiko does not support.
    """

    def __init__(self, notice: Callable[[str], None], home: Path | None = None) -> None:
        self._notice = notice
        self._directory = (home or Path.home()) / ".ssh"
        self._config = self._read()

    def _read(self) -> SSHConfig:
        config = SSHConfig()
        for path in (self._directory / "config", Path("/etc/ssh/ssh_config")):
            text = text_of(path, LARGEST_CONFIG)
            self._report_includes(path, text)
            try:
                config.parse(text.splitlines())
            except (ConfigParseError, ValueError) as error:  # ValueError: a quote of a Match that does not end
                raise UsageError(
                    f"{path}: {last_line(str(error))}. Correct the file, or let ssh read it with "
                    'transport = "openssh" under [ssh] in the inventory'
                ) from None
        return config

    def _report_includes(self, path: Path, text: str) -> None:
        for pattern in re.findall(r"^\s*Include[\s=]+(.+?)\s*$", text, re.MULTILINE | re.IGNORECASE):
            if any(self._included(path, word) for word in pattern.split()):
                self._notice(
                    f"{path}: Include {last_line(pattern)} is not read. If it matters for these hosts, set "
                    'transport = "openssh" under [ssh] in the inventory'
                )

    def _included(self, path: Path, pattern: str) -> bool:
        """Return true if a file that the pattern matches has directives. Debian's Include names an empty directory."""
        pattern = str(Path(pattern.strip('"')).expanduser())
        directory = Path("/") if pattern.startswith("/") else path.parent
        files = directory.glob(pattern.lstrip("/"))
        texts = (text_of(file, LARGEST_CONFIG) for file in files if file.is_file())
        return any(line.strip() and not line.lstrip().startswith("#") for text in texts for line in text.splitlines())

    def endpoint(self, host: Host) -> Endpoint:
        """Return the endpoint of a host. Raises TransportError(BASTION) for routes that paramiko does not support."""
        hops = (host.ssh.bastion,) if host.ssh.bastion else ()
        return self._resolve(host.name, host.address, host.ssh, hops)

    def _resolve(self, name: str, alias: str, ssh: Ssh, hops: tuple[Bastion, ...], depth: int = 0) -> Endpoint:
        """Return an endpoint. `hops` are its bastions, the last one next to the host; if empty, the files decide."""
        if depth > _MOST_JUMPS:
            raise errors.too_many_bastions(Target(name, alias), _MOST_JUMPS)
        config = self._config.lookup(alias)
        via = None
        hops = hops or _jumps(name, alias, config)
        if hops:
            # The inventory's key and known_hosts are the cluster's, so they count for its bastion as well.
            login = Ssh(user=hops[-1].user, port=hops[-1].port, key=ssh.key, known_hosts=ssh.known_hosts)
            via = self._resolve(f"bastion {hops[-1].host}", hops[-1].host, login, hops[:-1], depth + 1)
        target = Target(
            host=name,
            address=config.get("hostname", alias),
            port=ssh.port or _port(config.get("port", "22"), alias),
            user=ssh.user or config.get("user") or getpass.getuser(),
            via=via.target.address if via else "",
        )
        return Endpoint(
            target=target,
            keys=self._keys(ssh, config),
            only_these_keys=config.get("identitiesonly", "no").lower() == "yes",
            known_as=config.get("hostkeyalias") or target.known_as,
            known_hosts=self._known_hosts(ssh, config),
            hash_names=config.get("hashknownhosts", "no").lower() == "yes",
            via=via,
        )

    def _keys(self, ssh: Ssh, config: SSHConfigDict) -> tuple[str, ...]:
        configured = [*([ssh.key] if ssh.key else []), *config.get("identityfile", [])]
        return tuple(configured or (str(self._directory / key) for key in _DEFAULT_KEYS))

    def _known_hosts(self, ssh: Ssh, config: SSHConfigDict) -> tuple[str, ...]:
        if ssh.known_hosts:
            return (ssh.known_hosts,)
        users = config.get("userknownhostsfile", "").split() or _DEFAULT_KNOWN_HOSTS
        return (*(str(self._expand(file)) for file in users), *_SYSTEM_KNOWN_HOSTS)

    def _expand(self, path: str) -> Path:
        """Return the path with a leading ~/ replaced by the home directory."""
        return self._directory.parent / path[2:] if path.startswith("~/") else Path(path)


def _port(text: str, alias: str) -> int:
    if not re.fullmatch(r"0*[0-9]{1,5}", text) or not 0 < int(text[-5:]) < 65536:
        raise UsageError(f"~/.ssh/config: Port {last_line(text)} for {alias} is not a port number")
    return int(text)


def _jumps(name: str, alias: str, config: SSHConfigDict) -> tuple[Bastion, ...]:
    """Return the bastions of ProxyJump: `[user@]host[:port]`, separated by commas, the last one next to the host."""
    jump = config.get("proxyjump", "none")
    if jump.lower() == "none":
        if config.get("proxycommand"):
            raise errors.proxy_command(Target(name, alias))
        return ()
    hops = tuple(_jump(hop) for hop in jump.split(","))
    # A `Host *` block with a ProxyJump applies to the bastion itself, too.
    return () if any(hop.host == alias for hop in hops) else hops


def _jump(text: str) -> Bastion:
    matched = re.fullmatch(
        r"(?:ssh://)?(?:(?P<user>[^@]+)@)?(?P<host>\[[^]]+\]|[^:]+)(?::(?P<port>\d+))?/?", text.strip()
    )
    if not matched:
        raise UsageError(f"~/.ssh/config: ProxyJump {last_line(text)} does not have the form user@host:port")
    port = matched["port"]
    return Bastion(matched["host"].strip("[]"), matched["user"], int(port) if port else None)
