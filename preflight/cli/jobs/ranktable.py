"""Write the rank table of the inventory's hosts from what their devices have; or judge one that is there.

  preflight ranktable -i hosts.toml -o hccl.json
  preflight ranktable -i hosts.toml --push /data/hccl.json
  preflight ranktable --check hccl.json [-i hosts.toml]

The addresses are those of the devices, not those that are planned: where both differ, that is said, and ends with 1.
Where a host was not seen nothing is written, and it ends with 3. Servers stand in the lexical order of server_id, as
MindSpore wants it and HCCL takes it. --check without an inventory contacts nobody, and ends with 2 where the table
breaks a rule of HCCL; with one, it ends with 1 where hosts are otherwise.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from preflight.app.session import (
    DEFAULT_INVENTORY,
    add_inventory_arguments,
    devices,
    refuse_existing,
    refuse_place,
    session,
    write_whole,
)
from preflight.cli.changes.questions import refuse_what_cannot_be_asked
from preflight.cli.wrapped import wrapped
from preflight.model.errors import NotSeenError, PreflightError, UsageError
from preflight.provision.host_run import CONFIRM_SECONDS
from preflight.provision.rollout import Batch

if TYPE_CHECKING:
    from preflight.facts.types import ClusterFacts
    from preflight.model.cluster import Cluster, Host
    from preflight.ranktable.build import BuildOptions, BuildResult

_SHOWN = 20  # of one kind


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.set_defaults(inventory=None)
    parser.add_argument("--from", dest="source", type=Path, metavar="FACTS", help="saved facts, or a capture: offline")
    parser.add_argument(
        "-o", "--out", metavar="FILE", help="where to write the table; - is stdout. With --check: console or json"
    )
    parser.add_argument("--force", action="store_true", help="write over what is there already")
    parser.add_argument("--devices", type=devices, default=(), metavar="IDS", help="of every host: 0-3, or 0,1")
    parser.add_argument(
        "--order",
        choices=("mindspore", "inventory"),
        default="mindspore",
        help="of servers: lexical by server_id (the default), or as the inventory has them",
    )
    parser.add_argument(
        "--format",
        choices=("1.0", "1.2"),
        default="",
        help="default: 1.2 where the inventory says superpod = true, else 1.0",
    )
    parser.add_argument("--push", metavar="PATH", help="put the table there on every host, at this absolute path")
    parser.add_argument("--dry-run", action="store_true", help="with --push: only show what would be changed")
    parser.add_argument(
        "--check", type=Path, metavar="FILE", help="judge this rank table; with -i or --from, beside its hosts"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="with --push: do not ask")
    # The same options as for all changes. Writing a file disturbs no job, and needs no confirmation.
    parser.set_defaults(canary=None, batch=Batch(), max_fail=0, confirm_within=CONFIRM_SECONDS)


def run(args: argparse.Namespace) -> int:
    if args.check:
        from preflight.cli.jobs.ranktable_check import check

        return check(args)
    _refuse(args)
    if args.source:
        from preflight.app.saved import load_saved

        args.inventory = args.inventory or DEFAULT_INVENTORY
        saved = load_saved(args)
        print(f"preflight: {saved.note}", file=sys.stderr)
        return _finish(args, *_table(args, saved.cluster, saved.hosts, lambda: saved.facts))
    from preflight.app.rank_table_facts import look
    from preflight.ranktable.build import version_of

    args.inventory = args.inventory or DEFAULT_INVENTORY
    with session(args) as s:
        version = version_of(s.cluster, _wanted(args))
        text, built = _table(args, s.cluster, s.hosts, lambda: look(s, args.pool, version))
        s.progress.clear()
        if not args.push:
            return _finish(args, text, built)
        from preflight.cli.jobs.ranktable_push import push

        if built.differences:
            _say(built.differences)
            raise PreflightError("nothing was pushed; configure the devices, or learn the inventory from them")
        if args.out:
            _finish(args, text, built)
        return push(args, s, text)


def _refuse(args: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict each other, before any host is contacted."""
    if not args.out and not args.push:
        raise UsageError("say where the table goes: -o FILE, -o - for stdout, or --push PATH for all hosts")
    if args.out in ("json", "console"):
        raise UsageError(f"-o {args.out} belongs to --check; to write a file of that name: -o ./{args.out}")
    if args.out and args.out != "-":
        refuse_existing(Path(args.out), force=args.force)
        refuse_place(Path(args.out), "-o")
    if args.dry_run and not args.push:
        raise UsageError("--dry-run belongs to --push; -o - writes the table on stdout alone")
    if args.push:
        from preflight.cli.jobs.ranktable_push import refuse_path

        if args.source:
            raise UsageError("--push goes to the hosts, and --from contacts nobody; leave one of them out")
        refuse_path(args.push)
        args.output = "console"
        refuse_what_cannot_be_asked(args, dry_run=args.dry_run)


def _wanted(args: argparse.Namespace) -> "BuildOptions":
    from preflight.ranktable.build import BuildOptions, ServerOrder

    return BuildOptions(args.devices, ServerOrder(args.order), args.format)


def _table(
    args: argparse.Namespace, cluster: "Cluster", hosts: "Sequence[Host]", facts: "Callable[[], ClusterFacts]"
) -> "tuple[str, BuildResult]":
    """Return the table's text and its source.

    Raise UsageError for hosts and devices that cannot have a table, and PreflightError or NotSeenError if none can be
    built.
    """
    from preflight.ranktable.build import build, version_of
    from preflight.ranktable.planned import judge_planned
    from preflight.ranktable.read import read
    from preflight.ranktable.write import text_of

    wanted = _wanted(args)
    _refuse_product(cluster, version_of(cluster, wanted))
    _refuse_devices(args, cluster, hosts)
    built = build(cluster, hosts, facts(), wanted)
    if built.table is None:
        _say((*built.unseen, *built.lacking, *built.differences))
        if built.lacking:
            raise PreflightError("so there is no rank table of these hosts: nothing was written")
        raise NotSeenError(
            "a rank table without them would be another one: nothing was written; --limit leaves them out"
        )
    text = text_of(built.table)
    problems = judge_planned(read(text), cluster)
    if wrong := [problem.text for problem in problems if not problem.warning]:
        _say(wrong)
        raise PreflightError("what the devices have makes no rank table that HCCL takes: nothing was written")
    _say([problem.text for problem in problems])
    addresses = [host.address for host in hosts]
    if [server.id for server in built.table.servers] != addresses and args.order != "inventory":
        _say(["servers are in the lexical order of server_id, not in that of the inventory (--order inventory)"])
    return text, built


def _refuse_product(cluster: "Cluster", version: str) -> None:
    from preflight.model.cluster import Product

    if not cluster.product.is_npu:
        raise UsageError(f"{cluster.product} devices have no rank table: HCCL reads it, on Ascend NPUs")
    if version == "1.2" and cluster.product is not Product.ATLAS_A3:
        raise UsageError(f"version 1.2 is of super-pods of atlas-a3; {cluster.product} has 1.0")


def _refuse_devices(args: argparse.Namespace, cluster: "Cluster", hosts: "Sequence[Host]") -> None:
    """Raise UsageError if the product does not support this set of devices, or if a host lacks one."""
    from preflight.ranktable.device_sets import device_set_problems

    sets = [(host.name, args.devices or tuple(device.index for device in host.devices)) for host in hosts]
    for host in hosts:
        if none := sorted(set(args.devices) - {device.index for device in host.devices}):
            raise UsageError(f"--devices: {host.name} has no device {none[0]}, by the inventory")
    for problem in device_set_problems(cluster.product, [((), name, wanted) for name, wanted in sets]):
        if not problem.warning:
            raise UsageError(problem.text)


def _say(sentences: Sequence[str]) -> None:
    for sentence in sentences[:_SHOWN]:
        print("\n".join(wrapped(f"! {sentence}")), file=sys.stderr)
    if len(sentences) > _SHOWN:
        print(f"! … and {len(sentences) - _SHOWN} more", file=sys.stderr)


def _finish(args: argparse.Namespace, text: str, built: "BuildResult") -> int:
    """Write the table and return the exit code."""
    from preflight.cli.jobs.ranktable_check import described

    _say(built.differences)
    if args.out == "-":
        sys.stdout.write(text)
    else:
        write_whole(Path(args.out), text, "the rank table")
        print(f"{args.out}: {described(text)}")
        words = ["preflight", "ranktable", "--check", args.out, "--inventory", str(args.inventory)]
        print(f"next: {shlex.join(words)}")
    return 1 if built.differences else 0
