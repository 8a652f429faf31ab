"""Sets of host names in ClusterShell's notation: node[01-16],gpu7."""

import difflib
import math
import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise

from preflight.inventory.errors import shown
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError

MOST_HOSTS = 65536

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_LONGEST_NAME = 253  # characters that DNS allows
_LONGEST_LIST = 120  # characters of a list of hosts in a sentence


def expand(text: str) -> tuple[str, ...]:
    """Return `node[01-03]` as ("node01", "node02", "node03"), in the order written.

    Raises ValueError for brackets that do not match, for descending ranges and for different padding.
    Also for more than 65,536 names, and for text that is neither a host name nor an address.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    outside = _BRACKETS.sub("", text)
    if "[" in outside or "]" in outside:
        raise ValueError("the brackets do not match")
    parts = _parts(text, ",")
    _count(parts)
    for content in _BRACKETS.findall(text):
        _check_order(content)
    if wrong := re.search(r"[^A-Za-z0-9._:-]", "".join(_parts(outside, ","))):
        raise ValueError(f"{shown(text)} is not a host name: it has {wrong[0]!r}")
    # NodeSet sorts and merges names. With one part at a time and ascending ranges, it keeps our order.
    names = [name for part in parts if part for name in NodeSet(part, resolver=RESOLVER_NOGROUP)]
    if not names:
        raise ValueError(f"{shown(text)} contains no host name")
    for name in names:
        check_name(name)
    return tuple(names)


def _parts(text: str, separators: str) -> list[str]:
    """Return `a[1,2],b` as ["a[1,2]", "b"]."""
    return [part.strip() for part in re.split(rf"[{separators}](?![^\[\]]*\])", text)]


def _count(parts: Iterable[str]) -> int:
    """Return the number of names in ["rack[1-2]node[01-16]", …].

    Raises ValueError for invalid ranges and for more than 65,536 names.
    """
    count = 0
    for part in parts:
        count += math.prod(
            sum(int(high) - int(low) + 1 for low, high in _ranges(content)) for content in _BRACKETS.findall(part)
        )
    if count > MOST_HOSTS:
        raise ValueError(f"more than {MOST_HOSTS} names")
    return count


def _ranges(content: str) -> list[tuple[str, str]]:
    """Return `01-04,7` as [("01", "04"), ("7", "7")]."""
    ranges = []
    for item in content.split(","):
        match = _RANGE.fullmatch(item.strip())
        if not match:
            raise ValueError(f"{shown(f'[{content}]')} is not a range such as [01-16] or [1-4,7]")
        low, high = match[1], match[2] or match[1]
        if int(high) < int(low):
            raise ValueError(f"the range {low}-{high} is descending")
        ranges.append((low, high))
    return ranges


def _check_order(content: str) -> None:
    """Raise ValueError for ranges that NodeSet would silently reorder, merge or pad differently."""
    ranges = _ranges(content)
    for (_, high), (low, _) in pairwise(ranges):
        if int(low) <= int(high):
            raise ValueError(f"{shown(f'[{content}]')} is not in ascending order")
    _check_padding([number for pair in ranges for number in pair])


def _check_padding(numbers: list[str]) -> None:
    padded = next((number for number in numbers if number.startswith("0") and len(number) > 1), None)
    if padded is None:
        return
    for number in numbers:
        if len(number) != len(padded):
            raise ValueError(f"{padded} and {number} have different numbers of digits")


def check_name(name: str) -> None:
    """Raise ValueError unless `name` can be a host's name or address. It never looks like an option."""
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"{shown(name)} is longer than {_LONGEST_NAME} characters")
    try:
        if re.fullmatch(r"[0-9.]+", name):
            IPv4Address(name)
        elif ":" in name:
            IPv6Address(name)
        elif not _NAME.fullmatch(name):
            raise ValueError(name)
    except ValueError as error:
        raise ValueError(f"{shown(name)} is neither a host name nor an address") from error


def fold(names: Iterable[str]) -> str:
    """Return ("node01", "node02", "gpu7") as "gpu7,node[01-02]", for display.

    Names that NodeSet cannot read become a list with commas.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    name_list = list(names)
    try:
        return str(NodeSet.fromlist(name_list, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, ValueError):
        return ",".join(name_list)


def limit(cluster: Cluster, text: str) -> tuple[Host, ...]:
    """Return the hosts of `cluster` in `text`, in inventory order: node[01-03],node07 or node[01-16]!node03.

    All of ClusterShell's operators work, its groups do not. Raises UsageError for names that the inventory lacks.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        _count(_parts(text, ",!&^"))  # before NodeSet writes them all out
        requested = set(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, ValueError) as error:
        raise UsageError(f"--limit {text} is not a set of hosts such as node[01-16],node20: {error}") from error
    if not requested:
        raise UsageError(f"--limit {text!r} contains no host")
    names = {host.name for host in cluster.hosts}
    if unknown := sorted(requested - names):
        close = difflib.get_close_matches(unknown[0], names, 1)
        hint = f"Did you mean {close[0]}?" if close else f"Its hosts: {_brief(names)}"
        raise UsageError(f"--limit {text}: the inventory has no host {_brief(unknown)}. {hint}")
    return tuple(host for host in cluster.hosts if host.name in requested)


def _brief(names: Iterable[str]) -> str:
    text = fold(names)
    return text if len(text) <= _LONGEST_LIST else f"{text[:_LONGEST_LIST]}…"
