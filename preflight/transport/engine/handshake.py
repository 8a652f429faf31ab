"""Who is called, and who calls, prove to each other that they have the gang's key, before either does what the other
says. Neither sends the key, and what was said once proves nothing another time. The caller's part is in
`preflight/remote/relay.py`:

    caller    NONCE
    called    NONCE PROOF
    caller    PROOF

each a line. A nonce is 32 hexadecimal digits, made for this one call; a proof is HMAC-SHA256, by the key, of the word
for who proves, the caller's nonce and the other's. The key is made from the token and the names of the gang's hosts.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence

CALLED, CALLER = b"called", b"caller"  # so that nobody's proof can be sent back as one's own
_NONCE = re.compile(rb"[0-9a-f]{32}")


def gang_key(token: str, hosts: Sequence[str]) -> str:
    gang = "preflight key " + " ".join(hosts)
    return hmac.new(token.encode(), gang.encode(), hashlib.sha256).hexdigest()


def proof(key: str, who: bytes, caller: bytes, called: bytes) -> bytes:
    """`caller` and `called` are their nonces."""
    return hmac.new(key.encode(), b" ".join((who, caller, called)), hashlib.sha256).hexdigest().encode()


def answer(key: str, caller: bytes) -> tuple[bytes, bytes]:
    """What is said to who calls with this nonce, and what has to come back; both empty where it is no nonce."""
    if not _NONCE.fullmatch(caller):
        return b"", b""
    called = secrets.token_hex(16).encode()
    return called + b" " + proof(key, CALLED, caller, called) + b"\n", proof(key, CALLER, caller, called)
