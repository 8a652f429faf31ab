"""Places in a file for the characters of a text that was joined of parts of it. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from preflight.launch.lint.types import ScriptSpot, WordPart


def behind(spot: ScriptSpot, text: str) -> ScriptSpot:
    """Return the place behind a text that begins at a place."""
    lines = text.count("\n")
    return ScriptSpot(spot.line + lines, len(text) - text.rfind("\n") if lines else spot.column + len(text))


class SourceMap:
    """The parts of a joined text."""

    def __init__(self, parts: Sequence[WordPart]) -> None:
        self._parts = parts
        self._starts = [0, *accumulate(len(part.text) for part in parts)]
        self._lines = [1, *accumulate((part.text.count("\n") for part in parts), initial=1)][1:]

    def spot(self, at: int, line: int, line_start: int) -> ScriptSpot:
        """Return the place of the character `at`, in a `line` of the joined text that begins at `line_start`."""
        number = min(bisect_right(self._starts, at), len(self._parts)) - 1
        part = self._parts[number]
        if part.put or part.spot is None:
            return part.spot or ScriptSpot(1, 1)
        lines = line - self._lines[number]
        column = at - line_start + 1 if lines else part.spot.column + at - self._starts[number]
        return ScriptSpot(part.spot.line + lines, column)
