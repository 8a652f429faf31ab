"""Keys offered to a server, and the login with them. The order is ssh's, but the inventory's key goes first."""

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
from preflight.model.text import last_line
from preflight.transport import errors
from preflight.transport.attempt import waiting_for
from preflight.transport.ssh_config import Endpoint
from preflight.transport.ssh_files import LARGEST_KEY
from preflight.transport.types import TransportError

_ENCRYPTED = "is encrypted and not in the agent"


@dataclass(frozen=True)
class KeyFile:
    """Content of a private key file: `key`, or the `problem` with it. `public`: its public half."""

    key: PKey | None = None
    problem: str = ""
    public: bytes = b""


class KeyFiles:
    """Cache of key files: each is read once for all threads."""

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
        read_bounded(Path(path).expanduser(), LARGEST_KEY)  # checks the size: paramiko reads without a bound
        key = PKey.from_path(path)
    except FileNotFoundError:
        return KeyFile(problem="does not exist", public=public)
    except OSError as error:
        return KeyFile(problem=f"cannot be read: {error.strerror}", public=public)
    except TypeError:  # raised by cryptography for a missing passphrase
        return KeyFile(problem=_ENCRYPTED, public=public)
    except (ValueError, SSHException, UnknownKeyType, UnsupportedAlgorithm):
        return KeyFile(problem="is not a supported private key", public=public)
    return KeyFile(key, public=key.asbytes())


def _public_half(path: str) -> bytes:
    """Return the blob in PATH.pub, or in PATH itself if that is the public key of one of the agent's keys."""
    try:
        text = read_bounded(Path(path if path.endswith(".pub") else path + ".pub"), LARGEST_KEY).decode()
        return base64.b64decode(text.split()[1], validate=True)
    except (OSError, UnicodeDecodeError, IndexError, binascii.Error):
        return b""


@dataclass
class KeyOffer:
    """Keys for one login, each with a name for people; and the problems with unusable keys."""

    keys: list[tuple[str, PKey]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)  # path, problem


def offer(endpoint: Endpoint, files: KeyFiles, agent_keys: tuple[PKey, ...]) -> KeyOffer:
    """Return the key files in order, each through the agent if that holds the key; then the agent's other keys.

    sshd hangs up after MaxAuthTries (6) keys: so each key is offered once, and configured ones come first.
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
        result.keys += [("a key in the agent", key) for key in in_agent.values()]
    return result


class KeyLogin:
    """Login with public keys, for paramiko's `auth_strategy`.

    paramiko's own loops are not used. One reads the key files again for every connection.
    The other mistakes a server that requires a second factor for a finished login.
    """

    def __init__(self, endpoint: Endpoint, files: KeyFiles) -> None:
        self._endpoint = endpoint
        self._files = files

    def authenticate(self, transport: Session) -> None:
        """Log in. Raises TransportError(AUTHENTICATION), or TIMEOUT if the server does not answer."""
        waiting_for("authentication")
        agent = Agent()
        try:
            offered = offer(self._endpoint, self._files, agent.get_keys())
            if not offered.keys:
                raise _no_key_accepted(self._endpoint, offered, "no usable key")
            if not any(self._accepts(transport, key) for _, key in offered.keys):
                names = ", ".join(name for name, _ in offered.keys)
                raise _no_key_accepted(self._endpoint, offered, f"the server accepts none of {names}")
        finally:
            agent.close()

    def _accepts(self, session: Session, key: PKey) -> bool:
        """Return true if the server lets us in with the key. Raises TransportError if no other key can help."""
        target = self._endpoint.target
        try:
            second_factors = session.auth_publickey(target.user or "", key)
        except BadAuthenticationType as error:
            raise errors.not_let_in(
                target, f"the server accepts no keys, only {', '.join(error.allowed_types)}"
            ) from None
        except AuthenticationException as error:
            if "timeout" in str(error):
                raise errors.timed_out(target, session.auth_timeout, "authentication") from None
            if not session.is_active():
                raise errors.not_let_in(
                    target, "the server closed the connection after too many keys (MaxAuthTries)"
                ) from None
            return False
        except (SSHException, OSError, EOFError) as error:
            raise errors.not_let_in(target, last_line(str(error)) or "the server closed the connection") from None
        if second_factors:
            raise errors.not_let_in(target, f"the server also requires {', '.join(second_factors)}")
        return True


def _no_key_accepted(endpoint: Endpoint, offered: KeyOffer, reason: str) -> TransportError:
    """Return the error of a login. It mentions missing key files only if there is no key at all."""
    problems = [
        (path, problem) for path, problem in offered.problems if problem != "does not exist" or not offered.keys
    ]
    reason = "; ".join((reason, *(f"{path} {problem}" for path, problem in problems)))
    encrypted = next((path for path, problem in problems if problem == _ENCRYPTED), "")
    return errors.not_let_in(endpoint.target, reason, encrypted)
