"""Files of text that the user names: whole, or one sentence with its place."""

import sys
from pathlib import Path

from preflight.model.errors import UsageError
from preflight.ranktable.syntax import position

STDIN = "-"
LARGEST_RANK_TABLE = 64 << 20  # bytes; that of 32,768 devices has 4 MB


def text_of(name: str, largest: int, what: str) -> str:
    """The text of a file of at most `largest` bytes, "-" is stdin; a byte order mark and line ends are left in it.

    `what` names it in sentences: "rank table". Raises UsageError for what cannot be read, or is no text in UTF-8.
    """
    name, named = ("stdin", None) if name == STDIN else (name, Path(name))
    try:
        if named is None:
            data = sys.stdin.buffer.read(largest + 1)
        else:
            with named.open("rb") as file:
                data = file.read(largest + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}; name a {what}") from error
    if len(data) > largest:
        size = f"{largest >> 20} MiB" if largest >> 20 else f"{largest >> 10} KiB"
        raise UsageError(f"{name}: larger than {size}, so hardly a {what}")
    wrong = data.find(b"\0")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        wrong = error.start if wrong < 0 else min(wrong, error.start)
    if wrong >= 0:
        before = data[:wrong].decode("utf-8")
        line, column = position(before, len(before))
        raise UsageError(
            f"{name}:{line}:{column}: not text in UTF-8, so no {what}; iconv -f GB18030 -t UTF-8 mends what old "
            "editors wrote"
        )
    return text
