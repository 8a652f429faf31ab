"""Lines on a terminal, coloured by rich. Plain in a file or a pipe, and if the terminal or NO_COLOR requires it."""

import os
import shutil
import sys
from collections.abc import Iterable

from preflight.report.text import Line

_STYLES = {
    "fail": "bold red",
    "unknown": "magenta",
    "warn": "yellow",
    "pass": "green",
    "skip": "dim",
    "title": "bold",
    "dim": "dim",
    "next": "cyan",
}


def width() -> int:
    """Return the columns to wrap at: the terminal's, between 60 and 100; 80 in a file."""
    return max(60, min(100, shutil.get_terminal_size((80, 24)).columns)) if sys.stdout.isatty() else 80


def is_dumb() -> bool:
    """Return whether the terminal understands no escape sequences."""
    return os.environ.get("TERM", "") in ("dumb", "unknown")


def show(lines: Iterable[Line]) -> None:
    """Print to stdout. Text is never read as markup, and nothing is rewrapped."""
    if not sys.stdout.isatty() or is_dumb() or os.environ.get("NO_COLOR"):
        for line in lines:
            print(line.text)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text(line.text, style=_STYLES.get(line.style, "")))
