"""`--from`: facts that were saved, or a capture, whose raw output is read again; with the cluster to judge them by."""

import argparse
from pathlib import Path
from typing import NamedTuple

from preflight.cli.common import DEFAULT_INVENTORY
from preflight.facts.types import ClusterFacts
from preflight.model.cluster import Cluster, Host


class Saved(NamedTuple):
    """`hosts`: of the cluster, those that --limit leaves. `note`: where all this comes from."""

    cluster: Cluster
    hosts: tuple[Host, ...]
    facts: ClusterFacts
    note: str


def load_saved(args: argparse.Namespace) -> Saved:
    """What `args.source` holds. A capture is judged by the inventory that it holds, unless --inventory names another.
    Raises UsageError and InventoryError."""
    from preflight.facts import capture, document
    from preflight.facts.seen import Seen
    from preflight.inventory import limit, load, parse

    text = document.text_of(args.source)
    if not capture.is_capture(text):
        cluster = load(args.inventory)
        hosts = cluster.hosts if args.limit is None else limit(cluster, args.limit)
        facts = document.load(text, str(args.source))
        return Saved(cluster, hosts, facts, f"facts from {args.source}; nobody was contacted")
    found = capture.load(text, str(args.source))
    own = args.inventory is DEFAULT_INVENTORY
    cluster = parse(found.inventory, Path(f"{args.source}: inventory")) if own else load(args.inventory)
    hosts = cluster.hosts if args.limit is None else limit(cluster, args.limit)
    seen = capture.read(found, cluster, hosts)
    facts = ClusterFacts({name: it.facts if isinstance(it, Seen) else it for name, it in seen.items()})
    by = "its own inventory" if own else str(args.inventory)
    note = f"read again from {args.source}, taken {found.taken}, and judged by {by}; nobody was contacted"
    return Saved(cluster, hosts, facts, note)
