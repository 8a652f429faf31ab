"""Streams that fail: a reader that leaves (`preflight check | head`), a closed stream (`preflight check >&-`), or one
that takes only some characters (`PYTHONIOENCODING=latin-1 preflight check`).
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def silence_stdout() -> None:
    """Discard all further output, so that closing stdout at exit raises no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Ignore the end of the reader of stdout while output is printed. The exit code is not affected."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()


def replace_closed_streams() -> None:
    """Replace stdout and stderr by /dev/null if they were closed before the start; Python then has None for them."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def spell_what_cannot_be_encoded() -> None:
    r"""Write characters that stdout or stderr cannot encode as \u2026, as Python does on its own stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
