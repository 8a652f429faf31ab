"""Checks of the errors that ports counted while the probe sent over them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.facts.link_counts import DAMAGED, FLAPS, LinkCounts, PortCount, told_of
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

SHARE, FEW = 1e-6, 10  # of packets, as in NIC109; a link with fewer counts as healthy


@cluster_check(
    "PRB120",
    "Port errors during the probe",
    severity=Outcome.WARN,
    products=NPU | {Product.NVIDIA},
    several=False,
)
def port_errors(scribe: All, link_counts: LinkCounts) -> Iterator[Finding]:
    """Why: Counters start with the driver, so they include errors of cables that were replaced long ago. Errors
    during the probe are current: a lost link, damaged packets, packets that were sent again. A collective hides a lost
    packet, but becomes slow.

    Result: WARN for a link that went down, and for one damaged packet. WARN for packets that were sent again if they
    are at least ten, and at least one in a million. If the probe sent over RDMA, the counters are read before and after
    the tests, even if all tests passed.

    Check manually: Read the counters before and after a job. On hosts with GPUs:
      grep . /sys/class/infiniband/*/ports/*/counters/*
    On hosts with NPUs:
      hccn_tool -i 0 -stat -g

    Fix: Clean or replace the optics and the cable. If packets were sent again or arrived out of sequence, check PFC and
    congestion on the switches.
    """
    by_host: dict[str, list[PortCount]] = defaultdict(list)
    for port in link_counts.ports:
        by_host[port.host].append(port)
    yield from _not_counted(scribe, link_counts)
    used_rdma = any(port.packets is None or port.packets or port.errors for port in link_counts.ports)
    for host in (host.name for host in scribe.hosts if by_host[host.name]):
        if used_rdma:
            yield from _counted(scribe, host, by_host[host])
        else:
            yield scribe.skip(
                f"{host}: no RDMA port counted a packet during the tests, so they used another network", host=host
            )


def _not_counted(scribe: All, link_counts: LinkCounts) -> Iterator[Finding]:
    tested = {*(port.host for port in link_counts.ports), *link_counts.unknown, *link_counts.without}
    for host in (host.name for host in scribe.hosts):
        if host not in tested:
            yield scribe.skip(f"{host}: left out of the tests", host=host)
        if why := link_counts.unknown.get(host):
            yield scribe.unknown(f"{host}: the port counters are unknown: {why}", host=host)
        if host in link_counts.without:
            yield scribe.skip(f"{host}: the ports report no counters", host=host)


def _counted(scribe: All, host: str, ports: Sequence[PortCount]) -> Iterator[Finding]:
    bad = list(filter(_are_many, ports))
    for port in bad:
        yield scribe.bad(
            f"{host}: {port.port}: {told_of(port.errors)} during the tests",
            host=host,
            device=port.device,
            expected="none",
            found=told_of(port.errors),
            evidence=() if port.packets is None else (f"{port.packets} packets during the tests",),
            remedy=f"run the probe again. If {port.port} counts errors again, clean or replace the optics "
            "and the cable at both ends",
            retest="preflight probe",
        )
    if not bad:
        packets = sum(port.packets or 0 for port in ports)
        errors = "".join(f", {port.port}: {told_of(port.errors)}" for port in ports if port.errors)
        summary = f"{host}: {len(ports)} ports counted {packets} packets during the tests{errors}"
        yield scribe.finding(Outcome.PASS, summary, host=host)


def _are_many(port: PortCount) -> bool:
    limit = max(FEW, SHARE * (port.packets or 0))
    return any(count >= (1 if name in (*FLAPS, *DAMAGED) else limit) for name, count in port.errors.items())
