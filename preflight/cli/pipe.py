"""A reader that goes away, `preflight check | head`, that was never there, `preflight check >&-`, or that takes only
some characters, `PYTHONIOENCODING=latin-1 preflight check`."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def silence_stdout() -> None:
    """Send what is still to be printed nowhere, so that nothing complains when stdout is closed at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Around what is printed: a reader that has seen enough ends the output, and the verdict stands."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()


def replace_closed_streams() -> None:
    """Where stdout or stderr was closed before the start, Python has None in its place."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def spell_what_cannot_be_encoded() -> None:
    r"""A character that stdout or stderr has no bytes for is written as \u2026, as Python does on its own stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
