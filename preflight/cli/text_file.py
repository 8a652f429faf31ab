"""Text files that the user names: read whole, or reported in one sentence with the place of the error."""

import errno
import sys
from pathlib import Path

from preflight.bounded_file import read_bounded, up_to
from preflight.model.errors import UsageError
from preflight.ranktable.syntax import position

STDIN = "-"
LARGEST_RANK_TABLE = 64 << 20  # bytes; the table of 32,768 devices has 4 MB


def text_of(name: str, largest: int, what: str) -> str:
    """Return the text of a file of at most `largest` bytes; "-" is stdin. Byte order mark and line ends are kept.

    `what` names it in sentences: "rank table". Raise UsageError for a file that cannot be read, or is not UTF-8.
    """
    name, named = ("stdin", None) if name == STDIN else (name, Path(name))
    try:
        data = read_bounded(named, largest, pipes=True) if named else up_to(sys.stdin.buffer, largest)
    except OSError as error:
        hint = "" if error.errno == errno.EFBIG else f". Choose a {what}."
        raise UsageError(f"{name}: {error.strerror}{hint}") from error
    wrong = data.find(b"\0")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        wrong = error.start if wrong < 0 else min(wrong, error.start)
    if wrong >= 0:
        before = data[:wrong].decode("utf-8")
        line, column = position(before, len(before))
        raise UsageError(
            f"{name}:{line}:{column}: the {what} is not UTF-8 text. To convert it from GB18030: "
            "iconv -f GB18030 -t UTF-8"
        )
    return text
