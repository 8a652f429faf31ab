"""`preflight learn`: an inventory, from hosts that are configured."""

import argparse
import sys
from pathlib import Path
from typing import Any

from preflight.app.files import keep_ssh_paths, refuse_existing, refuse_place, write_whole
from preflight.app.session import session
from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.cli.options import host_options
from preflight.facts.types import ClusterFacts, Unreachable
from preflight.inventory import InventoryError, dump, load, parse, tables
from preflight.model.cluster import Cluster, Product
from preflight.model.errors import NotSeenError, PreflightError, UsageError
from preflight.model.outcome import Outcome
from preflight.provision.learn import Learned, asked, devices_seen, learn, product_seen, why_no_product
from preflight.report.next_step import options

_SECTIONS = ("os", "sysctl", "network", "hccn", "hccn_conf", "npu_smi")  # sections that are collected
_CHECKED = ("NPU101", "NPU102", "NPU103", "NPU104", "NPU105", "NPU106", "NPU111")  # checks of the learned inventory
_HEAD = "Learned from the hosts by preflight learn. Review it before you use it."
_SHOWN = 20  # sentences on the terminal; the file has all of them


def run(args: argparse.Namespace) -> int:
    refuse_existing(args.out, force=args.force)
    refuse_place(args.out, "-o")
    base, place = _base(args)
    cluster = parse(dump(base), place)
    if not cluster.product.is_npu:
        raise UsageError(f"nothing to learn: {cluster.product} devices have no addresses")
    with session(host_options(args), cluster) as s:
        facts = s.collect(asked(base, s.hosts), sections=_SECTIONS)
        learned = learn(base, s.hosts, facts, _product(args, cluster, facts))
    text, findings = _text(learned, facts, args.out)
    write_whole(args.out, text, "the inventory")
    for sentence in (*learned.unseen, *findings)[:_SHOWN]:
        print(f"! {sentence}", file=sys.stderr)
    open_ = len(learned.unseen) + len(findings)
    open_points = f". The comments at its top list {open_} open point{'' if open_ == 1 else 's'}." if open_ else ""
    print(f"{args.out}: {_addresses_sentence(learned)} of {len(facts.hosts) - len(learned.unseen)} hosts{open_points}")
    print(f"next: preflight configure {options(args.out)} --dry-run")
    return 1 if findings else 3 if learned.unseen else 0


def _addresses_sentence(learned: Learned) -> str:
    plan = learned.document.get("device_addresses")
    by = "by name" if plan and plan.get("by") == "name" else "by order"
    return f"addresses as plan {plan['plan']}, {by}," if plan else "addresses, one by one,"


def _base(args: argparse.Namespace) -> tuple[dict[str, Any], Path]:
    """Return the inventory to begin with, and the path that its relative paths refer to: the file to be written."""
    if args.hosts is not None:
        return _base_of_hosts(args), args.out
    if args.address or args.user or args.sudo:
        raise UsageError("--address, --user and --sudo need --hosts. With an inventory, set them there.")
    path = args.inventory or args.default_inventory
    base = tables(path)
    load(path)  # reports problems of the file with their lines
    keep_ssh_paths(base, path, args.out)
    return base, args.out


def _base_of_hosts(args: argparse.Namespace) -> dict[str, Any]:
    """Return an inventory of --hosts alone."""
    if args.inventory:
        raise UsageError("--hosts and --inventory cannot be combined")
    ssh = {**({"user": args.user} if args.user else {}), **({"sudo": True} if args.sudo else {})}
    table = {"name": args.hosts, **({"address": args.address} if args.address else {})}
    cluster = {"name": "learned", "product": Product.ATLAS_A2.value}  # until the devices have reported their product
    return {"cluster": cluster, **({"ssh": ssh} if ssh else {}), "hosts": [table]}


def _product(args: argparse.Namespace, cluster: Cluster, facts: ClusterFacts) -> Product:
    """Return the inventory's product, or else that of the chips.

    Raise PreflightError if there is nothing to learn, and NotSeenError if no host was reached.
    """
    absences = [
        f"{host_facts.summary}. Fix: {host_facts.fix}"
        for host_facts in facts.hosts.values()
        if isinstance(host_facts, Unreachable)
    ]
    if len(absences) == len(facts.hosts):
        raise NotSeenError("\n".join((*absences[:5], "no host was reached, so nothing was learned")))
    if not devices_seen(facts):
        raise PreflightError("nothing to learn: no host has an NPU")
    product = cluster.product if args.hosts is None else product_seen(facts)
    if product is None:
        raise PreflightError(why_no_product(facts))
    return product


def _text(learned: Learned, facts: ClusterFacts, place: Path) -> tuple[str, list[str]]:
    """Return the file's text, and what the checks report about the hosts under the learned plan.

    Raise PreflightError if the text cannot be read back.
    """
    try:
        cluster = parse(dump(learned.document), place)
    except InventoryError as error:
        raise PreflightError(f"the result is not a valid inventory, so nothing was written:\n{error}") from error
    checks = [all_checks()[id_] for id_ in _CHECKED]
    reached = [
        host
        for host in cluster.hosts
        if not any(sentences.startswith(f"{host.name}: ") for sentences in learned.unseen)
    ]
    findings = run_checks(cluster, facts, checks=checks, hosts=reached)
    sentences = [finding.summary for finding in findings if finding.outcome in (Outcome.FAIL, Outcome.UNKNOWN)]
    head = [_HEAD, *learned.comments.get((), ()), *(f"! {sentence}" for sentence in (*learned.unseen, *sentences))]
    return dump(learned.document, {**learned.comments, (): head}), sentences
