"""Which keys are offered to a server, in which order: as `ssh` does it, except that the inventory's key goes first."""

import base64
import binascii
import threading
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from paramiko import Agent, PKey
from paramiko import Transport as Session
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import AuthenticationException, BadAuthenticationType, SSHException

from preflight.bounded_file import read_bounded
from preflight.transport import errors
from preflight.transport.attempt import waiting_for
from preflight.transport.ssh_config import Endpoint
from preflight.transport.ssh_files import LARGEST_KEY
from preflight.transport.types import TransportError

_ENCRYPTED = "is encrypted and no agent holds it"


@dataclass(frozen=True)
class KeyFile:
    """A private key file as far as it could be read: `key`, or the `problem` with it. `public`: its public half."""

    key: PKey | None = None
    problem: str = ""
    public: bytes = b""


class KeyFiles:
    """Key files, each read once for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, KeyFile] = {}

    def __getitem__(self, path: str) -> KeyFile:
        with self._lock:
            if path not in self._files:
                self._files[path] = _read_key(path)
            return self._files[path]


def _read_key(path: str) -> KeyFile:
    public = _public_half(path)
    try:
        read_bounded(Path(path).expanduser(), LARGEST_KEY)  # what is read next has no bound
        key = PKey.from_path(path)
    except FileNotFoundError:
        return KeyFile(problem="does not exist", public=public)
    except OSError as error:
        return KeyFile(problem=f"cannot be read: {error.strerror}", public=public)
    except TypeError:  # what cryptography says where a passphrase is missing
        return KeyFile(problem=_ENCRYPTED, public=public)
    except (ValueError, SSHException, UnknownKeyType, UnsupportedAlgorithm):
        return KeyFile(problem="is not a private key of a kind that can be used", public=public)
    return KeyFile(key, public=key.asbytes())


def _public_half(path: str) -> bytes:
    """The blob in PATH.pub; or in PATH itself, where that is a public key that names one of the agent's."""
    try:
        text = read_bounded(Path(path if path.endswith(".pub") else path + ".pub"), LARGEST_KEY).decode()
        return base64.b64decode(text.split()[1], validate=True)
    except (OSError, UnicodeDecodeError, IndexError, binascii.Error):
        return b""


@dataclass
class KeyOffer:
    """The keys for one login, each with the name a person knows it by, and what is wrong with others."""

    keys: list[tuple[str, PKey]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)  # path, problem


def offer(endpoint: Endpoint, files: KeyFiles, agent_keys: tuple[PKey, ...]) -> KeyOffer:
    """The key files in their order, each through the agent where that holds the key; then the agent's other keys.

    sshd hangs up after MaxAuthTries (6) keys: hence nothing twice, and the named ones first.
    """
    result = KeyOffer()
    in_agent = {key.asbytes(): key for key in agent_keys}
    for path in endpoint.keys:
        file = files[path]
        key = in_agent.pop(file.public, None) or file.key
        if key is not None:
            result.keys.append((path, key))
        else:
            result.problems.append((path, file.problem))
    if not endpoint.only_these_keys:
        result.keys += [("a key of the agent", key) for key in in_agent.values()]
    return result


class KeyLogin:
    """One login with public keys; handed to paramiko as its `auth_strategy`.

    paramiko's own loops are not used: one reads the key files anew for every connection, the other takes a server
    that wants a second factor for one that has let us in.
    """

    def __init__(self, endpoint: Endpoint, files: KeyFiles) -> None:
        self._endpoint = endpoint
        self._files = files

    def authenticate(self, transport: Session) -> None:
        """Log in; raises TransportError(AUTHENTICATION), or TIMEOUT if the server does not answer."""
        waiting_for("authentication")
        agent = Agent()
        try:
            self._try(transport, offer(self._endpoint, self._files, agent.get_keys()))
        finally:
            agent.close()

    def _try(self, session: Session, offered: KeyOffer) -> None:
        target = self._endpoint.target
        if not offered.keys:
            raise _no_key_left(self._endpoint, offered, "there is no key to offer")
        for _, key in offered.keys:
            try:
                further = session.auth_publickey(self._endpoint.target.user or "", key)
            except BadAuthenticationType as error:
                raise errors.not_let_in(target, f"it takes no keys, only {', '.join(error.allowed_types)}") from None
            except AuthenticationException as error:
                if "timeout" in str(error):
                    raise errors.timed_out(target, session.auth_timeout, "authentication") from None
                if not session.is_active():
                    raise errors.not_let_in(target, "it hung up after being offered keys (MaxAuthTries)") from None
                continue
            except (SSHException, OSError, EOFError) as error:
                raise errors.not_let_in(target, errors.one_line(str(error)) or "it hung up") from None
            if further:
                raise errors.not_let_in(target, f"after the key it also wants {', '.join(further)}")
            return
        raise _no_key_left(self._endpoint, offered, "it accepts none of " + ", ".join(name for name, _ in offered.keys))


def _no_key_left(endpoint: Endpoint, offered: KeyOffer, reason: str) -> TransportError:
    """Default key files that do not exist are worth a word only where there is no key at all."""
    worth_a_word = [
        (path, problem) for path, problem in offered.problems if problem != "does not exist" or not offered.keys
    ]
    reason = "; ".join((reason, *(f"{path} {problem}" for path, problem in worth_a_word)))
    encrypted = next((path for path, problem in worth_a_word if problem == _ENCRYPTED), "")
    return errors.not_let_in(endpoint.target, reason, encrypted)
