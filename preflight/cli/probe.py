"""Run collectives over all devices, compare every value, and name who did not arrive, sent wrong data, or is slow.

  preflight probe --inventory hosts.toml
  preflight probe --inventory hosts.toml --backend gloo --limit node[01-02] --sizes 8,1M,64M
  preflight probe --inventory hosts.toml --with hccl-test     # where jobs have no torch

The probe keeps the devices busy for seconds to minutes, so it runs only where the operator has said that the hosts are
idle and theirs (idle = true under [probe], or --idle), and leaves out hosts whose devices are in use all the same.
"""

import argparse
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, TypeVar

from preflight.cli.common import Session, add_inventory_arguments, session
from preflight.cli.output import add_output_arguments, finish
from preflight.model.cluster import Host, Product
from preflight.model.errors import UsageError
from preflight.model.report import LeftOut

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _sizes(text: str) -> tuple[int, ...]:
    """`8,1M,16M` → bytes."""
    sizes = []
    for word in text.split(","):
        size = word.strip().upper()
        number = size.rstrip("KMG")
        unit = size[len(number) :]
        if not number.isdecimal() or unit not in _UNITS or not 0 < int(number) * _UNITS[unit] <= 1 << 40:
            raise argparse.ArgumentTypeError(f"{word!r} is not a size in bytes like 8, 64K, 1M or 2G")
        sizes.append(int(number) * _UNITS[unit])
    return tuple(sorted(set(sizes)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.add_argument("--backend", choices=("hccl", "nccl", "gloo"), help="instead of the inventory's")
    parser.add_argument(
        "--with",
        dest="tool",
        choices=("torch", "hccl-test"),
        help="what runs the collectives; without it torch, or the vendor's HCCL Test where no host's jobs have torch",
    )
    parser.add_argument(
        "--sizes", type=_sizes, default=(), metavar="LIST", help="bytes per rank, such as 8,1M,16M (the default)"
    )
    parser.add_argument("--idle", action="store_true", help="these hosts are mine and idle: the probe may use them")
    parser.add_argument("--fail-on", choices=("warn", "fail"), default="fail", help="what makes exit code 1")
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    with session(args) as s:
        if not (args.idle or s.cluster.probe.idle):
            raise UsageError(
                "the probe keeps every device busy; say that these hosts are idle and yours with --idle, or with "
                "idle = true under [probe] in the inventory"
            )
        _refuse_strange_backend(args.backend, s.cluster.product)
        if args.tool == "hccl-test":
            if not s.cluster.product.is_npu or args.backend not in (None, "hccl"):
                raise UsageError("HCCL Test runs over the devices of an NPU cluster; leave out --with, or --backend")
            return _hccl_test(args, s, started)
        return _probe(args, s, started)


def _refuse_strange_backend(backend: str | None, product: Product) -> None:
    """Raises UsageError for a backend whose devices the cluster does not have; gloo runs everywhere."""
    of = {"hccl": product.is_npu, "nccl": product is Product.NVIDIA}
    if backend and not of.get(backend, True):
        raise UsageError(f"--backend {backend} does not run on {product}; the inventory's product says what does")


def _in_background(work: Callable[[], T]) -> "Future[T]":
    """A daemon thread and not an executor, whose threads would have to end before Ctrl-C can."""
    from concurrent.futures import Future

    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _probe(args: argparse.Namespace, s: Session, started: datetime) -> int:
    from preflight.checks.registry import all_checks
    from preflight.checks.run import run_checks
    from preflight.checks.waive import apply_waivers
    from preflight.facts.collect import collect
    from preflight.probe.hccl_test import nobody_has_torch
    from preflight.probe.permission import may_probe
    from preflight.probe.run import probe

    # Whose devices are in use, and who is reached at all: asked while the hosts import torch.
    wanted = ("npu_smi",) if s.cluster.product.is_npu else ("os",)
    facts = _in_background(
        lambda: collect(s.cluster, s.hosts, s.transport, progress=None, ports=s.cluster.ports, sections=wanted)
    )
    refused: dict[str, str] = {}

    def idle(present: Sequence[Host]) -> list[Host]:
        refused.update(may_probe(s.cluster, facts.result(), present, asked_idle=args.idle))
        return [host for host in present if host.name not in refused]

    observations = probe(
        s.cluster, s.hosts, s.transport, backend=args.backend, sizes=args.sizes, progress=s.progress, begin=idle
    )
    backend = args.backend or s.cluster.probe.backend
    if args.tool is None and backend == "hccl" and nobody_has_torch(observations):
        return _hccl_test(args, s, started)
    probed = [host for host in s.hosts if host.name not in refused]
    checks = [check for check in all_checks().values() if "observations" in check.needs]
    findings = run_checks(s.cluster, facts.result(), checks=checks, hosts=probed, rounds={"observations": observations})
    return finish(
        args,
        "probe",
        started,
        s.hosts,
        apply_waivers(findings, s.cluster.waivers, (), date.today()),
        observations=observations,
        left_out=[LeftOut(host, why) for host, why in refused.items()],
        notes=[f"limited to {args.limit}, as asked"] if args.limit else [],
    )


def _hccl_test(args: argparse.Namespace, s: Session, started: datetime) -> int:
    """The vendor's own test in the probe's place. Who may not be used is asked anew: in the background it was not."""
    from preflight.checks.registry import all_checks
    from preflight.checks.run import NotRun, run_checks
    from preflight.checks.waive import apply_waivers
    from preflight.facts.collect import collect
    from preflight.facts.types import HostFacts
    from preflight.probe import hccl_test
    from preflight.probe.permission import may_probe

    asked = ("npu_smi", "os")
    facts = collect(s.cluster, s.hosts, s.transport, progress=s.progress, ports=s.cluster.ports, sections=asked)
    refused = dict(may_probe(s.cluster, facts, s.hosts, asked_idle=args.idle))
    reached = [host for host in s.hosts if host.name not in refused and isinstance(facts.hosts[host.name], HostFacts)]
    found = hccl_test.jobs(hccl_test.look(s.cluster, reached, s.transport, s.progress), reached)
    ran = hccl_test.run(s.cluster, reached, found, s.transport, sizes=args.sizes, progress=s.progress)
    rounds = {"hccl_test": ran, "observations": NotRun("HCCL Test took its place")}
    checks = [check for check in all_checks().values() if {"observations", "hccl_test"} & set(check.needs)]
    hosts = [host for host in s.hosts if host.name not in refused]
    findings = run_checks(s.cluster, facts, checks=checks, hosts=hosts, rounds=rounds)
    notes = ["HCCL Test in the probe's place: one job over all devices, which seldom tells where a fault is"]
    return finish(
        args,
        "probe",
        started,
        s.hosts,
        apply_waivers(findings, s.cluster.waivers, (), date.today()),
        observations=hccl_test.observations(ran),
        left_out=[LeftOut(host, why) for host, why in refused.items()],
        notes=[f"limited to {args.limit}, as asked", *notes] if args.limit else notes,
    )
