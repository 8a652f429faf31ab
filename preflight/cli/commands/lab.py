"""Run a test cluster on this machine and inject faults into it, for rehearsals and tests.

  preflight lab up --hosts 2 --devices 8 --product atlas-a1
  preflight check --inventory .lab/hosts.toml
  preflight lab break link-down --host node02 --device 3
  preflight lab fix
  preflight lab down

Each host is a set of namespaces with a real sshd, real kernel settings and a real firewall. Each
device has a real network interface. The vendor's programs are stand-ins, and their output shows that.
A lab needs root. Several labs can run at once, each in its own folder.
"""

import argparse
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from preflight.cli.option_texts import OUTPUT
from preflight.cli.options import option_group
from preflight.lab import faults, lifecycle, settings
from preflight.lab.firewalls import FIREWALLS
from preflight.lab.fleet.spec import BEHAVIOURS, FleetSpec
from preflight.lab.spec import FABRICS, PRODUCTS, Spec
from preflight.model.errors import UsageError

DEFAULT_DIRECTORY = Path(".lab")
WIDTH = 80
_UP = """Start a lab.

  preflight lab up --hosts 2 --devices 8 --product atlas-a2
  preflight lab up --hosts 4 --leaves 2 --firewall ufw --dir /tmp/lab
"""
_STATUS = """Show the hosts and devices of a lab.

  preflight lab status
  preflight lab status --dir /tmp/lab -o json
"""
_FAULTS = """List the faults for `preflight lab break`.

  preflight lab faults
  preflight lab faults -o json
"""
_DOWN = """Stop a lab and remove it.

  preflight lab down
  preflight lab down --dir /tmp/lab
"""
_BREAK = """Add a fault to a lab.

  preflight lab break link-down --host node02 --device 3
  preflight lab break host-dead --host node01
"""
_FIX = """Undo one fault, or all faults.

  preflight lab fix
  preflight lab fix link-down
"""
_SET = """Change a setting of the stand-ins.

  preflight lab set call-ms 50
  preflight lab set linger-s 2

Each call of hccn_tool, npu-smi or lspci takes at least call-ms milliseconds (default: 0).
After an HCCL process is killed, its device stays busy for linger-s seconds (default: 10).
"""
_FLEET = """Run thousands of simulated hosts on this machine, to measure how preflight scales.

  preflight lab fleet --hosts 300
  preflight lab fleet --hosts 4000 --think 4 --dead 2% --hang 1% --faulty 5%

Each host is an ssh server on a loopback address. It answers with the facts of a real lab host, changed
by a seed. The fleet runs until Ctrl-C. DIR/fleet.json lists what each host does. The fleet needs root.
"""
_SIMULATE = """Measure by simulation how well the localiser finds faults in a model of a large fabric.

  preflight lab simulate --faults dead:3,link:1
  preflight lab simulate --hosts 1000 --leaves 32 --noise 0.01 --runs 20

The simulation needs no lab and runs no tests.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the lab's sub-commands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    up = actions.add_parser("up", help="start a lab", description=_UP, allow_abbrev=False)
    _add_spec_arguments(up)
    up.set_defaults(act=_up)

    status = actions.add_parser(
        "status", help="show the hosts and devices of a lab", description=_STATUS, allow_abbrev=False
    )
    status.set_defaults(act=_status)

    listing = actions.add_parser(
        "faults", help="list the faults for `preflight lab break`", description=_FAULTS, allow_abbrev=False
    )
    listing.set_defaults(act=_faults)

    breaking = actions.add_parser("break", help="add a fault to a lab", description=_BREAK, allow_abbrev=False)
    breaking.add_argument("name", metavar="NAME", help="fault from `preflight lab faults`")
    breaking.add_argument("--host", metavar="H", help="host to add the fault to (default: the first host)")
    breaking.add_argument("--device", type=int, metavar="D", help="device to add the fault to (default: 0)")
    breaking.add_argument("--percent", type=int, metavar="P", help="share of packets to lose (default: 10)")
    breaking.set_defaults(act=_break)

    fixing = actions.add_parser("fix", help="undo one fault, or all faults", description=_FIX, allow_abbrev=False)
    fixing.add_argument("name", metavar="NAME", nargs="?", help="fault to undo (default: all)")
    fixing.set_defaults(act=_fix)

    setting = actions.add_parser("set", help="change a setting of the stand-ins", description=_SET, allow_abbrev=False)
    setting.add_argument("name", metavar="NAME", help=f"setting: {', '.join(settings.SETTINGS)}")
    setting.add_argument("value", metavar="VALUE", help="new value, in the unit of the setting")
    setting.set_defaults(act=_set)

    simulating = actions.add_parser(
        "simulate",
        help="run the localiser on a simulated large fabric",
        description=_SIMULATE,
        allow_abbrev=False,
    )
    _add_simulation_arguments(simulating)
    simulating.set_defaults(act=_simulate)

    fleet = actions.add_parser("fleet", help="run thousands of simulated hosts", description=_FLEET, allow_abbrev=False)
    _add_fleet_arguments(fleet)
    fleet.set_defaults(act=_fleet)

    down = actions.add_parser("down", help="stop a lab and remove it", description=_DOWN, allow_abbrev=False)
    down.set_defaults(act=_down)

    for action in (up, status, breaking, fixing, setting, down):
        action.add_argument(
            "--dir", type=Path, default=DEFAULT_DIRECTORY, metavar="DIR", help="folder of the lab (default: .lab)"
        )
    for action in (status, listing, simulating):
        option_group(action, OUTPUT).add_argument(
            "-o", "--output", choices=("text", "json"), default="text", help="output format (default: text)"
        )


def _add_spec_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=2, metavar="N", help="number of hosts (default: 2)")
    parser.add_argument("--devices", type=int, default=0, metavar="M", help="number of devices per host (default: 0)")
    parser.add_argument("--product", default="cpu", help=f"product: {', '.join(PRODUCTS)} (default: cpu)")
    parser.add_argument(
        "--firewall", default="nftables", help=f"firewall on the hosts: {', '.join(FIREWALLS)} (default: nftables)"
    )
    parser.add_argument(
        "--fabric", default="switched", help=f"network between the devices: {', '.join(FABRICS)} (default: switched)"
    )
    parser.add_argument(
        "--leaves",
        type=int,
        default=1,
        metavar="L",
        help="number of leaf switches below one spine (default: 1, which is a single switch without a spine)",
    )
    parser.add_argument("--user", default="root", help="ssh account; any account except root gets sudo (default: root)")


def _add_fleet_arguments(parser: argparse.ArgumentParser) -> None:
    fleet = parser.add_argument_group("fleet")
    fleet.add_argument("--hosts", type=int, default=300, metavar="N", help="number of hosts (default: 300)")
    fleet.add_argument("--devices", type=int, default=0, metavar="M", help="number of NPUs per host (default: 0)")
    fleet.add_argument(
        "--think", type=float, default=1.0, metavar="S", help="seconds until a host answers, ±20%% (default: 1)"
    )
    fleet.add_argument(
        "--seed", type=int, default=1, metavar="S", help="random seed; the same seed gives the same fleet (default: 1)"
    )
    fleet.add_argument("--port", type=int, default=2222, metavar="P", help="port of the ssh servers (default: 2222)")
    fleet.add_argument(
        "--dir", type=Path, default=Path(".fleet"), metavar="DIR", help="folder of the fleet (default: .fleet)"
    )
    faults = parser.add_argument_group("shares of hosts")
    for behaviour, action in BEHAVIOURS.items():
        faults.add_argument(
            f"--{behaviour}", type=_share, default=0.0, metavar="P", help=f"hosts that {action} (default: 0%%)"
        )
    faults.add_argument(
        "--faulty", type=_share, default=0.0, metavar="P", help="hosts with a fault in their facts (default: 0%%)"
    )


def _share(text: str) -> float:
    """Return a share from 0 to 1 of a text such as "2%". Raise ArgumentTypeError for others."""
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0% to 100%")
    return percent / 100


def _add_simulation_arguments(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("model")
    model.add_argument("--hosts", type=int, default=232, metavar="N", help="number of hosts (default: 232)")
    model.add_argument(
        "--rails", type=int, default=1, metavar="R", help="number of devices per host, one for each rail (default: 1)"
    )
    model.add_argument(
        "--leaves",
        type=int,
        default=1,
        metavar="L",
        help="number of leaf switches, or 1 if they are unknown (default: 1)",
    )
    model.add_argument(
        "--faults",
        default="",
        metavar="LIST",
        help="faults with their number or size, such as dead:3,slow:1,link:2,partition:0.25 (default: none)",
    )
    model.add_argument(
        "--noise",
        type=float,
        default=0.0,
        metavar="P",
        help="share of tests that fail at random, such as 0.01 (default: 0)",
    )
    runs = parser.add_argument_group("runs")
    runs.add_argument(
        "--runs", type=int, default=200, metavar="N", help="number of clusters to simulate (default: 200)"
    )
    runs.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="random seed; the same seed gives the same clusters (default: 0)",
    )
    runs.add_argument("--alone", action="store_true", help="leave out the rules of other tools")


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
        print(f"{'':20}found by {', '.join(fault['seen_by'])}")


def _wrapped(text: str, indent: int = 0) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False)


def _break(args: argparse.Namespace) -> None:
    print(faults.break_it(args.name, args.dir, args.host, args.device, args.percent))


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
    print(f"model of {args.hosts} hosts: faults {args.faults or 'none'}, noise {args.noise:g}")
    print(f"{'':22}{'runs':>6}{'exact':>7}{'false':>7}{'missed':>8}{'rounds':>8}{'tests':>8}{'seconds':>9}")
    for row in rows:
        rounds = f"{min(row['rounds'])}-{max(row['rounds'])}" if len(row["rounds"]) > 1 else f"{min(row['rounds'])}"
        print(
            f"{row['rule']:22}{row['runs']:6}{row['exact']:7}{row['falsely_convicted']:7}{row['missed']:8}"
            f"{rounds:>8}{row['tests']:8}{row['seconds']:9.0f}"
        )


def _fleet(args: argparse.Namespace) -> None:
    try:
        from preflight.lab.fleet import fleet  # loads asyncssh
    except ImportError as error:
        raise UsageError(f"a fleet needs {error.name}: pip install 'cluster-preflight[fleet]'") from None

    shares = {behaviour: getattr(args, behaviour) for behaviour in BEHAVIOURS}
    spec = FleetSpec(args.hosts, args.devices, args.think, shares, args.faulty, args.seed, args.port)

    def announce() -> None:
        print(f"{spec.hosts} simulated hosts answer. Inventory: {args.dir / fleet.INVENTORY}. To stop them: Ctrl-C")
        sys.stdout.flush()

    fleet.run(spec, args.dir, announce)


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=1))
