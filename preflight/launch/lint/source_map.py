"""Where in a file the characters of a word stand, of which a text was made that is read anew. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from preflight.launch.lint.types import Part, Spot


def behind(spot: Spot, text: str) -> Spot:
    """The place behind a text that begins at a place."""
    lines = text.count("\n")
    return Spot(spot.line + lines, len(text) - text.rfind("\n") if lines else spot.column + len(text))


class Parts:
    """The parts that a text is joined of."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._starts = [0, *accumulate(len(part.text) for part in parts)]
        self._lines = [1, *accumulate((part.text.count("\n") for part in parts), initial=1)][1:]

    def spot(self, at: int, line: int, line_start: int) -> Spot:
        """Of a character of the text, in its `line`, from 1 on, which begins at `line_start`."""
        number = min(bisect_right(self._starts, at), len(self._parts)) - 1
        part = self._parts[number]
        if part.put or part.spot is None:
            return part.spot or Spot(1, 1)
        further = line - self._lines[number]
        column = at - line_start + 1 if further else part.spot.column + at - self._starts[number]
        return Spot(part.spot.line + further, column)
