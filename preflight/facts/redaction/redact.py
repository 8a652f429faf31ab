"""What looks like a secret leaves no text that is kept. Pure.

Tools print no secrets that we know of; but files and variables that a person wrote, the inventory's commands, and what
these make a tool say, may hold one. Rather a harmless word too many is taken out than one secret too few.
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
# Lines of a key, behind what a logger has put before them; the last one may be short.
_KEY_LINE = re.compile(r"(?:.*\s)?[A-Za-z0-9+/=]{16,76}\s*")
_LAST_KEY_LINE = re.compile(r"(?:.*\s)?[A-Za-z0-9+/=]{1,76}\s*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_NAME_OF_FILE = re.compile(
    r"^[/.~]|/.*\.\w{1,8}$|^[A-Za-z_]\w*(?:[./](?:[A-Za-z_]\w*|\d{1,4}))+$|^\w+\.(?:py|json|log|txt|pt|so|cc|cpp|h|sh)$"
)
_ENTROPY = 3.0  # bits a character
_KINDS = (ascii_lowercase, ascii_uppercase, digits)
_CHANGES = 0.35  # of the kind, a character; of 62 characters at random it is 0.62
_WITH_PLACE = re.compile(r"[^\s\"'`]+")


def redact(text: str) -> str:
    """The text with everything that looks like a key, password or token replaced by `[redacted]`."""
    if may_match(text, (_KEY.lower(),)):
        text = _without_ends_of_keys(WHOLE_KEY.sub(REDACTED, text))
    for secret in SECRETS:
        if may_match(text, secret.hints):
            text = secret.pattern.sub(_without_random if secret.random else without_value, text)
    for command in COMMANDS:
        if may_match(text, command.hints):
            text = command.programs.sub(partial(_without_options, command.options), text)
    return _WITH_PLACE.sub(lambda match: _without_login(match[0]), text) if "://" in text else text


def _without_options(options: re.Pattern[str], match: re.Match[str]) -> str:
    """The program, and its arguments without the secrets among them."""
    return match[1] + options.sub(without_value, match[2])


def _without_random(match: re.Match[str]) -> str:
    return without_value(match) if is_random(match[2]) else match[0]


def is_random(word: str) -> bool:
    """Return whether a program made up this word: letters and digits that change often, or long hexadecimal."""
    if _UUID.fullmatch(word) or _NAME_OF_FILE.search(word):
        return False
    if _HEX.fullmatch(word):
        return True
    shares = [word.count(char) / len(word) for char in set(word)]
    entropy = -sum(share * log2(share) for share in shares)
    kinds = [next((kind for kind in _KINDS if char in kind), "") for char in word]
    changes = sum(kind != after for kind, after in pairwise(kinds))
    return entropy >= _ENTROPY and len(set(kinds)) >= len(_KINDS) and changes >= _CHANGES * len(word)


def _without_ends_of_keys(text: str) -> str:
    """Without keys whose beginning was cut off, as in the tail of a log: all lines of one before its end."""
    kept, done = [], 0
    for end in _END_OF_KEY.finditer(text):
        begin = text.rfind("\n", done, end.start()) + 1 or done  # of its line
        line = _LAST_KEY_LINE
        while begin > done:
            above = text.rfind("\n", done, begin - 1) + 1 or done
            if not line.fullmatch(text, above, begin - 1):
                break
            begin, line = above, _KEY_LINE
        kept += [text[done:begin], REDACTED]
        done = end.end()
    return "".join([*kept, text[done:]])


def may_match(text: str, hints: tuple[str, ...]) -> bool:
    """Whether patterns that ignore case, and need one of these words in lower case, could match. Letters beyond ASCII
    may be other ones in another case."""
    small = text.lower()
    for hint in hints:  # no generator: this is asked of every text of every host
        if hint in small:
            return True
    return not text.isascii()


def without_value(match: re.Match[str]) -> str:
    """The label, which is the first group, and of the value, the last one, the quotes: JSON stays JSON."""
    label, value = match[1], match[match.re.groups]
    quote = next((quote for quote in ('\\"', '"', "'") if value.startswith(quote) and value.endswith(quote)), "")
    return f"{label}{quote}{REDACTED}{quote}"


def _without_login(word: str) -> str:
    """Of a URL, what stands between :// and the last @: a user with a password, or a token."""
    scheme, place = word.find("://"), word.rfind("@")
    return f"{word[: scheme + 3]}{REDACTED}{word[place:]}" if 0 <= scheme < place else word


def redacted(value: Any, of_text: Callable[[str], str] = redact) -> Any:
    """The same for whatever JSON or TOML holds: also the value of a key, and the word behind an option, that is
    called like a secret. `of_text`: what is done to any other text in it."""
    if isinstance(value, str):
        return of_text(value)
    if isinstance(value, list):
        if any(isinstance(item, str) and _KEY in item for item in value) and all(isinstance(it, str) for it in value):
            value = redact("\n".join(value)).split("\n")  # a key, a line an item
        return [
            REDACTED if isinstance(item, str) and _asks_for_secret(before) else redacted(item, of_text)
            for before, item in zip([None, *value], value, strict=False)
        ]
    if isinstance(value, dict):
        return {key: _of_key(key, item, of_text) for key, item in value.items()}
    return value


def _of_key(key: str, item: Any, of_text: Callable[[str], str]) -> Any:
    if isinstance(item, str) and item and is_secret(key):
        return REDACTED
    if isinstance(item, list) and _SECRET_NAME.search(key):
        item = [REDACTED if isinstance(it, str) and it else it for it in item]
    return redacted(item, of_text)


def _asks_for_secret(option: Any) -> bool:
    return isinstance(option, str) and _OPTION.fullmatch(option) is not None


def is_secret(name: str) -> bool:
    """Whether a variable or setting of this name may hold a secret. A path is no such name."""
    return "/" not in name and len(name) <= 100 and _NAME.search(name) is not None
