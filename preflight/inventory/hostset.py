"""Sets of host names in ClusterShell's notation: node[01-16],gpu7."""

import difflib
import re
from collections.abc import Iterable

from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError

MOST_HOSTS = 65536
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?")


def expand(text: str) -> tuple[str, ...]:
    """`node[01-03]` → ("node01", "node02", "node03"), in the order written.

    Raises ValueError with a sentence for unbalanced brackets, descending ranges, mixed padding, more than 65,536 names,
    and anything that is no host name or address. Brackets are expanded by ClusterShell without its group files.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    for low, high in re.findall(r"(\d+)-(\d+)", " ".join(re.findall(r"\[([^\]]*)\]", text))):
        if int(low) > int(high):
            raise ValueError(f"{text!r}: the range {low}-{high} goes down")
        if (low.startswith("0") or high.startswith("0")) and len(low) != len(high):
            raise ValueError(f"{text!r}: {low} and {high} are padded differently")
        if int(high) - int(low) >= MOST_HOSTS:
            raise ValueError(f"{text!r}: more than {MOST_HOSTS} names")
    if text.count("[") != text.count("]"):
        raise ValueError(f"{text!r}: brackets do not match")
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        try:
            names += NodeSet(part.strip(), resolver=RESOLVER_NOGROUP)
        except (NodeSetException, ValueError, IndexError) as error:
            raise ValueError(f"{text!r}: not a host set like node[01-16]: {error}") from error
    if len(names) > MOST_HOSTS:
        raise ValueError(f"{text!r}: more than {MOST_HOSTS} names")
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no host name")
    if not names:
        raise ValueError(f"{text!r} names no host")
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """("node01", "node02", "gpu7") → "gpu7,node[01-02]"; for display."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    wanted = list(names)
    try:
        return str(NodeSet.fromlist(wanted, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, ValueError):
        return ",".join(wanted)


def limit(cluster: Cluster, text: str) -> tuple[Host, ...]:
    """The hosts of `cluster` that `text` names, in inventory order. Raises UsageError for names it does not have."""
    try:
        wanted = set(expand(text))
    except ValueError as error:
        raise UsageError(f"--limit {error}") from error
    known = {host.name for host in cluster.hosts}
    for name in sorted(wanted - known):
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"it has {fold(known)}"
        raise UsageError(f"--limit {text}: the inventory has no host {name}; {hint}")
    return tuple(host for host in cluster.hosts if host.name in wanted)
