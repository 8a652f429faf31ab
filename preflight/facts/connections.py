"""Connections between the hosts in the first round trip: targets of each host, and outcomes by target. Pure.

preflight/remote/collect makes the connections.
"""

import errno
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from preflight.facts.sections.firewall import Arrival, Arrivals
from preflight.facts.types import Missing
from preflight.model.cluster import Cluster, Host
from preflight.model.ports import PortSet

_ALL_TO_ALL = 4  # hosts; in a larger cluster each host tries only the next host of the ring
_MOST_PORTS = 8
_NO_ERROR = 4096  # the kernel has no error numbers from here on
_REJECTED = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.ECONNREFUSED)


@dataclass
class Tried:
    """The outcome of one connection, as the collector sends it.

    `code`: 0 or an errno. `icmp`: the address that answered like a firewall.
    """

    host: str
    address: str | None = None
    port: int | None = None
    code: int | None = None
    client: str | None = None
    icmp: str | None = None
    busy: bool = False
    error: str = ""


def targets(cluster: Cluster, hosts: Sequence[Host], name: str) -> list[tuple[str, str]]:
    """Return the hosts that `name` tries, with the address to connect to."""
    position = [host.name for host in hosts].index(name)
    ring = [*hosts[position + 1 :], *hosts[:position]]
    partners = ring if len(hosts) <= _ALL_TO_ALL else ring[:1]
    return [(host.name, _place(cluster, host)) for host in partners]


def _place(cluster: Cluster, host: Host) -> str:
    """Return the host's address if it is in the cluster's networks, else its name."""
    try:
        address = ip_address(host.address)
    except ValueError:
        return host.name
    is_inside = not cluster.cidrs or any(address in cidr for cidr in cluster.cidrs)
    return host.address if is_inside else host.name


def ports(wanted: PortSet) -> list[int]:
    """Return the first and last port of each range if these are few; else some, spread evenly over them."""
    ends = sorted({port for ends in wanted.ranges for port in ends})
    if len(ends) <= _MOST_PORTS:
        return ends
    return [ends[round(step * (len(ends) - 1) / (_MOST_PORTS - 1))] for step in range(_MOST_PORTS)]


def arrivals(
    attempts_by_source: Mapping[str, Sequence[Tried] | Missing], targets: Mapping[str, Sequence[str]]
) -> dict[str, Arrivals]:
    """Return host → the connections to it. `targets`: those of each source."""
    connections: dict[str, list[Arrival]] = defaultdict(list)
    for source, attempts in attempts_by_source.items():
        if isinstance(attempts, Missing):
            for target in targets[source]:
                connections[target].append(Arrival(source, "error", error=attempts.error))
            continue
        for attempt in attempts:
            if attempt.host in targets[source]:
                connections[attempt.host].append(_arrival(source, attempt))
    return {target: Arrivals(tuple(arrivals)) for target, arrivals in connections.items()}


def _arrival(source: str, attempt: Tried) -> Arrival:
    outcome, message = _outcome(attempt)
    client, address, icmp = map(_address, (attempt.client, attempt.address, attempt.icmp))
    return Arrival(source, outcome, attempt.port, client, address, icmp, message)


def _outcome(attempt: Tried) -> tuple[str, str]:
    """Return the outcome, and the message of the kernel or the collector."""
    if attempt.busy:
        return "in-use", ""
    if attempt.code is None or attempt.error:
        return "error", attempt.error or "its state is unknown"
    if attempt.code == 0:
        return "connected", ""
    if attempt.code == errno.ECONNREFUSED and attempt.icmp is None:
        return "refused", ""
    if attempt.code == errno.ETIMEDOUT:
        return "timeout", ""
    return "rejected" if attempt.code in _REJECTED else "error", _message(attempt.code)


def _address(text: str | None) -> str | None:
    """Return the text if it is an address; the answer is untrusted."""
    try:
        return str(ip_address(text)) if text else None
    except ValueError:
        return None


def _message(code: int) -> str:
    """Return the system's message for an error number; the number itself if there is no message."""
    return os.strerror(code) if 0 <= code < _NO_ERROR else f"error {code}"
