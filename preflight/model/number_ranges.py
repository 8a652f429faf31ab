"""Sets of numbers in words. Pure."""

from collections.abc import Iterable


def number_ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as ranges: 0-3,6."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ",".join(f"{low}-{high}" if low != high else f"{low}" for low, high in ranges)
