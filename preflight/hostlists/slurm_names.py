"""Slurm's host lists, `node[01-16,20]`: expanded as `scontrol show hostnames` of Slurm 22.05 does, and folded.

Slurm silently misreads some texts (`node[1-` is node1, `node[1-3` the host `node]`, blanks in brackets become zeros):
these are refused. What it refuses, and sites have all the same, is read: text behind the last bracket.
"""

import math
import re
from collections.abc import Iterable, Iterator
from itertools import product

from preflight.hostlists.listed import TextError
from preflight.inventory.hostset import MOST_HOSTS

_TOKEN = re.compile(r"(?P<between>[\s,]+)|\[(?P<ranges>[^\[\]]*)\]|(?P<text>[^\s,\[\]]+)")
_RANGE = re.compile(r"(?P<low>[0-9]{1,9})(?:-(?P<high>[0-9]{1,9}))?")
_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>[0-9]{1,9})", re.DOTALL)

_Ranges = list[tuple[str, str]]
_Part = str | _Ranges


def expand(text: str) -> list[tuple[str, int]]:
    """Every name with the offset of its word: in Slurm's order, what is written twice twice. Raises TextError, also for
    more than 65,536 names, before they are written out."""
    words = list(_words(text))
    if sum(math.prod(_count(part) for part in parts) for _, parts in words) > MOST_HOSTS:
        raise TextError(0, f"names more than {MOST_HOSTS} hosts")
    return [(name, at) for at, parts in words for name in _names(parts)]


def fold(names: Iterable[str]) -> str:
    """The names as Slurm reads them back, in this order: ("n1", "n2", "n09") → "n[1-2,09]"."""
    words: list[tuple[str, list[tuple[str, str]]]] = []  # a stem, and its ranges
    for name in names:
        match = _NUMBERED.fullmatch(name)
        stem, number = (match["stem"], match["number"]) if match else (name, "")
        if not number or not words or words[-1][0] != stem or not words[-1][1]:
            words.append((stem, [(number, number)] if number else []))
        elif number == _after(*words[-1][1][-1]):
            words[-1][1][-1] = words[-1][1][-1][0], number
        else:
            words[-1][1].append((number, number))
    return ",".join(stem + _written(ranges) for stem, ranges in words)


def _after(low: str, high: str) -> str:
    return f"{int(high) + 1:0{len(low)}d}"


def _written(ranges: _Ranges) -> str:
    items = [low if low == high else f"{low}-{high}" for low, high in ranges]
    return "" if not items else items[0] if len(ranges) == 1 and "-" not in items[0] else f"[{','.join(items)}]"


def _words(text: str) -> Iterator[tuple[int, list[_Part]]]:
    """The words between commas and blanks, each with its offset, as text and ranges in turn."""
    parts: list[_Part] = []
    begin = at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            lone = "is closed, and was not opened" if text[at] == "]" else "is opened, and not closed"
            raise TextError(at, f"the bracket {lone}")
        if token["between"] is not None:
            if parts:
                yield begin, parts
            parts = []
        else:
            begin = begin if parts else at
            parts.append(token["text"] or _ranges(token["ranges"], at + 1))
        at = token.end()
    if parts:
        yield begin, parts


def _ranges(text: str, at: int) -> _Ranges:
    found = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            raise TextError(at, f"{item[:20]!r} is no range such as 01-16 or 7")
        low, high = match["low"], match["high"] or match["low"]
        if int(high) < int(low):
            raise TextError(at, f"the range {item} goes down")
        found.append((low, high))
        at += len(item) + 1
    return found


def _count(part: _Part) -> int:
    return 1 if isinstance(part, str) else sum(int(high) - int(low) + 1 for low, high in part)


def _names(parts: list[_Part]) -> Iterator[str]:
    """The last bracket counts fastest, then the first, the second …: Slurm takes all but the last apart into words of
    their own, again and again from the left."""
    brackets = [n for n, part in enumerate(parts) if not isinstance(part, str)]
    fastest_first = [*brackets[-1:], *brackets[:-1]]
    said = [part if isinstance(part, str) else "" for part in parts]
    for numbers in product(*(list(_numbers(parts[n])) for n in reversed(fastest_first))):
        for n, number in zip(reversed(fastest_first), numbers, strict=True):
            said[n] = number
        yield "".join(said)


def _numbers(part: _Part) -> Iterator[str]:
    """A range is padded as wide as its lower end."""
    for low, high in part if not isinstance(part, str) else ():
        yield from (f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1))
