"""A cluster in a box, for rehearsals and tests: each host is a set of namespaces with a real sshd, real kernel settings
and a real firewall; each device has a real network interface. The vendor's programs are stand-ins, and say so.

  preflight lab up --hosts 2 --devices 8 --product atlas-a1
  preflight check --inventory .lab/hosts.toml
  preflight lab break link-down --host node02 --device 3
  preflight lab fix
  preflight lab down

Needs root. Several labs may run at once, each in a directory of its own.
"""

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

from preflight.lab import faults, lifecycle, settings
from preflight.lab.firewalls import FIREWALLS
from preflight.lab.spec import FABRICS, PRODUCTS, Spec

DEFAULT_DIRECTORY = Path(".lab")
WIDTH = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the lab's sub-commands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    up = actions.add_parser("up", help="put a lab up", allow_abbrev=False)
    up.add_argument("--hosts", type=int, default=2, metavar="N", help="number of hosts (2)")
    up.add_argument("--devices", type=int, default=0, metavar="M", help="devices a host (0)")
    up.add_argument("--product", default="cpu", help=f"{', '.join(PRODUCTS)} (cpu)")
    up.add_argument("--firewall", default="nftables", help=f"{', '.join(FIREWALLS)} (nftables)")
    up.add_argument("--fabric", default="switched", help=f"{', '.join(FABRICS)} (switched)")
    up.add_argument("--leaves", type=int, default=1, metavar="L", help="leaf switches below a spine; 1: one switch (1)")
    up.add_argument("--user", default="root", help="the account that ssh uses; other than root, it gets sudo (root)")
    up.set_defaults(act=_up)

    status = actions.add_parser("status", help="show the hosts and devices of a lab", allow_abbrev=False)
    status.set_defaults(act=_status)

    listing = actions.add_parser("faults", help="list the faults that `break` can make", allow_abbrev=False)
    listing.set_defaults(act=_faults)

    breaking = actions.add_parser("break", help="make a fault", allow_abbrev=False)
    breaking.add_argument("name", metavar="NAME", help="see `preflight lab faults`")
    breaking.add_argument("--host", metavar="H", help="the host it befalls (the first)")
    breaking.add_argument("--device", type=int, metavar="D", help="the device it befalls (0)")
    breaking.set_defaults(act=_break)

    fixing = actions.add_parser("fix", help="undo one fault by name, or all", allow_abbrev=False)
    fixing.add_argument("name", metavar="NAME", nargs="?", help="fault to undo (default: all)")
    fixing.set_defaults(act=_fix)

    setting = actions.add_parser("set", help="change what the stand-ins do", allow_abbrev=False)
    setting.add_argument("name", metavar="NAME", help=", ".join(f"{n}: {s.what}" for n, s in settings.SETTINGS.items()))
    setting.add_argument("value", metavar="VALUE")
    setting.set_defaults(act=_set)

    simulating = actions.add_parser(
        "simulate", help="how well faults would be found, in a model of a fabric of any size", allow_abbrev=False
    )
    simulating.add_argument("--hosts", type=int, default=232, metavar="N", help="number of hosts (232)")
    simulating.add_argument("--rails", type=int, default=1, metavar="R", help="devices a host, each on its rail (1)")
    simulating.add_argument("--leaves", type=int, default=1, metavar="L", help="leaf switches; 1: not known (1)")
    simulating.add_argument("--faults", default="", metavar="LIST", help="dead:3,slow:1,link:2,partition:0.25, …")
    simulating.add_argument("--noise", type=float, default=0.0, metavar="P", help="share of tests failing by accident")
    simulating.add_argument("--runs", type=int, default=200, metavar="N", help="how many clusters (200)")
    simulating.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed, the same clusters (0)")
    simulating.add_argument("--alone", action="store_true", help="without other tools' rules beside it")
    simulating.set_defaults(act=_simulate)

    down = actions.add_parser("down", help="take a lab down", allow_abbrev=False)
    down.set_defaults(act=_down)

    for action in (up, status, breaking, fixing, setting, down):
        action.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY, metavar="DIR", help="the lab's place (.lab)")
    for action in (status, listing, simulating):
        action.add_argument("-o", "--output", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    """Run the requested action. Failures are raised as exceptions."""
    args.act(args)
    return 0


def _up(args: argparse.Namespace) -> None:
    spec = Spec(args.hosts, args.devices, args.product, args.firewall, args.fabric, args.user, args.leaves)
    lifecycle.up(spec, args.dir)
    print(f"{args.hosts} hosts × {args.devices} devices ({args.product}) are up. Inventory: {args.dir / 'hosts.toml'}")
    if stand_ins := lifecycle.stand_ins(spec):
        print(_wrapped(f"On these hosts {stand_ins}."))


def _down(args: argparse.Namespace) -> None:
    print(lifecycle.down(args.dir))


def _status(args: argparse.Namespace) -> None:
    status = lifecycle.status(args.dir)
    if args.output == "json":
        _print_json(status)
        return
    print(f"lab {status['id']}: {status['product']}, firewall {status['firewall']}, fabric {status['fabric']}")
    if status["stand_ins"]:
        print(_wrapped(f"stand-ins: {status['stand_ins']}"))
    for host in status["hosts"]:
        print(f"{host['name']}  {host['address']}  {'up' if host['up'] else 'DOWN'}  {host['netns']}")
        for device in host["devices"]:
            print(f"  device {device['index']}  {device['address'] or 'no address'}  port {device['fabric_interface']}")
    for entry in status["breaks"]:
        where = entry["host"] if entry["device"] is None else f"{entry['host']}/{entry['device']}"
        print(f"broken: {entry['name']} on {where}")


def _faults(args: argparse.Namespace) -> None:
    if args.output == "json":
        _print_json(faults.describe())
        return
    for fault in faults.describe():
        stand_in = " (acts on a stand-in)" if fault["stand_in"] else ""
        print(_wrapped(f"{fault['name']:18}  {fault['scope']}: {fault['what']}{stand_in}", indent=20))
        print(f"{'':20}seen by {', '.join(fault['seen_by'])}")


def _wrapped(text: str, indent: int = 0) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False)


def _break(args: argparse.Namespace) -> None:
    print(faults.break_it(args.name, args.dir, args.host, args.device))


def _fix(args: argparse.Namespace) -> None:
    for sentence in faults.fix(args.name, args.dir):
        print(sentence)


def _set(args: argparse.Namespace) -> None:
    print(settings.change(args.name, args.value, args.dir))


def _simulate(args: argparse.Namespace) -> None:
    from preflight.lab import fabric, simulate  # of no use for a lab

    faults = fabric.parse_faults(args.faults)
    setting = simulate.Simulation(args.hosts, args.rails, args.leaves, faults, args.noise, args.runs, args.seed)
    rows = simulate.simulate(setting, beside=not args.alone)
    if args.output == "json":
        options = {name: getattr(args, name) for name in ("hosts", "rails", "leaves", "faults", "noise", "seed")}
        _print_json({"schema": "preflight.simulation/1", **options, "rules": rows})
        return
    print(f"{args.hosts} hosts in a model, nothing was run: faults {args.faults or 'none'}, noise {args.noise:g}")
    print(f"{'':22}{'runs':>6}{'exact':>7}{'false':>7}{'missed':>8}{'rounds':>8}{'tests':>8}{'seconds':>9}")
    for row in rows:
        rounds = f"{min(row['rounds'])}-{max(row['rounds'])}" if len(row["rounds"]) > 1 else f"{min(row['rounds'])}"
        print(
            f"{row['rule']:22}{row['runs']:6}{row['exact']:7}{row['falsely_convicted']:7}{row['missed']:8}"
            f"{rounds:>8}{row['tests']:8}{row['seconds']:9.0f}"
        )


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=1))
