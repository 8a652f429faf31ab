"""Hosts that differ from the majority. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Odd(Generic[T]):
    """A host with a value that is not the majority's. Without a majority no value is right, and every host is odd."""

    host: str
    value: T
    usual: T  # value of the other hosts, the majority or the other side
    others: tuple[str, ...]  # the hosts with that value

    @property
    def elsewhere(self) -> str:
        """The other hosts as `node02, node03, node04 and 5 more`."""
        return ", ".join(self.others[:3]) + (f" and {len(self.others) - 3} more" if len(self.others) > 3 else "")


def odd_ones(values: Mapping[str, T]) -> Iterator[Odd[T]]:
    """Yield the hosts that differ, from `values` by host; nothing where all are equal."""
    hosts: dict[T, list[str]] = defaultdict(list)
    for name, value in values.items():
        hosts[value].append(name)
    ranked = sorted(hosts, key=lambda value: -len(hosts[value]))
    majority = len(ranked) == 1 or (len(ranked) > 1 and len(hosts[ranked[0]]) > len(hosts[ranked[1]]))
    for value in ranked[1 if majority else 0 :]:
        usual = ranked[1] if value == ranked[0] else ranked[0]
        usual_hosts = tuple(hosts[usual])
        for name in hosts[value]:
            yield Odd(name, value, usual, usual_hosts)
