"""Words that tools print in another form: percent-encoded, base64, and the hexadecimal comments of ufw. Pure."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import quote, unquote

Decode = Callable[[str], str]
Encode = Callable[[str, str], str]  # the text, and the encoded word that it replaces
Form = tuple[re.Pattern[str], Decode, Encode]

_PERCENT = re.compile(r"[^\s\"'<>]{0,4096}%[0-9A-Fa-f]{2}[^\s\"'<>]{0,4096}")
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{8,65536}={0,2}(?![\w+/=])")
_HEX_COMMENT = re.compile(r"(?<=comment=)(?:[0-9A-Fa-f]{2}){1,256}(?![0-9A-Fa-f])")
_READABLE = re.compile(r"[\t\n\r\x20-\x7e]+")


def replaced(text: str, by: Callable[[str], str]) -> str:
    """Return the text with its encoded words replaced. `by`: decoded word → its replacement, also decoded.

    If `by` returns the same word, the encoded word stays byte by byte.
    """
    for pattern, decode, encode in _forms(text):
        text = pattern.sub(partial(_word, by, decode, encode), text)
    return text


def decoded(text: str) -> Iterator[str]:
    """Yield the decoded forms of the encoded words in a text."""
    for pattern, decode, _ in _forms(text):
        yield from filter(None, (decode(match[0]) for match in pattern.finditer(text)))


def _forms(text: str) -> Iterator[Form]:
    if "%" in text:
        yield _PERCENT, _from_percent, _to_percent
    if "comment=" in text:
        yield _HEX_COMMENT, _from_hex, _to_hex
    yield _BASE64, _from_base64, _to_base64


def _word(by: Decode, decode: Decode, encode: Encode, match: re.Match[str]) -> str:
    decoded_word = decode(match[0])
    replacement = by(decoded_word) if decoded_word else decoded_word
    return encode(replacement, match[0]) if replacement != decoded_word else match[0]


def _from_percent(word: str) -> str:
    return unquote(word)


def _to_percent(text: str, word: str) -> str:
    """Return the text percent-encoded, with the same characters left plain as in `word`."""
    return quote(text, safe="".join({char for char in word if not char.isalnum() and char != "%"}))


def _from_hex(word: str) -> str:
    return bytes.fromhex(word).decode("utf-8", "replace")


def _to_hex(text: str, word: str) -> str:
    return text.encode().hex().upper() if word.isupper() else text.encode().hex()


def _from_base64(word: str) -> str:
    """Return the text that the word encodes; empty for an ordinary word."""
    standard_word = word.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        text = base64.b64decode(standard_word + "=" * (-len(standard_word) % 4), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""
    return text if _READABLE.fullmatch(text) else ""


def _to_base64(text: str, word: str) -> str:
    encode = base64.urlsafe_b64encode if "-" in word or "_" in word else base64.b64encode
    encoded = encode(text.encode()).decode()
    return encoded if word.endswith("=") else encoded.rstrip("=")
