"""A reader that goes away, `preflight check | head`, or that was never there, `preflight check >&-`."""

import os
import sys


def silence_stdout() -> None:
    """Send what is still to be printed nowhere, so that nothing complains when stdout is closed at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def replace_closed_streams() -> None:
    """Where stdout or stderr was closed before the start, Python has None in its place."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
