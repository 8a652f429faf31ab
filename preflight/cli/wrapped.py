"""Sentences for a terminal: no wider than it is, where words allow it."""

import textwrap

from preflight.report.text import printable


def wrapped(text: str, columns: int = 80, indent: str = "  ") -> list[str]:
    """The lines of a sentence, host output in it made harmless; `indent`: of all lines but the first."""
    return textwrap.wrap(
        printable(text), columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
