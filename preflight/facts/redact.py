"""What looks like a secret leaves no text that is kept. Pure."""

import re

# Tools do not print secrets that we know of; files that a person wrote, such as a sysctl.d drop-in, could hold one.
_SECRETS = (
    re.compile(r"()-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(
        r"((?:pass(?:word|wd|phrase)|secret|token|api_?key|credential)s?[\"']?[ \t]{0,9}[:=][ \t]{0,9})\S{1,4096}",
        re.IGNORECASE,
    ),
    re.compile(r"(authorization[ \t]{0,9}:[ \t]{0,9}\w{1,20}[ \t]{1,9})\S{1,4096}", re.IGNORECASE),
    re.compile(r"(\w{1,20}://[^\s/:@]{1,100}:)[^\s/@]{1,200}(?=@)"),  # scheme://user:password@host
)


def redact(text: str) -> str:
    """The text with everything that looks like a key, password or token replaced by `[redacted]`."""
    for pattern in _SECRETS:
        text = pattern.sub(r"\1[redacted]", text)
    return text
