"""What looks like a secret leaves no text that is kept. Pure.

Tools print no secrets that we know of; but files and variables that a person wrote, the inventory's commands, and what
these make a tool say, may hold one. Rather a harmless word too many is taken out than one secret too few.
"""

import re
from collections.abc import Callable
from typing import Any

REDACTED = "[redacted]"

# How what is secret is called, by a part of the name: DB_PASS, AWS_SECRET_ACCESS_KEY, x-api-key, --auth-token. A
# shell's PWD=/ is none.
_WORDS = r"pass(?:w|p|code|\b|_|s\b)|pwd(?!=/)|secret|token(?!i)|credential|psk\b"
_KEYS = r"(?:api|access|private|secret|auth|account|signing|encryption|shared|license|session|ssh)[ _-]?key"
_LABEL = rf"(?:{_WORDS}|{_KEYS}|(?-i:[A-Z0-9]_KEY\b))[\w.-]{{0,60}}"  # WANDB_KEY; a key in small letters names a place
# A value is what stands in quotes, also escaped ones; else what goes to the next blank; else, behind a sign with blanks
# around it, as files of settings have it, what goes to the end of the line.
# A quote that nothing closes counts to the end of the line.
_QUOTED = (
    r"(?:\"(?:[^\"\\\n]|\\.){0,4096}\"|'[^'\n]{0,4096}'|\\\"[^\"\n]{0,4096}\\\")+"
    r"[^\s\"'\\,;)}\]]*|[\"'][^\n]*"  # a shell's word may go on behind the quotes
)
_SIGN = r"\\?[\"']?(?:[ \t]{0,9}[:=]{1,2}>?[ \t]{1,9}|[ \t]{1,9}[:=]{1,2})"

# In each: what stays, and what does not.
_SECRETS = (
    re.compile(
        r"()(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z))", re.DOTALL
    ),
    re.compile(
        rf"({_LABEL}\\?[\"']?[ \t]{{0,9}}[:=]{{1,2}}[ \t]{{0,9}})(\[(?:[^\]]{{0,4096}}\]|[^\n]*))", re.IGNORECASE
    ),
    re.compile(rf"(authorization\\?[\"']?[ \t]{{0,9}}[:=][ \t]{{0,9}})({_QUOTED}|[^\n]+)", re.IGNORECASE),
    re.compile(r"(\b(?:bearer|basic)[ \t]{1,9})([\w+/=.~-]{8,})", re.IGNORECASE),
    re.compile(rf"({_LABEL}{_SIGN})({_QUOTED}|[^\n]+)", re.IGNORECASE),
    re.compile(rf"({_LABEL}\\?[\"']?[:=]{{1,2}})({_QUOTED}|\S+)", re.IGNORECASE),
    re.compile(rf"((?<![\w-])--?[\w-]{{0,40}}{_LABEL}[ \t]{{1,9}})({_QUOTED}|[^\s-]\S*)", re.IGNORECASE),
    re.compile(rf"(\b(?:sshpass|login[^\n]{{0,200}}?)[ \t]{{1,9}}-p[ \t]{{0,9}})({_QUOTED}|\S+)"),
    re.compile(rf"((?<![\w-])(?:-[uU]|--(?:proxy-)?user)[ \t=]{{0,9}})(?!\d+:\d+\b)({_QUOTED}|[^\s:]+:\S+)"),  # curl
    re.compile(r"(\b(?:mysql|mariadb)[^\n]{0,200}?[ \t]-p)([^\s-]\S*)"),
    re.compile(r"((?:\blogin\s{1,9}\S{1,200}\s{1,9}|^[ \t]{0,9})password\s{1,9})(\S+)", re.MULTILINE),  # .netrc
    re.compile(rf"(\bredis-cli\b[^\n]{{0,200}}?[ \t]-a[ \t]{{1,9}})({_QUOTED}|\S+)"),
    re.compile(rf"(\bidentified[ \t]{{1,9}}by[ \t]{{1,9}}(?:password[ \t]{{1,9}})?)({_QUOTED}|\S+)", re.IGNORECASE),
    re.compile(rf"(\\?[\"']auth\\?[\"'][ \t]{{0,9}}:[ \t]{{0,9}})({_QUOTED})", re.IGNORECASE),  # Docker's config.json
    re.compile(r"(\bcookie2?[ \t]{0,9}:[ \t]{0,9})([^\n]+)", re.IGNORECASE),
    re.compile(r"(\bhooks\.slack\.com/[a-z]{1,20}/)([^\s\"']+)"),
    re.compile(r"()(\$(?:[156y]|2[aby]|gy|argon2id?)\$[\w./$=,+-]{8,})"),  # of /etc/shadow
    re.compile(r"([?&](?:sig|[\w-]{0,20}signature)=)([^&\s\"']+)", re.IGNORECASE),  # of a URL that grants something
    # Tokens that say what they are.
    re.compile(r"()\b((?:gh[a-z]_|github_pat_|glpat-|hf_|AKIA|AIza|eyJ|nvapi-|sk-|xox[a-z]-)[\w-]{16,})"),
)
# A text without any of these is matched by none of the above; looking for them takes a tenth of the time.
_HINTS = (
    "pass", "pwd", "secret", "token", "credential", "psk", "key", "authorization", "bearer", "basic", "gh", "github_",
    "glpat-", "hf_", "akia", "aiza", "eyj", "nvapi-", "sk-", "xox", "sig=", "signature=",
    "-u", "mysql", "mariadb", "login", "redis-cli", "identified", "auth", "cookie", "slack", "$",
)  # fmt: skip
_OPTION = re.compile(rf"--?[\w-]{{0,40}}(?:{_LABEL})", re.IGNORECASE)
_SECRET_NAME = re.compile(_LABEL, re.IGNORECASE)
_NAME = re.compile("pass|pwd|secret|token|credential|auth|login|key", re.IGNORECASE)
_KEY = "PRIVATE KEY-----"
_END_OF_KEY = re.compile(rf"-----END [A-Z ]{{0,40}}{_KEY}")
# Lines of a key, behind what a logger has put before them; the last one may be short.
_KEY_LINE = re.compile(r"(?:.*\s)?[A-Za-z0-9+/=]{16,76}\s*")
_LAST_KEY_LINE = re.compile(r"(?:.*\s)?[A-Za-z0-9+/=]{1,76}\s*")
_WITH_PLACE = re.compile(r"[^\s\"'`]+")


def redact(text: str) -> str:
    """The text with everything that looks like a key, password or token replaced by `[redacted]`."""
    if may_match(text, _HINTS):
        for pattern in _SECRETS:
            text = pattern.sub(without_value, text)
            if pattern is _SECRETS[0] and _KEY in text:
                text = _without_ends_of_keys(text)
    return _WITH_PLACE.sub(lambda match: _without_login(match[0]), text) if "://" in text else text


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
    """The label, which is the first group, and of the value, the second, the quotes: JSON stays JSON."""
    label, value = match[1], match[2]
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
