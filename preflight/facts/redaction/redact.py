"""Removal of likely secrets from all texts that are kept. Pure.

No known tool prints secrets. But files and variables that a person wrote, the inventory's commands, and the output of
tools about these may have one. So a harmless word is removed rather than a secret missed.
"""

import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import log2
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

from preflight.facts.redaction.secret_patterns import COMMANDS, LABEL, SECRETS, WHOLE_KEY

REDACTED = "[redacted]"

_OPTION = re.compile(rf"--?[\w-]{{0,40}}(?:{LABEL})", re.IGNORECASE)
_SECRET_NAME = re.compile(LABEL, re.IGNORECASE)
_NAME = re.compile("pass|pwd|secret|token|credential|auth|login|key", re.IGNORECASE)
_KEY = "PRIVATE KEY"
_END_OF_KEY = re.compile(rf"-----END [A-Z0-9 ]{{0,40}}{_KEY}(?: BLOCK)?-----")
# Lines of a key, after a logger's prefix. The last line may be short.
_KEY_LINE = re.compile(r"(?:.*\s)?[A-Za-z0-9+/=]{16,76}\s*")
_LAST_KEY_LINE = re.compile(r"(?:.*\s)?[A-Za-z0-9+/=]{1,76}\s*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_NAME_OF_FILE = re.compile(
    r"^[/.~]|/.*\.\w{1,8}$|^[A-Za-z_]\w*(?:[./](?:[A-Za-z_]\w*|\d{1,4}))+$|^\w+\.(?:py|json|log|txt|pt|so|cc|cpp|h|sh)$"
)
_ENTROPY = 3.0  # bits a character
_KINDS = (ascii_lowercase, ascii_uppercase, digits)
_CHANGES = 0.35  # changes of kind per character; 0.62 for a random text of 62 different characters
_WITH_PLACE = re.compile(r"[^\s\"'`]+")


def redact(text: str) -> str:
    """Return the text with everything that looks like a key, password or token replaced by `[redacted]`."""
    if may_match(text, (_KEY.lower(),)):
        text = _without_ends_of_keys(WHOLE_KEY.sub(REDACTED, text))
    for secret in SECRETS:
        if may_match(text, secret.hints):
            text = secret.pattern.sub(_without_random if secret.random else without_value, text)
    for command in COMMANDS:
        if may_match(text, command.names):
            text = command.programs.sub(partial(_without_options, command.options), text)
    return _WITH_PLACE.sub(lambda match: _without_login(match[0]), text) if "://" in text else text


def _without_options(options: re.Pattern[str], match: re.Match[str]) -> str:
    """Return the program and its arguments without secrets."""
    return match[1] + options.sub(without_value, match[2])


def _without_random(match: re.Match[str]) -> str:
    return without_value(match) if is_random(match[2]) else match[0]


def is_random(word: str) -> bool:
    """Return whether a program generated this word: letters and digits that change often, or long hexadecimal."""
    if _UUID.fullmatch(word) or _NAME_OF_FILE.search(word):
        return False
    if _HEX.fullmatch(word):
        return True
    kinds = [next((kind for kind in _KINDS if char in kind), "") for char in word]
    changes = sum(kind != next_kind for kind, next_kind in pairwise(kinds))
    return _entropy(word) >= _ENTROPY and len(set(kinds)) >= len(_KINDS) and changes >= _CHANGES * len(word)


def _entropy(word: str) -> float:
    """Return the entropy of the word's characters, in bits a character."""
    shares = [word.count(char) / len(word) for char in set(word)]
    return -sum(share * log2(share) for share in shares)


def _without_ends_of_keys(text: str) -> str:
    """Return the text without keys that lack their beginning, as in the tail of a log: all lines up to their end."""
    pieces, position = [], 0
    for end in _END_OF_KEY.finditer(text):
        begin = text.rfind("\n", position, end.start()) + 1 or position  # of the line with the end
        line = _LAST_KEY_LINE
        while begin > position:
            line_start = text.rfind("\n", position, begin - 1) + 1 or position
            if not line.fullmatch(text, line_start, begin - 1):
                break
            begin, line = line_start, _KEY_LINE
        pieces += [text[position:begin], REDACTED]
        position = end.end()
    return "".join([*pieces, text[position:]])


def may_match(text: str, hints: tuple[str, ...]) -> bool:
    """Return whether patterns that ignore case, and need one of these lower-case words, could match.

    Texts with letters beyond ASCII always could, as another case may turn these into ASCII.
    """
    lower_text = text.lower()
    for hint in hints:  # no generator, for speed: this runs for every text of every host
        if hint in lower_text:
            return True
    return not text.isascii()


def without_value(match: re.Match[str]) -> str:
    """Return the label (the first group) and the redacted value (the last group). Quotes stay: JSON stays JSON."""
    label, value = match[1], match[match.re.groups]
    quote = next((quote for quote in ('\\"', '"', "'") if value.startswith(quote) and value.endswith(quote)), "")
    return f"{label}{quote}{REDACTED}{quote}"


def _without_login(word: str) -> str:
    """Return a URL without the user and password, or the token, between :// and the last @."""
    scheme_end, login_end = word.find("://"), word.rfind("@")
    return f"{word[: scheme_end + 3]}{REDACTED}{word[login_end:]}" if 0 <= scheme_end < login_end else word


def redacted(value: Any, of_text: Callable[[str], str] = redact) -> Any:
    """Return a JSON or TOML value without likely secrets.

    Values of keys, and words after options, with a secret's name are redacted. `of_text` redacts any other text.
    """
    if isinstance(value, str):
        return of_text(value)
    if isinstance(value, list):
        return _of_list(value, of_text)
    if isinstance(value, dict):
        return {key: _of_key(key, item, of_text) for key, item in value.items()}
    return value


def _of_list(items: list[Any], of_text: Callable[[str], str]) -> list[Any]:
    if all(isinstance(item, str) for item in items) and any(_KEY in item for item in items):
        items = redact("\n".join(items)).split("\n")  # a key, with one line per item
    return [
        REDACTED if isinstance(item, str) and _asks_for_secret(before) else redacted(item, of_text)
        for before, item in zip([None, *items], items, strict=False)
    ]


def _of_key(key: str, item: Any, of_text: Callable[[str], str]) -> Any:
    if isinstance(item, str) and item and is_secret(key):
        return REDACTED
    if isinstance(item, list) and _SECRET_NAME.search(key):
        item = [REDACTED if isinstance(part, str) and part else part for part in item]
    return redacted(item, of_text)


def _asks_for_secret(option: Any) -> bool:
    return isinstance(option, str) and _OPTION.fullmatch(option) is not None


def is_secret(name: str) -> bool:
    """Return whether a variable or setting of this name may hold a secret. A path is no such name."""
    return "/" not in name and len(name) <= 100 and _NAME.search(name) is not None
