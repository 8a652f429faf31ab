"""Folding of names into the shortest text of ranges that `hostset.expand` reads back in the same order."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_NUMBERS = re.compile(r"([0-9]+)")
_MOST_DIGITS = 9  # of a number in brackets


@dataclass(frozen=True)
class NameRange:
    """Range of words in which one number counts up.

    `first` alternates text and numbers: ("node", "01", ".cluster"). `at` is the index of the number that counts up,
    or -1 before the second word.
    """

    first: tuple[str, ...]
    length: int = 1
    at: int = -1

    def followed_by(self, word: tuple[str, ...]) -> "NameRange | None":
        """Return the range extended by the word; None if the word does not continue it."""
        at = self.at if self.at >= 0 else self._differs_at(word)
        counts = at >= 0 and word == self._nth(self.length, at) and len(word[at]) <= _MOST_DIGITS
        return NameRange(self.first, self.length + 1, at) if counts else None

    def _differs_at(self, word: tuple[str, ...]) -> int:
        """Return the index of the only number that differs; -1 if there is none."""
        if len(word) != len(self.first):
            return -1
        differences = [n for n, (old, new) in enumerate(zip(self.first, word, strict=True)) if old != new]
        return differences[0] if len(differences) == 1 and differences[0] % 2 else -1

    def _nth(self, n: int, at: int) -> tuple[str, ...]:
        low = self.first[at]
        return (*self.first[:at], f"{int(low) + n:0{len(low)}d}", *self.first[at + 1 :])

    @property
    def text(self) -> str:
        if self.length == 1:
            return "".join(self.first)
        last = self._nth(self.length - 1, self.at)[self.at]
        return "".join([*self.first[: self.at], f"[{self.first[self.at]}-{last}]", *self.first[self.at + 1 :]])


def parts_of(word: str) -> tuple[str, ...]:
    """Return "node01.b" as ("node", "01", ".b"). An IPv6 address is one part: its numbers are hexadecimal."""
    return (word,) if ":" in word else tuple(_NUMBERS.split(word))


def ranges(rows: Iterable[Sequence[str]]) -> Iterator[tuple[NameRange, ...]]:
    """Yield a range for each column of the rows. It ends where not all columns count up together."""
    current: tuple[NameRange, ...] = ()
    for row in rows:
        words = [parts_of(word) for word in row]
        extended = _extended(current, words) if current else ()
        if current and not extended:
            yield current
        current = extended or tuple(map(NameRange, words))
    if current:
        yield current


def _extended(columns: tuple[NameRange, ...], words: Sequence[tuple[str, ...]]) -> tuple[NameRange, ...]:
    """Return the ranges extended by a word each; empty if one of them ends."""
    extended = [column.followed_by(word) for column, word in zip(columns, words, strict=True)]
    return tuple(column for column in extended if column) if all(extended) else ()


def fold(names: Iterable[str]) -> str:
    """Return ("n1", "n2", "a", "n3") as "n[1-2],a,n3"."""
    return ",".join(column.text for (column,) in ranges((name,) for name in names))
