"""Sets of TCP ports, in the notation of `net.ipv4.ip_local_reserved_ports`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class PortSet:
    """An immutable set of ports 0–65535, kept as sorted, disjoint, non-adjacent inclusive ranges.

    Sets are compared, never strings: the kernel prints merged ranges whatever was written.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> "PortSet":
        """Return the union of inclusive ranges in any order. Overlapping and adjacent ones are merged."""
        merged: list[tuple[int, int]] = []
        for low, high in sorted(ranges):
            if not 0 <= low <= high <= 65535:
                raise ValueError(f"{low}-{high} is not a range of ports from 0 to 65535")
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    @classmethod
    def parse(cls, text: str) -> "PortSet":
        """Parse `60000-60031,61000`. Empty text is the empty set.

        Raises ValueError, as the kernel does, for blanks inside, descending ranges and ports above 65535. A trailing
        comma is accepted, a leading one is not (kernel documentation, ip-sysctl; measured on Linux 6.18).
        """
        text = text.strip()
        if not text:
            return cls()
        ranges = []
        for item in text.removesuffix(",").split(","):
            low, dash, high = item.partition("-")
            if not (low.isascii() and low.isdigit()) or (dash and not (high.isascii() and high.isdigit())):
                raise ValueError(f"{item!r} is neither a port nor a range such as 60000-60031")
            ranges.append((int(low), int(high) if dash else int(low)))
        return cls.of(ranges)

    def __str__(self) -> str:
        return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __or__(self, other: "PortSet") -> "PortSet":
        return PortSet.of(self.ranges + other.ranges)

    def __sub__(self, other: "PortSet") -> "PortSet":
        if self.ranges == other.ranges:  # the common case by far
            return PortSet()
        remaining: list[tuple[int, int]] = []
        for low, high in self.ranges:
            for cut_low, cut_high in other.ranges:
                if cut_high < low or cut_low > high:
                    continue
                if cut_low > low:
                    remaining.append((low, cut_low - 1))
                low = cut_high + 1
            if low <= high:
                remaining.append((low, high))
        return PortSet.of(remaining)

    def __le__(self, other: "PortSet") -> bool:
        return not self - other

    def __contains__(self, port: int) -> bool:
        return any(low <= port <= high for low, high in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for low, high in self.ranges:
            yield from range(low, high + 1)

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.ranges)
