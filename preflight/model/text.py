"""Foreign text made fit to be shown: output of hosts, files, and what a user typed. Pure.

A report, a log or a terminal shows no text from outside that has not passed one of these functions.
"""

import re

LONGEST_QUOTE = 100  # characters
_TERMINAL_ESCAPE = re.compile(
    r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|[\x00-\x08\x0b-\x1f\x7f]"
)


def printable(text: str) -> str:
    """Return the text with control and escape characters as \\xNN, and newlines and tabs as blanks."""
    if text.isprintable():  # true for nearly all text, and a single call
        return text
    return "".join(c if c.isprintable() else " " if c in "\n\r\t" else f"\\x{ord(c):02x}" for c in text)


def printable_columns(text: str) -> str:
    """Return the text with control characters, also newlines, as \\xNN; a tab becomes a blank, as columns matter.

    A byte that is no UTF-8 travels as U+10FF80 to U+10FFFF (preflight/remote/collect), and is shown as that byte.
    """
    return "".join(c if c.isprintable() else " " if c == "\t" else f"\\x{_byte(c):02x}" for c in text)


def _byte(char: str) -> int:
    code = ord(char)
    return code - 0x10FF00 if code >= 0x10FF80 else code


def without_escapes(text: str) -> str:
    """Return the text without terminal escapes and other control characters. Newlines and tabs stay."""
    return _TERMINAL_ESCAPE.sub("", text)


def one_line(text: str, longest: int = 500) -> str:
    """Return all lines as one, without control characters, cut at `longest` characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:longest]


def last_line(text: bytes | str, longest: int = 200) -> str:
    """Return the last line that is not blank, without control characters, cut at `longest` characters."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    lines = [line for raw in text.splitlines() if (line := "".join(c if c.isprintable() else " " for c in raw).strip())]
    line = re.sub(r"\s+", " ", lines[-1]) if lines else ""
    return line if len(line) <= longest else line[: longest - 1] + "…"


def quote(text: str) -> str:
    """Return the first line that is not blank in quotes, its control characters escaped; `nothing` if there is none."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not line:
        return "nothing"
    return repr(line[:LONGEST_QUOTE] + ("…" if len(line) > LONGEST_QUOTE else ""))
