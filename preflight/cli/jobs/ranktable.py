"""`preflight ranktable`: the rank table of live hosts or of saved facts."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from preflight.app.files import refuse_existing, refuse_place, write_whole
from preflight.app.jobs.rank_table_facts import rank_table_facts
from preflight.app.saved.load_saved import load_saved
from preflight.app.session import session
from preflight.cli.changes.questions import refuse_what_cannot_be_asked
from preflight.cli.jobs.ranktable_check import described, refuse_without_rank_table
from preflight.cli.jobs.ranktable_push import push, refuse_path
from preflight.cli.options import host_options
from preflight.cli.wrapped import wrapped
from preflight.facts.types import ClusterFacts
from preflight.model.cluster import Cluster, Host, Product
from preflight.model.errors import NotSeenError, PreflightError, UsageError
from preflight.ranktable.build import BuildOptions, BuildResult, ServerOrder, build, version_of
from preflight.ranktable.device_sets import device_set_problems
from preflight.ranktable.planned import judge_planned
from preflight.ranktable.read import read
from preflight.ranktable.write import text_of

_SHOWN = 20  # of one kind


def write_or_push(args: argparse.Namespace) -> int:
    """Build a rank table, and write it here or on all hosts. Return the exit code."""
    _refuse(args)
    args.inventory = args.inventory or args.default_inventory
    if args.source:
        saved = load_saved(args.source, args.inventory, args.limit)
        print(f"preflight: {saved.note}", file=sys.stderr)
        return _finish(args, *_table(args, saved.cluster, saved.hosts, lambda: saved.facts))
    with session(host_options(args)) as s:
        version = version_of(s.cluster, _wanted(args))
        text, built = _table(args, s.cluster, s.hosts, lambda: rank_table_facts(s, version))
        s.progress.clear()
        if not args.push:
            return _finish(args, text, built)
        if built.differences:
            _say(built.differences)
            raise PreflightError(
                "nothing was pushed, since devices differ from the inventory. To configure them: preflight configure"
            )
        if args.out:
            _finish(args, text, built)
        return push(args, s, text)


def _refuse(args: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict each other, before any host is contacted."""
    if not args.out and not args.push:
        raise UsageError("ranktable needs -o FILE, -o - for stdout, or --push PATH for all hosts")
    if args.out in ("json", "console"):
        raise UsageError(f"-o {args.out} is for --check. To write a file of that name: -o ./{args.out}")
    if args.out and args.out != "-":
        refuse_existing(Path(args.out), force=args.force)
        refuse_place(Path(args.out), "-o")
    if args.dry_run and not args.push:
        raise UsageError("--dry-run is for --push. To print the table: -o -")
    if args.push:
        if args.source:
            raise UsageError("--from and --push cannot be combined, because --from contacts no host")
        refuse_path(args.push)
        args.output = "console"
        refuse_what_cannot_be_asked(args, dry_run=args.dry_run)


def _wanted(args: argparse.Namespace) -> BuildOptions:
    return BuildOptions(args.devices, ServerOrder(args.order), args.format)


def _table(
    args: argparse.Namespace, cluster: Cluster, hosts: Sequence[Host], facts: Callable[[], ClusterFacts]
) -> tuple[str, BuildResult]:
    """Return the table's text and its source.

    Raise UsageError for hosts and devices that cannot have a table, and PreflightError or NotSeenError if none can be
    built.
    """
    wanted = _wanted(args)
    _refuse_product(cluster, version_of(cluster, wanted))
    _refuse_devices(args, cluster, hosts)
    built = build(cluster, hosts, facts(), wanted)
    if built.table is None:
        _say((*built.unseen, *built.lacking, *built.differences))
        if built.lacking:
            raise PreflightError("no rank table was written, since data is missing")
        raise NotSeenError("no rank table was written, since hosts were not reached. To leave them out, use --limit.")
    text = text_of(built.table)
    _judge(text, cluster)
    addresses = [host.address for host in hosts]
    if [server.id for server in built.table.servers] != addresses and args.order != "inventory":
        _say(["servers are sorted lexically by server_id. To keep the inventory's order, add --order inventory"])
    return text, built


def _judge(text: str, cluster: Cluster) -> None:
    """Print the warnings on a table. Raise PreflightError if it breaks a rule."""
    problems = judge_planned(read(text), cluster)
    if wrong := [problem.text for problem in problems if not problem.warning]:
        _say(wrong)
        raise PreflightError("HCCL would reject a rank table of these devices. Nothing was written.")
    _say([problem.text for problem in problems])


def _refuse_product(cluster: Cluster, version: str) -> None:
    refuse_without_rank_table(cluster)
    if version == "1.2" and cluster.product is not Product.ATLAS_A3:
        raise UsageError(f"--format 1.2 is for super-pods of atlas-a3; {cluster.product} uses 1.0")


def _refuse_devices(args: argparse.Namespace, cluster: Cluster, hosts: Sequence[Host]) -> None:
    """Raise UsageError if the product does not support this set of devices, or if a host lacks one."""
    sets = [(host.name, args.devices or tuple(device.index for device in host.devices)) for host in hosts]
    for host in hosts:
        if none := sorted(set(args.devices) - {device.index for device in host.devices}):
            raise UsageError(f"--devices: {host.name} has no device {none[0]} in the inventory")
    for problem in device_set_problems(cluster.product, [((), name, wanted) for name, wanted in sets]):
        if not problem.warning:
            raise UsageError(problem.text)


def _say(sentences: Sequence[str]) -> None:
    for sentence in sentences[:_SHOWN]:
        print("\n".join(wrapped(f"! {sentence}")), file=sys.stderr)
    if len(sentences) > _SHOWN:
        print(f"! … and {len(sentences) - _SHOWN} more", file=sys.stderr)


def _finish(args: argparse.Namespace, text: str, built: BuildResult) -> int:
    """Write the table and return the exit code."""
    _say(built.differences)
    if args.out == "-":
        sys.stdout.write(text)
    else:
        write_whole(Path(args.out), text, "the rank table")
        print(f"{args.out}: {described(text)}")
        words = ["preflight", "ranktable", "--check", args.out, "--inventory", str(args.inventory)]
        print(f"next: {shlex.join(words)}")
    return 1 if built.differences else 0
