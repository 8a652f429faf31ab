"""Ports of RDMA NICs: up, of full rate, and without errors."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.shared.majority import odd_ones
from preflight.facts.link_counts import DAMAGED, FLAPS
from preflight.facts.parsers.rdma import PortCounters, RdmaPort
from preflight.facts.sections.job import Job
from preflight.facts.sections.rdma import Rdma
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.nics.rdma import NVIDIA, CountedPorts, Place, counted, used_or_all

_WAITING = ("INIT", "ARMED")
# Physical state → (meaning, remedy).
_MEANING = {
    "Polling": ("no signal from the other end", "look at the cable and at the switch's port"),
    "Disabled": ("it is switched off", "ip link set NETDEV up, or ibportstate LID PORT enable"),
    "LinkErrorRecovery": ("its link comes and goes", "clean or change optics and cable"),
    "PortConfigurationTraining": ("both ends do not agree on a link", "look at cable, optics and the switch's port"),
    "Sleep": ("it sleeps", "look at the switch's port"),
}
_HUNG = "dmesg | grep mlx5: firmware that hangs wants a reset (mlxfwreset), or a power cycle"


@cluster_check("RDM101", "The RDMA ports that count are active", products=NVIDIA, several=False)
def active(all_: All, rdma: Mapping[str, Rdma]) -> Iterator[Finding]:
    """Why: NCCL uses the ports that it finds active, without a word about the others. A host with a port less has a
    rank less on that rail: the job is slow, or hangs where rails are not connected. The ports that count are those of
    `[machine] rdma` in the inventory; without it those that are active on most hosts, since hosts have ports without a
    cable, too, and a port that is switched off, or a host with as many other ports, is only a warning; so is all where
    jobs are to use sockets.

    Check manually: grep . /sys/class/infiniband/*/ports/*/{state,phys_state}   (4: ACTIVE, 5: LinkUp; or ibstat)

    Fix: Polling: cable or switch port; Disabled: ip link set NETDEV up; not there at all: lspci, dmesg | grep mlx5.
    Ports that are not meant to be up: name those that are, [machine] rdma = ["mlx5_0", …]
    """
    places = counted(all_.cluster, rdma.values())
    if not places.places and not any(port.state in _WAITING for host in rdma.values() for port in host.ports):
        yield all_.skip("no RDMA port is active on any host, and the inventory names none")
    for name, host in rdma.items():
        ports_by_place = {(port.device, port.port): port for port in host.ports}
        alike: dict[tuple[Outcome, bool, str, str], list[str]] = defaultdict(list)
        stateless = []
        for place in sorted(places.places):
            port = ports_by_place.get(place)
            if port and port.state is None:
                stateless.append(_called(place))
            elif port is None or port.state not in ("ACTIVE", *_WAITING):
                may_be_meant = all_.cluster.probe.transport == "socket" or (
                    not all_.cluster.machine.rdma
                    and (
                        place not in places.certain
                        or (port is not None and port.physical_state == "Disabled")
                        or _as_many_as_most(host, rdma.values())
                    )
                )
                outcome = Outcome.WARN if may_be_meant else Outcome.FAIL
                alike[outcome, place in places.certain, *_trouble(place, host, port)].append(_called(place))
        if stateless:
            yield all_.unknown(f"{name}: {', '.join(stateless)}: the state could not be read", host=name)
        yield from _unread(all_, name, host, places)
        for (outcome, certain, problem, remedy), ports in alike.items():
            elsewhere = (
                "" if all_.cluster.machine.rdma else ", and active on " + ("the others" if certain else "others")
            )
            yield all_.finding(
                outcome,
                f"{name}: {', '.join(ports)}: {problem}{elsewhere}",
                host=name,
                expected="ACTIVE",
                found=problem,
                remedy=remedy,
            )


def _as_many_as_most(host: Rdma, all_hosts: Collection[Rdma]) -> bool:
    """Return whether as many ports are active as on more than half of the hosts.

    Then the host's ports only have other names, or are other ones."""
    own = _active_ports(host)
    return 2 * sum(_active_ports(peer) <= own for peer in all_hosts) > len(all_hosts)


def _active_ports(host: Rdma) -> int:
    return sum(port.state == "ACTIVE" for port in host.ports)


def _unread(all_: All, name: str, host: Rdma, places: CountedPorts) -> Iterator[Finding]:
    """Yield the values that could not be read. A port that counts and does not answer is reported with the others."""
    errors = []
    for missing in host.unread:
        device, _, trouble = missing.error.partition(" ")
        if not trouble.startswith("did not answer"):
            errors.append(missing.error)
        elif (device, 1) not in places.places:
            yield all_.unknown(f"{name}: {missing.error}", host=name, remedy=_HUNG)
    if errors:
        suffix = f"; and {len(errors) - 1} more" if len(errors) > 1 else ""
        yield all_.unknown(
            f"{name}: not everything of its RDMA devices was read: {errors[0]}{suffix}",
            host=name,
            evidence=tuple(errors),
        )


def _called(place: Place) -> str:
    """Return the port's name, without its number for port 1, the only one of nearly all devices."""
    return place[0] if place[1] == 1 else f"{place[0]} port {place[1]}"


def _trouble(place: Place, host: Rdma, port: RdmaPort | None) -> tuple[str, str]:
    """Return the problem and its remedy."""
    silent = [missing.error for missing in host.unread if missing.error.startswith(f"{place[0]} ")]
    if port is None and silent:
        return "does not answer", _HUNG
    if port is None:
        return (
            "is not there",
            "lspci -d 15b3: and dmesg | grep mlx5; is the driver loaded, and the device's name the same?",
        )
    meaning, remedy = _MEANING.get(port.physical_state or "", ("", "look at the cable and at the switch's port"))
    words = filter(None, (port.state, port.physical_state))
    return "is " + ", ".join(words) + (f" ({meaning})" if meaning else ""), remedy


@cluster_check(
    "RDM102", "Every InfiniBand port with a link is known to a subnet manager", products=NVIDIA, several=False
)
def managed(all_: All, rdma: Mapping[str, Rdma]) -> Iterator[Finding]:
    """Why: an InfiniBand port has an address only when the fabric's subnet manager has given it one. Until then it is
    in INIT or ARMED though its link is up, and NCCL passes it over. One host: its switch port is not managed; all
    hosts: no subnet manager runs.

    Check manually: cat /sys/class/infiniband/*/ports/*/state; sminfo

    Fix: start the subnet manager: on the switch, or opensm on one host
    """
    places = counted(all_.cluster, rdma.values()).places
    findings: list[Finding] = []
    for name, host in rdma.items():
        waiting = [port for port in host.ports if port.state in _WAITING and port.link_layer != "Ethernet"]
        count = [port for port in waiting if (port.device, port.port) in places]
        none_up = not any(port.state == "ACTIVE" for port in host.ports)
        if waiting:
            ports = ", ".join(f"{_called((port.device, port.port))} is {port.state}" for port in count or waiting)
            findings.append(
                (all_.bad if count or none_up else all_.warn)(
                    f"{name}: {ports}: it has a link, and no subnet manager has found it",
                    host=name,
                    expected="ACTIVE",
                    found=(count or waiting)[0].state or "",
                    remedy="sminfo; start opensm on one host, or on the switch",
                )
            )
    failed = [finding for finding in findings if finding.outcome is Outcome.FAIL]
    if len(failed) > 1 and not any(_is_managed(port) for host in rdma.values() for port in host.ports):
        yield all_.bad(
            f"no InfiniBand port is known to a subnet manager, on {len(failed)} hosts: none seems to run",
            host=None,
            expected="ACTIVE",
            found=failed[0].found,
            evidence=tuple(finding.summary for finding in findings),
            remedy="sminfo; start opensm on one host, or on the switch",
        )
    else:
        yield from findings


def _is_managed(port: RdmaPort) -> bool:
    return port.state == "ACTIVE" and port.link_layer != "Ethernet"


@cluster_check(
    "RDM103", "Every RDMA port is as fast as the same port of the other hosts", products=NVIDIA, optional=("job",)
)
def rate(all_: All, rdma: Mapping[str, Rdma], job: Mapping[str, Job | None]) -> Iterator[Finding]:
    """Why: a port whose link came up with fewer lanes, or at a lower speed, is active and right, and every ring through
    it waits for it. Ports that jobs do not use, by `[machine] rdma` or NCCL_IB_HCA, are left out.

    Check manually: cat /sys/class/infiniband/*/ports/*/rate   (or ibstat)

    Fix: clean or change optics and cable, and look at the speed that the switch's port is set to; then take the link
    down and up
    """
    rates: dict[Place, dict[str, float]] = defaultdict(dict)
    places = counted(all_.cluster, rdma.values())
    for name, host in rdma.items():
        ports = used_or_all(all_.cluster, job[name], places.active(host))
        if isinstance(ports, str):
            yield all_.skip(ports, host=name)
            continue
        for port in ports:
            if port.rate is not None:
                rates[port.device, port.port][name] = port.rate
    for place, by_host in sorted(rates.items()):
        for odd in odd_ones(by_host):
            if odd.value < odd.usual:
                yield all_.bad(
                    f"{odd.host}: {_called(place)} has {odd.value:g} Gbit/s, {odd.elsewhere} {odd.usual:g}",
                    host=odd.host,
                    peer=odd.others[0],
                    expected=f"{odd.usual:g} Gbit/s",
                    found=f"{odd.value:g} Gbit/s",
                    remedy="clean or change optics and cable; look at the speed of the switch's port",
                )


FEW, SHARE = 10, 1e-6  # a link with at most so many errors, and such a share of its packets, counts as healthy


@host_check(
    "RDM108",
    "The RDMA ports' links hold, and their packets arrive whole",
    severity=Outcome.WARN,
    products=NVIDIA,
    optional=("job",),
)
def counters(here: Here, rdma: Rdma, job: Job | None) -> Iterator[Finding]:
    """Why: a link that goes down for a second ends a job with "Got async event : port error", or with error 12, and is
    up again when somebody looks. The counters go back to the start of the driver, when a switch may have been
    restarted: ten are a warning, as is one that has just risen. Damaged packets are counted against all that came.
    Ports that jobs do not use, by `[machine] rdma` or NCCL_IB_HCA, are left out.

    Check manually: cd /sys/class/infiniband; grep . */ports/*/counters/*err* */ports/*/counters/link_downed, twice

    Fix: clean or change optics and cable; perfquery -R sets InfiniBand's counters back, so that a new error shows
    """
    ports = used_or_all(here.cluster, job, [port for port in rdma.ports if port.state == "ACTIVE"])
    if isinstance(ports, str):
        yield here.skip(ports)
        return
    up = {(port.device, port.port) for port in ports}
    later = {(port_values.device, port_values.port): port_values.values for port_values in rdma.later}
    for port in rdma.counters:
        place = (port.device, port.port)
        if place not in up:
            continue
        problems = [*_many(port), *_rising(port.values, later.get(place, {}), rdma.seconds)]
        if problems:
            yield here.bad(
                f"{here.host.name}: {_called(place)}: {', '.join(problems)}",
                found=", ".join(problems),
                expected="none",
                remedy=f"watch /sys/class/infiniband/{port.device}/ports/{port.port}/counters; if they rise, clean or "
                "change optics and cable",
            )


def _many(port: PortCounters) -> Iterator[str]:
    for name in FLAPS:
        if (count := port.values.get(name, 0)) >= FEW:
            yield f"{name} {count}"
    packets = port.values.get("port_rcv_packets", 0)
    for name in DAMAGED:
        if (count := port.values.get(name, 0)) >= max(FEW, SHARE * packets):
            yield f"{name} {count}" + (f" of {packets} packets" if packets else "")


def _rising(before: Mapping[str, int], after: Mapping[str, int], seconds: float | None) -> Iterator[str]:
    for name in (*FLAPS, *DAMAGED):
        if (increase := after.get(name, 0) - before.get(name, 0)) > 0 and name in before:
            yield f"{name} rose by {increase} " + ("during the tests" if seconds is None else f"within {seconds:.1f} s")
