"""A rank table that is compared with live hosts, or with saved facts of them."""

import argparse
from collections.abc import Callable, Sequence

from preflight.app.jobs.rank_table_facts import rank_table_facts
from preflight.app.saved.load_saved import load_saved
from preflight.app.session import session
from preflight.cli.jobs.ranktable_check import CheckedTable, digest, is_wrong, refuse_without_rank_table
from preflight.cli.options import host_options
from preflight.facts.types import ClusterFacts
from preflight.inventory import load
from preflight.model.cluster import Cluster, Host
from preflight.ranktable.live import TableComparison, compare
from preflight.ranktable.types import TableProblem

Collected = tuple[Sequence[Host], ClusterFacts]


def compare_with_hosts(
    args: argparse.Namespace, table: CheckedTable
) -> tuple[tuple[TableProblem, ...], TableComparison | None]:
    """Return the table's problems by the inventory, and how hosts differ from it. A wrong table is not compared."""
    args.inventory = args.inventory or args.default_inventory
    if args.source:
        saved = load_saved(args.source, args.inventory, args.limit)
        return _compared(args, table, saved.cluster, lambda _: (saved.hosts, saved.facts))
    cluster = load(args.inventory)

    def collect(version: str) -> Collected:
        with session(host_options(args), cluster) as s:
            return s.hosts, rank_table_facts(s, version, of_jobs=True)

    return _compared(args, table, cluster, collect)


def _compared(
    args: argparse.Namespace, table: CheckedTable, cluster: Cluster, collect: Callable[[str], Collected]
) -> tuple[tuple[TableProblem, ...], TableComparison | None]:
    """Judge the table, and compare it with the collected facts. They depend on the table's version."""
    refuse_without_rank_table(cluster)
    problems, rank_table = table.judged(cluster), table.reading.table
    if is_wrong(problems) or rank_table is None:
        return problems, None
    hosts, facts = collect(rank_table.version)
    return problems, compare(rank_table, hosts, facts, limited=bool(args.limit), digest=digest(table.text))
