"""Slurm's node lists, `node[01-16,20]`: expanded as `scontrol show hostnames` of Slurm 22.05 does, and folded.

Slurm silently misreads some texts (`node[1-` is node1, `node[1-3` the host `node]`, blanks in brackets become zeros).
Those are refused. Text after the last bracket is read, although Slurm refuses it, because sites use it.
"""

import math
import re
from collections.abc import Iterable, Iterator
from itertools import product

from preflight.hostlists.host_list import TextError
from preflight.inventory.hostset import MOST_HOSTS

_TOKEN = re.compile(r"(?P<between>[\s,]+)|\[(?P<ranges>[^\[\]]*)\]|(?P<text>[^\s,\[\]]+)")
_RANGE = re.compile(r"(?P<low>[0-9]{1,9})(?:-(?P<high>[0-9]{1,9}))?")
_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>[0-9]{1,9})", re.DOTALL)

_Ranges = list[tuple[str, str]]
_Word = list[str | _Ranges]  # text and ranges in turn


def expand(text: str) -> list[tuple[str, int]]:
    """Return every name with the offset of its word, in Slurm's order. Repeated names are repeated.

    Raises TextError, also for more than 65,536 names, before they are expanded.
    """
    words = list(_words(text))
    if sum(math.prod(map(_count, word)) for _, word in words) > MOST_HOSTS:
        raise TextError(0, f"the list has more than {MOST_HOSTS} hosts")
    return [(name, at) for at, word in words for name in _names(word)]


def fold(names: Iterable[str]) -> str:
    """Fold names: ("n1", "n2", "n09") → "n[1-2,09]", which Slurm expands to the names in this order."""
    words: list[tuple[str, _Ranges]] = []  # a stem, and its ranges
    for name in names:
        match = _NUMBERED.fullmatch(name)
        stem, number = (match["stem"], match["number"]) if match else (name, "")
        if not number or not words or words[-1][0] != stem or not words[-1][1]:
            words.append((stem, [(number, number)] if number else []))
            continue
        ranges = words[-1][1]
        low, high = ranges[-1]
        if number == f"{int(high) + 1:0{len(low)}d}":
            ranges[-1] = low, number
        else:
            ranges.append((number, number))
    return ",".join(stem + _folded(ranges) for stem, ranges in words)


def _folded(ranges: _Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return ranges[0][0]
    items = ",".join(low if low == high else f"{low}-{high}" for low, high in ranges)
    return f"[{items}]" if items else ""


def _words(text: str) -> Iterator[tuple[int, _Word]]:
    """Yield the words between commas and blanks, each with its offset."""
    word: _Word = []
    begin = at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise TextError(at, "the bracket is never " + ("opened" if text[at] == "]" else "closed"))
        if token["between"] is not None:
            if word:
                yield begin, word
            word = []
        else:
            begin = begin if word else at
            word.append(token["text"] or _ranges(token["ranges"], at + 1))
        at = token.end()
    if word:
        yield begin, word


def _ranges(text: str, at: int) -> _Ranges:
    ranges = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            raise TextError(at, f"{item[:20]!r} is not a range such as 01-16 or 7")
        low, high = match["low"], match["high"] or match["low"]
        if int(high) < int(low):
            raise TextError(at, f"the range {item} is descending")
        ranges.append((low, high))
        at += len(item) + 1
    return ranges


def _count(part: str | _Ranges) -> int:
    return 1 if isinstance(part, str) else sum(int(high) - int(low) + 1 for low, high in part)


def _names(word: _Word) -> Iterator[str]:
    """Yield a word's names: the last bracket counts fastest, then the first, the second and so on.

    Slurm splits a word at all brackets but the last into words, repeatedly from the left.
    """
    brackets = [n for n, part in enumerate(word) if not isinstance(part, str)]
    slowest_first = [*reversed(brackets[:-1]), *brackets[-1:]]
    texts = [part if isinstance(part, str) else "" for part in word]
    for numbers in product(*(list(_numbers(word[n])) for n in slowest_first)):
        for n, number in zip(slowest_first, numbers, strict=True):
            texts[n] = number
        yield "".join(texts)


def _numbers(part: str | _Ranges) -> Iterator[str]:
    """Yield numbers that are padded to the width of the lower end of their range."""
    for low, high in part if not isinstance(part, str) else ():
        yield from (f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1))
