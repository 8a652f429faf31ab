"""A position in a script's text, which moves forward only. Pure."""

import re
from collections.abc import Sequence

from preflight.launch.lint.source_map import SourceMap
from preflight.launch.lint.types import ScriptSpot, WordPart


class Cursor:
    """A position in a text. `parts` are those that the text was joined of, if it is a script within a script."""

    def __init__(self, text: str, parts: Sequence[WordPart] = ()) -> None:
        self.text, self.at = text, 0
        self._source = SourceMap(parts) if parts else None
        self._line, self._line_start = 1, 0

    @property
    def ended(self) -> bool:
        return self.at >= len(self.text)

    @property
    def char(self) -> str:
        """Return the character here, empty at the end."""
        return self.text[self.at : self.at + 1]

    def ahead(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def match(self, pattern: "re.Pattern[str]") -> "re.Match[str] | None":
        return pattern.match(self.text, self.at)

    def find(self, text: str) -> int:
        """Return where a text comes next, or the end."""
        at = self.text.find(text, self.at)
        return len(self.text) if at < 0 else at

    def move(self, to: int) -> None:
        """Go to a position, at most to the end, and count lines."""
        to = min(to, len(self.text))
        lines = self.text.count("\n", self.at, to)
        if lines:
            self._line += lines
            self._line_start = self.text.rfind("\n", self.at, to) + 1
        self.at = to

    def skip(self, count: int = 1) -> None:
        self.move(self.at + count)

    def part(self, end: int, quote: str = "") -> WordPart:
        """Take the text up to `end` as a part of a word."""
        part = WordPart(self.text[self.at : end], quote, self.spot())
        self.move(end)
        return part

    def spot(self) -> ScriptSpot:
        if self._source:
            return self._source.spot(self.at, self._line, self._line_start)
        return ScriptSpot(self._line, self.at - self._line_start + 1)
