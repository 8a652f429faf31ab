"""Sentences wrapped for a terminal."""

import textwrap

from preflight.model.text import printable


def wrapped(text: str, columns: int = 80, indent: str = "  ") -> list[str]:
    """Return the lines of a sentence, with host output made safe. `indent` is that of all lines but the first."""
    return textwrap.wrap(
        printable(text), columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
