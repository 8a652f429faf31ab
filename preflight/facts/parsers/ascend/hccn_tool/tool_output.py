"""Failure texts of `hccn_tool`, and its output as lines and blocks, for all of its parsers.

A saved text often holds the same query of several devices, so every parser returns a tuple, one entry per device. A
query of one device must give exactly one entry.

The exit codes of hccn_tool collide, and some failures end with 0. So its text counts, not its exit code. It ends every
line, so a last line without a line end may be cut: a value that could be longer is not read from it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import TypeVar

from preflight.facts.reading import Found
from preflight.facts.types import Reading
from preflight.model.text import LONGEST_QUOTE, quote

T = TypeVar("T")

LONGEST_OUTPUT = 1 << 20  # characters; the longest answers (all counters of 16 devices) have some 50,000

# Parts of the tool's failure texts (driver source, 910B generation). A line with one of them is a failed query.
_FAILURE = re.compile(
    "|".join(
        map(
            re.escape,
            (
                "hccn_tool is busy",
                "permission denied",
                "not supported on this product",
                "not supported on this optical media",
                "unsupported on this optical module",
                "does not support",
                "Get invalid",
                "Get unknown option",
                "Get lock failed",
                "Get device health status failed",
                "input parameters is wrong",
                "Command execute failed",
                "Cmd execute failed",
                "cmd execute failed",
                "The device is not exist",
                "The device is occupied",
                "Control link unreachable",
                "Optical module is not present",
                "optical module initializing",
                "I2c is busy",
                "Link status is down",
                "execute timeout",
                "hccn.conf can't access",
            ),
        )
    )
)


class NotUnderstoodError(ValueError):
    """An answer that does not fit its query, with the reason as a sentence."""


@dataclass(frozen=True)
class OutputLine:
    """A line without the blanks around it. `whole` False: it has no line end, as the text ends there."""

    text: str
    whole: bool = True


def lines(text: str) -> Iterator[OutputLine]:
    """Yield the lines of `text` that are not empty."""
    *complete_lines, tail = text.split("\n")
    for line in complete_lines:
        if line := line.strip():
            yield OutputLine(line)
    if tail := tail.strip():
        yield OutputLine(tail, whole=False)


def failure(line: str) -> str:
    """Return the line if it is a failure text, else "". It is quoted if it is long or has control characters."""
    if not _FAILURE.search(line):
        return ""
    return line if line.isprintable() and len(line) <= LONGEST_QUOTE else quote(line)


def not_understood(text: str) -> str:
    start = text[: 100 * LONGEST_QUOTE]  # the text may have any length
    return (
        f"hccn_tool printed {quote(start)}, which is not recognized" if start.strip() else "hccn_tool printed nothing"
    )


def is_silent(text: str) -> bool:
    return len(text) <= LONGEST_OUTPUT and not text.strip()


def too_long(text: str) -> str:
    """Return why `text` is too long to be parsed, else ""."""
    if len(text) <= LONGEST_OUTPUT:
        return ""
    return f"hccn_tool never prints {len(text)} characters; these begin with {quote(text[: 100 * LONGEST_QUOTE])}"


def cut(line: OutputLine) -> str:
    return f"the output of hccn_tool ends in the middle of the line {quote(line.text)}"


def each_line(
    text: str,
    pattern: re.Pattern[str],
    make: Callable[[str], T | None],
    *,
    unset: str | None = None,
    closed: bool = False,
) -> tuple[Found[T], ...]:
    """Return an entry for every line that matches `pattern`, contains `unset`, or is a failure.

    For queries with an answer of one line. `make` converts the pattern's group. Other lines are ignored. `closed`: a
    line that matches is complete even without a line end.
    """
    if error := too_long(text):
        return (Found(error=error),)
    entries: list[Found[T]] = []
    for line in lines(text):
        if match := pattern.fullmatch(line.text):
            entries.append(Found(make(match.group(1))) if line.whole or closed else Found(error=cut(line)))
        elif unset is not None and unset in line.text:
            entries.append(Found())
        elif error := failure(line.text):
            entries.append(Found(error=error))
    return tuple(entries) or (Found(error=not_understood(text)),)


def readings(
    text: str, pattern: re.Pattern[str], unset: str | None = None, *, closed: bool = False
) -> tuple[Reading, ...]:
    """Return the entries of `each_line` as the tool spells them."""
    return each_line(text, pattern, str, unset=unset, closed=closed)


def _never(_: str) -> bool:
    return False


def blocks(
    text: str,
    starts: Callable[[str], object],
    read: Callable[[list[str]], T],
    closed: Callable[[str], object] = _never,
) -> tuple[Found[T], ...]:
    """Return an entry for every block, through `read`, and for every failure.

    For queries with an answer of several lines. A block begins with a line that `starts` one, and ends before the next
    such line or failure. If `read` does not understand a block with a failure in it, the failure is the reason. Lines
    before the first block are ignored. `read` raises NotUnderstoodError. `closed`: tells which last lines are complete
    without a line end.
    """
    if error := too_long(text):
        return (Found(error=error),)
    entries: list[Found[T]] = []
    block: list[str] = []
    for line in lines(text):
        if starts(line.text):
            entries += _block_entries(block, read)
            block = [line.text]
        elif error := failure(line.text):
            entries += _block_entries(block, read, error)
            block = []
        elif block:
            block.append(line.text)
        if not line.whole and block and not closed(line.text):
            block = []
            entries.append(Found(error=cut(line)))
    entries += _block_entries(block, read)
    return tuple(entries) or (Found(error=not_understood(text)),)


def _block_entries(block: list[str], read: Callable[[list[str]], T], error: str = "") -> Iterator[Found[T]]:
    """Yield the entry of a block, and that of the failure below it, unless it is why the block is not recognized."""
    if block:
        try:
            yield Found(read(block))
        except NotUnderstoodError as exception:
            yield Found(error=error or str(exception))
            return
    if error:
        yield Found(error=error)


def fields(block: list[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Return name and value of the lines that match `pattern`.

    Raises NotUnderstoodError for a name that comes twice, as two answers are mixed then.
    """
    values: dict[str, str] = {}
    for line in block:
        if match := pattern.fullmatch(line):
            name, value = match.groups()
            if name in values:
                raise NotUnderstoodError(f"hccn_tool reports {quote(name)} twice in one answer")
            values[name] = value
    return values


def as_address(reading: Reading) -> Reading:
    """Return the reading if it is an IPv4 address, else an error; 0.0.0.0 means "not set"."""
    if reading.value is None:
        return reading
    try:
        return Reading(None if int(IPv4Address(reading.value)) == 0 else reading.value)
    except AddressValueError:
        return Reading(error=f"{quote(reading.value)} is not an IPv4 address")
