"""Mutual authentication of a relay and the controller that it calls back, with the key of the gang.

Neither sends the key, and a recorded handshake is useless. The caller's part is in `preflight/remote/relay.py`:

    caller    NONCE
    called    NONCE PROOF
    caller    PROOF

Each message is a line. A nonce is 32 hexadecimal digits, made for one call. A proof is HMAC-SHA256, with the key, of
the prover's role, the caller's nonce and the other nonce. The key is derived from the token and the gang's host names.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence

CALLED, CALLER = b"called", b"caller"  # roles: a proof cannot be sent back as the other side's
_NONCE = re.compile(rb"[0-9a-f]{32}")


def gang_key(token: str, hosts: Sequence[str]) -> str:
    gang = "preflight key " + " ".join(hosts)
    return hmac.new(token.encode(), gang.encode(), hashlib.sha256).hexdigest()


def proof(key: str, role: bytes, caller: bytes, called: bytes) -> bytes:
    """Return the proof of the side with this role. `caller` and `called` are the nonces."""
    return hmac.new(key.encode(), b" ".join((role, caller, called)), hashlib.sha256).hexdigest().encode()


def answer(key: str, caller: bytes) -> tuple[bytes, bytes]:
    """Return the reply to a caller's nonce, and the proof expected in return; both empty for an invalid nonce."""
    if not _NONCE.fullmatch(caller):
        return b"", b""
    called = secrets.token_hex(16).encode()
    return called + b" " + proof(key, CALLED, caller, called) + b"\n", proof(key, CALLER, caller, called)
