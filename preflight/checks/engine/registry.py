"""The type of a check, and the registry of all checks.

A check is a pure function from facts to findings. Its parameters after the first are the fact sections that it needs
(fields of `HostFacts`). So the signature shows a reader the check's inputs, and the runner can report `unknown` if one
of them could not be collected.

    @host_check("PRT101", "Reserved ports", blocks=False)
    def reserved_now(here: Here, sysctl: Sysctl) -> Iterator[Finding]:
        \"\"\"Why: …

        Check manually:
          sysctl net.ipv4.ip_local_reserved_ports

        Fix: …
        \"\"\"
        missing = here.cluster.ports - PortSet.parse(sysctl.reserved_ports)
        if missing:
            yield here.bad(f"{missing} not reserved", …)

A host check sees one host. A cluster check sees every host's section as a mapping from host name to value. Both may
also take the inputs of later rounds.

    `pings`, `rehearsal`, `observations`, `hccl_test`: the results of the rounds.
    `located`: the culprits that the observations show.
    `link_counts`: the counts of ports during the tests.
    `limit`: the effect of a budget on the probe's deadlines.
    `baseline`: the saved figures of observations.
    `causes`: the findings of the checks of the facts on hosts with culprits.
    `known`: the findings of the checks with smaller ids.

The check with the input `contact` gets the host's facts, or `Unreachable`. A function that yields nothing has passed.

The docstring has three paragraphs, which `preflight explain ID` and docs/checks.md show: `Why`, `Check manually`,
`Fix`. `Result` may follow `Why`: when the check fails, and when it warns. `Source` may be the last: the document that
the check rests on. A command is alone on its line, complete, and indented by two spaces:

    Check manually: On every host:
      hccn_tool -i 0 -ip -g

    Fix: Write the planned addresses.
      preflight configure-device-ips
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypedDict, Unpack

from preflight.model.change import Area, Change
from preflight.model.cluster import Cluster, Host, Product
from preflight.model.finding import Finding
from preflight.model.host_command import on_host
from preflight.model.measure import Culprit
from preflight.model.outcome import Outcome

NPU = frozenset(product for product in Product if product.is_npu)
EVERY = frozenset(Product)
# Inputs that are not sections of the facts.
ROUNDS = (
    "pings",
    "rehearsal",
    "observations",
    "located",
    "causes",
    "hccl_test",
    "baseline",
    "link_counts",
    "limit",
)
KNOWN = "known"  # the findings of checks with smaller ids, as input of a check that names a cause


@dataclass(frozen=True)
class Check:
    """One check. `needs`: the function's parameters after the first. `severity`: the outcome of `bad`.

    `blocks`: the probe leaves out the device or host that fails this check. It is False for past events, for files that
    count later, and for faults that affect jobs but not the probe.
    """

    id: str
    title: str  # a noun phrase of at most six words: what is checked
    scope: str  # "host" or "cluster"
    function: Callable[..., Iterable[Finding]]
    needs: tuple[str, ...]
    optional: tuple[str, ...] = ()  # those of `needs` that are None if they could not be collected
    severity: Outcome = Outcome.FAIL
    products: frozenset[Product] = EVERY
    several: bool = False  # skipped for a single host
    configures: Area | None = None  # the area of its changes, or of changes that it verifies
    blocks: bool = True

    @property
    def area(self) -> str:
        """The folder that the check is in: ports, firewall, ascend …"""
        return self.function.__module__.split(".")[2]

    @property
    def product_words(self) -> str:
        """The products in words: "Ascend NPUs", "all products"."""
        if self.products == EVERY:
            return "all products"
        words = {"Ascend NPUs": NPU, "NVIDIA GPUs": {Product.NVIDIA}, "hosts without accelerators": {Product.CPU}}
        if not self.products >= NPU:
            words = {f"Atlas {product.removeprefix('atlas-').upper()}": {product} for product in NPU} | words
        return ", ".join(label for label, members in words.items() if self.products >= members)

    @property
    def explanation(self) -> str:
        """The function's docstring, dedented: its paragraphs, with commands on indented lines."""
        first, _, body = (self.function.__doc__ or "").strip().partition("\n")
        lines = [line.removeprefix("    ") for line in body.splitlines()]
        return "\n".join([first, *lines]).strip()


class Subject(TypedDict, total=False):
    """The host or object of a finding: fields of `Finding`."""

    host: str | None
    device: int | None
    rail: int | None
    peer: str | None


class Details(Subject, total=False):
    """The optional fields of `Finding`."""

    expected: str
    found: str
    cause: str
    remedy: str
    commands: tuple[str, ...]
    retest: str
    evidence: tuple[str, ...]
    change: Change | None
    culprit: Culprit | None


@dataclass(frozen=True)
class Scribe:
    """The writer of one check's findings."""

    check: Check
    cluster: Cluster

    def finding(self, outcome: Outcome, summary: str, **details: Unpack[Details]) -> Finding:
        change = details.get("change")
        if change and change.area is not self.check.configures:
            raise ValueError(f"{self.check.id} carries a change of {change.area}, and does not declare that")
        return Finding(self.check.id, outcome, summary, **details)

    def on(self, host: str, command: str) -> str:
        """Return the command as typed on this machine: `ssh node02 dmesg`. Quote what comes from outside."""
        return on_host(self.cluster.by_name[host], command)

    def bad(self, summary: str, **details: Any) -> Finding:
        """Return a finding of the check's own severity, which is `fail` by default."""
        return self.finding(self.check.severity, summary, **details)

    def warn(self, summary: str, **details: Any) -> Finding:
        return self.finding(Outcome.WARN, summary, **details)

    def unknown(self, summary: str, **details: Any) -> Finding:
        return self.finding(Outcome.UNKNOWN, summary, **details)

    def skip(self, summary: str, **details: Any) -> Finding:
        return self.finding(Outcome.SKIP, summary, **details)


@dataclass(frozen=True)
class Here(Scribe):
    """One host, as a host check sees it. Its findings are about this host."""

    host: Host

    def finding(self, outcome: Outcome, summary: str, **details: Unpack[Details]) -> Finding:
        details.setdefault("host", self.host.name)
        return super().finding(outcome, summary, **details)


@dataclass(frozen=True)
class All(Scribe):
    """The cluster, as a cluster check sees it. `hosts`: those with all facts that the check needs.

    A finding without `host` is about the cluster as a whole."""

    hosts: tuple[Host, ...]


_Function = Callable[..., Iterator[Finding]]
_REGISTERED: dict[str, Check] = {}


class CheckOptions(TypedDict, total=False):
    """The optional fields of `Check`."""

    optional: tuple[str, ...]
    severity: Outcome
    products: frozenset[Product]
    configures: Area | None
    blocks: bool


def host_check(id_: str, title: str, **options: Unpack[CheckOptions]) -> Callable[[_Function], _Function]:
    """Register a check of one host: `function(here: Here, section, …)`.

    `optional`: sections that the check can do without. It gets None for those that could not be collected.
    `configures`: the area of a check with changes in its findings."""
    return _register(partial(Check, id_, title, "host", **options))


def cluster_check(
    id_: str, title: str, *, several: bool = True, **options: Unpack[CheckOptions]
) -> Callable[[_Function], _Function]:
    """Register a check that compares hosts, `function(all_: All, section: Mapping[host, value], …)`.

    `several`: the check is skipped for a single host, which gives nothing to compare. The other parameters are those of
    host checks."""
    return _register(partial(Check, id_, title, "cluster", several=several, **options))


def _register(make_check: Callable[[_Function, tuple[str, ...]], Check]) -> Callable[[_Function], _Function]:
    def decorate(function: _Function) -> _Function:
        code = function.__code__
        check = make_check(function, code.co_varnames[1 : code.co_argcount])
        if check.id in _REGISTERED:
            raise ValueError(f"check id {check.id} is used twice; ids are never reused")
        _REGISTERED[check.id] = check
        return function

    return decorate


@cache
def all_checks() -> dict[str, Check]:
    """Return every check of the modules below `preflight/checks`, by id, sorted. No list has to be edited."""
    package = importlib.import_module("preflight.checks")
    for module in pkgutil.walk_packages(package.__path__, "preflight.checks."):
        importlib.import_module(module.name)
    return dict(sorted(_REGISTERED.items()))
