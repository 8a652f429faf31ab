"""Ports of RDMA NICs: up, of full rate, and without errors."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.shared.by_host import by_host
from preflight.checks.shared.majority import odd_ones
from preflight.facts.link_counts import DAMAGED, FLAPS
from preflight.facts.parsers.rdma import PortCounters, RdmaPort
from preflight.facts.sections.job import Job
from preflight.facts.sections.rdma import Rdma
from preflight.model.cluster import Cluster
from preflight.model.finding import Finding, with_outcome
from preflight.model.outcome import Outcome
from preflight.rules.nics.rdma import NVIDIA, CountedPorts, Place, counted, used_or_all

_WAITING = ("INIT", "ARMED")
# Physical state → (meaning, remedy).
_MEANING = {
    "Polling": ("no signal from the other end", "check the cable and the switch port"),
    "Disabled": ("turned off", "enable the port"),
    "LinkErrorRecovery": ("the link goes up and down", "clean or replace the optics and the cable"),
    "PortConfigurationTraining": (
        "the two ends could not negotiate a link",
        "check the cable, the optics and the switch port",
    ),
    "Sleep": ("in sleep mode", "check the switch port"),
}
_HUNG = "search the kernel log for mlx5 errors. If the firmware hangs, reset it with mlxfwreset or power-cycle the host"
_KERNEL_LOG = "dmesg | grep mlx5"
_NO_SUBNET_MANAGER = "query the subnet manager. If none answers, start it on the switch or run opensm on one host"
_UNMANAGED_PORT = "query the subnet manager, then check that it manages the switch port of this host"
_FIND_SUBNET_MANAGER = "sminfo"


@dataclass(frozen=True)
class _Problem:
    """The problem of a port that is not active, and its fix. `commands`: as typed on the host."""

    text: str
    remedy: str
    commands: tuple[str, ...] = ()

    def commands_from(self, scribe: Here) -> tuple[str, ...]:
        return tuple(scribe.on(scribe.host.name, command) for command in self.commands)


@cluster_check("RDM101", "RDMA port state", products=NVIDIA, several=False)
def active(scribe: All, rdma: Mapping[str, Rdma]) -> Iterator[Finding]:
    """Why: NCCL uses the active ports and does not report inactive ports. If a host has one active port less, it is
    missing on that rail. The job is then slow, or hangs if the rails are not connected to each other.

    Result: FAIL if a port that jobs use is inactive. `[machine] rdma` in the inventory lists these ports. Without it,
    they are the ports that are active on most hosts. Without `[machine] rdma`, WARN if a port is switched off. Also
    WARN if a port is missing, but the host has as many active ports as other hosts. If jobs use sockets, all of these
    are WARN.

    Check manually: The right values are ACTIVE (4) and LinkUp (5).
      cat /sys/class/infiniband/*/ports/*/state
      cat /sys/class/infiniband/*/ports/*/phys_state

    Fix: If the state is Polling, check the cable and the switch port. If the port is missing, search the output of
    lspci and dmesg for mlx5. If the state is Disabled, turn the interface on, with NETDEV from the finding. If some
    ports are intentionally down, list the other ports in the inventory: [machine] rdma = ["mlx5_0", …]
      ip link set NETDEV up
    """
    places = counted(scribe.cluster, rdma.values())
    if not places.places and not any(port.state in _WAITING for host in rdma.values() for port in host.ports):
        yield scribe.skip("no RDMA port is active on any host, and the inventory names none")
    usual_number = median_high(len(active_ports(host)) for host in rdma.values())
    for host_scribe, host in by_host(scribe, rdma):
        yield from _unread(host_scribe, host, places)
        yield from _inactive(host_scribe, host, places, usual_number)


def _inactive(scribe: Here, host: Rdma, places: CountedPorts, usual_number: int) -> Iterator[Finding]:
    """Yield the ports that count and are not active, those with the same problem together."""
    ports = {(port.device, port.port): port for port in host.ports}
    alike: dict[tuple[bool, bool, _Problem], list[str]] = defaultdict(list)
    for place in sorted(places.places):
        port = ports.get(place)
        if port is None or port.state not in (None, "ACTIVE", *_WAITING):
            is_certain = place in places.certain
            # With as many active ports as most hosts, the host's ports only have other names, or are other ones.
            is_doubtful = not is_certain or len(active_ports(host)) >= usual_number
            may_be_meant = _may_be_meant(scribe.cluster, port, is_doubtful=is_doubtful)
            alike[may_be_meant, is_certain, _problem(place, host, port)].append(_port_name(place))
    for (may_be_meant, is_certain, problem), names in alike.items():
        elsewhere = f", but active on {'most' if is_certain else 'other'} hosts"
        report = scribe.warn if may_be_meant else scribe.bad
        yield report(
            f"{scribe.host.name}: {', '.join(names)}: {problem.text}{'' if scribe.cluster.machine.rdma else elsewhere}",
            expected="ACTIVE",
            found=problem.text,
            remedy=problem.remedy,
            commands=problem.commands_from(scribe),
        )


def _may_be_meant(cluster: Cluster, port: RdmaPort | None, *, is_doubtful: bool) -> bool:
    """Return whether a port that is not active may be in order. `is_doubtful`: by the other hosts it need not count."""
    if cluster.probe.transport == "socket":
        return True
    is_disabled = port is not None and port.physical_state == "Disabled"
    return not cluster.machine.rdma and (is_doubtful or is_disabled)


def active_ports(host: Rdma) -> list[RdmaPort]:
    return [port for port in host.ports if port.state == "ACTIVE"]


def _unread(scribe: Here, host: Rdma, places: CountedPorts) -> Iterator[Finding]:
    """Yield the values that could not be read. A port that counts and does not answer is reported with the others."""
    name = scribe.host.name
    states = {(port.device, port.port): port.state for port in places.of(host)}
    stateless = sorted(place for place, state in states.items() if state is None)
    if stateless:
        yield scribe.unknown(f"{name}: {', '.join(map(_port_name, stateless))}: the port state could not be read")
    errors = []
    for missing in host.unread:
        device, _, trouble = missing.error.partition(" ")
        if not trouble.startswith("did not answer"):
            errors.append(missing.error)
        elif (device, 1) not in places.places:
            yield scribe.unknown(
                f"{name}: {missing.error}", remedy=_HUNG, commands=(scribe.on(scribe.host.name, _KERNEL_LOG),)
            )
    if errors:
        suffix = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        summary = f"{name}: the RDMA device data is incomplete: {errors[0]}{suffix}"
        yield scribe.unknown(summary, evidence=tuple(errors))


def _port_name(place: Place) -> str:
    """Return the port's name, without its number for port 1, the only one of nearly all devices."""
    return place[0] if place[1] == 1 else f"{place[0]} port {place[1]}"


def _problem(place: Place, host: Rdma, port: RdmaPort | None) -> _Problem:
    silent = [missing.error for missing in host.unread if missing.error.startswith(f"{place[0]} ")]
    if port is None and silent:
        return _Problem("no answer", _HUNG, (_KERNEL_LOG,))
    if port is None:
        remedy = (
            "check that the device is on the PCI bus, that its driver is loaded, and that other hosts use the same name"
        )
        return _Problem("missing", remedy, ("lspci -d 15b3:", _KERNEL_LOG))
    meaning, remedy = _MEANING.get(port.physical_state or "", ("", "check the cable and the switch port"))
    words = ", ".join(filter(None, (port.state, port.physical_state)))
    commands = (_enable(port, host),) if port.physical_state == "Disabled" else ()
    return _Problem(words + (f" ({meaning})" if meaning else ""), remedy, commands)


def _enable(port: RdmaPort, host: Rdma) -> str:
    """Return the command that enables a port, or shows the interface of a RoCE port if that is not known."""
    if port.link_layer == "InfiniBand":
        return f"ibportstate -C {port.device} -D 0 {port.port} enable"
    gids = (gid.netdev for gid in host.gids if (gid.device, gid.port) == (port.device, port.port) and gid.netdev)
    interface = port.netdev or next(gids, None)
    return f"ip link set {interface} up" if interface else f"rdma link show {port.device}/{port.port}"


@cluster_check("RDM102", "InfiniBand subnet manager", products=NVIDIA, several=False)
def managed(scribe: All, rdma: Mapping[str, Rdma]) -> Iterator[Finding]:
    """Why: An InfiniBand port gets its address from the fabric's subnet manager. Until then, the port is in state INIT
    or ARMED although its link is up, and NCCL skips it. If only one host has this fault, its switch port is not
    managed. If all hosts have it, no subnet manager is running.

    Result: FAIL for a port that jobs use. WARN for other ports if the host has active ports.

    Check manually:
      cat /sys/class/infiniband/*/ports/*/state
      sminfo

    Fix: Start the subnet manager on the switch, or start opensm on one host.
    """
    places = counted(scribe.cluster, rdma.values()).places
    is_managed = any(_is_managed(port) for host in rdma.values() for port in host.ports)
    remedy = _UNMANAGED_PORT if is_managed else _NO_SUBNET_MANAGER
    findings = [finding for entry in by_host(scribe, rdma) for finding in _waiting_ports(*entry, places, remedy)]
    failed = with_outcome(findings, Outcome.FAIL)
    if len(failed) > 1 and not is_managed:
        yield _no_subnet_manager(scribe, failed, findings)
    else:
        yield from findings


def _no_subnet_manager(scribe: All, failed: Sequence[Finding], findings: Sequence[Finding]) -> Finding:
    """Return the one finding in place of those about the hosts."""
    return scribe.bad(
        f"no subnet manager has configured any InfiniBand port on {len(failed)} hosts",
        host=None,
        expected="ACTIVE",
        found=failed[0].found,
        evidence=tuple(finding.summary for finding in findings),
        cause="no subnet manager is running",
        remedy=_NO_SUBNET_MANAGER,
        commands=(scribe.on(str(failed[0].host), _FIND_SUBNET_MANAGER),),
    )


def _waiting_ports(scribe: Here, host: Rdma, places: Collection[Place], remedy: str) -> Iterator[Finding]:
    """Yield the one finding about the ports that wait for a subnet manager; those that count stand for all."""
    waiting = [port for port in host.ports if _is_waiting(port)]
    if not waiting:
        return
    ports_that_count = [port for port in waiting if (port.device, port.port) in places]
    ports = ports_that_count or waiting
    report = scribe.bad if ports_that_count or not active_ports(host) else scribe.warn
    states = ", ".join(f"{_port_name((port.device, port.port))} is {port.state}" for port in ports)
    yield report(
        f"{scribe.host.name}: {states} (the link is up, but no subnet manager has configured the port)",
        expected="ACTIVE",
        found=str(ports[0].state),
        remedy=remedy,
        commands=(scribe.on(scribe.host.name, _FIND_SUBNET_MANAGER),),
    )


def _is_waiting(port: RdmaPort) -> bool:
    return port.state in _WAITING and port.link_layer != "Ethernet"


def _is_managed(port: RdmaPort) -> bool:
    return port.state == "ACTIVE" and port.link_layer != "Ethernet"


@cluster_check("RDM103", "RDMA port speed", products=NVIDIA, optional=("job",))
def rate(scribe: All, rdma: Mapping[str, Rdma], job: Mapping[str, Job | None]) -> Iterator[Finding]:
    """Why: A link may come up with fewer lanes or at a lower speed. The port is active nevertheless, but every ring
    through it is slow.

    Result: FAIL if a port is slower than the same port on most hosts. Ports that jobs do not use, by `[machine] rdma`
    or NCCL_IB_HCA, are ignored.

    Check manually:
      cat /sys/class/infiniband/*/ports/*/rate

    Fix: Clean or replace the optics and the cable, and check the speed setting of the switch port. Then take the link
    down and up again.
    """
    rates: dict[Place, dict[str, float]] = defaultdict(dict)
    places = counted(scribe.cluster, rdma.values())
    for name, host in rdma.items():
        ports = used_or_all(scribe.cluster, job[name], places.active(host))
        if isinstance(ports, str):
            yield scribe.skip(ports, host=name)
            continue
        for port in ports:
            if port.rate is not None:
                rates[port.device, port.port][name] = port.rate
    for place, rates_of_port in sorted(rates.items()):
        for odd in odd_ones(rates_of_port):
            if odd.value < odd.usual:
                yield scribe.bad(
                    f"{odd.host}: {_port_name(place)} runs at {odd.value:g} Gbit/s, but at {odd.usual:g} Gbit/s on "
                    f"{odd.elsewhere}",
                    host=odd.host,
                    peer=odd.others[0],
                    expected=f"{odd.usual:g} Gbit/s",
                    found=f"{odd.value:g} Gbit/s",
                    remedy="clean or replace the optics and the cable, and check the speed of the switch port",
                )


FEW, SHARE = 10, 1e-6  # a link with at most so many errors, and such a share of its packets, counts as healthy


@host_check(
    "RDM108",
    "RDMA link and packet errors",
    severity=Outcome.WARN,
    products=NVIDIA,
    optional=("job",),
)
def counters(scribe: Here, rdma: Rdma, job: Job | None) -> Iterator[Finding]:
    """Why: If a link goes down for a second, the job fails with "Got async event : port error", or with error 12. When
    you check the link manually, it is up again. The counters start when the driver is loaded, and a switch may have
    been restarted since then.

    Result: WARN for ten errors, and for a count that has just risen. Damaged packets are compared with all received
    packets. Ports that jobs do not use, by `[machine] rdma` or NCCL_IB_HCA, are ignored.

    Check manually: Run these twice, to see which counts rise:
      grep . /sys/class/infiniband/*/ports/*/counters/*err*
      grep . /sys/class/infiniband/*/ports/*/counters/link_downed

    Fix: Clean or replace the optics and the cable. Then reset the InfiniBand counters, so that new errors are visible.
      perfquery -R
    """
    ports = used_or_all(scribe.cluster, job, active_ports(rdma))
    if isinstance(ports, str):
        yield scribe.skip(ports)
        return
    up = {(port.device, port.port) for port in ports}
    later = {(port_values.device, port_values.port): port_values.values for port_values in rdma.later}
    for port in rdma.counters:
        place = (port.device, port.port)
        if place not in up:
            continue
        problems = [*_high_counts(port), *_increases(port.values, later.get(place, {}), rdma.seconds)]
        if problems:
            yield scribe.bad(
                f"{scribe.host.name}: {_port_name(place)}: {', '.join(problems)}",
                found=", ".join(problems),
                expected="no errors",
                remedy="read the counters again. If the counts rise, clean or replace the optics and the cable",
                commands=(
                    scribe.on(
                        scribe.host.name, f"grep . /sys/class/infiniband/{port.device}/ports/{port.port}/counters/*"
                    ),
                ),
            )


def _high_counts(port: PortCounters) -> Iterator[str]:
    for name in FLAPS:
        if (count := port.values.get(name, 0)) >= FEW:
            yield _counted(count, name)
    packets = port.values.get("port_rcv_packets", 0)
    for name in DAMAGED:
        if (count := port.values.get(name, 0)) >= max(FEW, SHARE * packets):
            yield _counted(count, name) + (f" in {packets:,} packets" if packets else "")


_NOUNS = {  # for counters whose own names are not plural nouns
    "link_downed": ("link loss", "link losses"),
    "link_error_recovery": ("link recovery", "link recoveries"),
    "port_rcv_errors": ("receive error", "receive errors"),
}


def _counted(count: int, counter: str, adjective: str = "") -> str:
    """Return `4,000 symbol errors`, or `1 new link loss`."""
    noun = counter.removesuffix("s").replace("_", " ")
    singular, plural = _NOUNS.get(counter, (noun, f"{noun}s"))
    return f"{count:,} {adjective}{singular if count == 1 else plural}"


def _increases(before: Mapping[str, int], after: Mapping[str, int], seconds: float | None) -> Iterator[str]:
    for name in (*FLAPS, *DAMAGED):
        if (increase := after.get(name, 0) - before.get(name, 0)) > 0 and name in before:
            yield f"{_counted(increase, name, 'new ')} " + (
                "during the tests" if seconds is None else f"within {seconds:.1f} s"
            )
