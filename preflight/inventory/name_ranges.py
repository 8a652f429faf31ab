"""Names in order → the shortest text of ranges that `hostset.expand` reads back in the same order."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_NUMBERS = re.compile(r"([0-9]+)")
_MOST_DIGITS = 9  # of a number in brackets


@dataclass(frozen=True)
class NameRange:
    """Words of which one number counts up. `words` with text and numbers in turn: ("node", "01", ".cluster")."""

    first: tuple[str, ...]
    length: int = 1
    at: int = -1  # which part counts; -1: not known before the second word

    def followed_by(self, word: tuple[str, ...]) -> "NameRange | None":
        """The run with one word more; None where that does not go on."""
        at = self.at if self.at >= 0 else self._differs_at(word)
        counts = at >= 0 and word == self._nth(self.length, at) and len(word[at]) <= _MOST_DIGITS
        return NameRange(self.first, self.length + 1, at) if counts else None

    def _differs_at(self, word: tuple[str, ...]) -> int:
        """The one number in which the word is another one; -1 where there is none such."""
        if len(word) != len(self.first):
            return -1
        differ = [n for n, (one, other) in enumerate(zip(self.first, word, strict=True)) if one != other]
        return differ[0] if len(differ) == 1 and differ[0] % 2 else -1

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
    """ "node01.b" → ("node", "01", ".b"); an IPv6 address has no numbers to count, they are hexadecimal."""
    return (word,) if ":" in word else tuple(_NUMBERS.split(word))


def runs(rows: Iterable[Sequence[str]]) -> Iterator[tuple[NameRange, ...]]:
    """Rows of as many words each, a run a column: it goes on as long as all columns count up together."""
    current: tuple[NameRange, ...] | None = None
    for row in rows:
        words = [parts_of(word) for word in row]
        longer = current and [run.followed_by(word) for run, word in zip(current, words, strict=True)]
        if longer and all(longer):
            current = tuple(run for run in longer if run)
        else:
            if current:
                yield current
            current = tuple(map(NameRange, words))
    if current:
        yield current


def fold(names: Iterable[str]) -> str:
    """("n1", "n2", "a", "n3") → "n[1-2],a,n3"."""
    return ",".join(run.text for (run,) in runs((name,) for name in names))
