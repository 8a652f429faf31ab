"""Counters of the RDMA ports during the probe's tests: their rise from before the tests to after them. Pure.

Names of counters: Linux's Documentation/ABI/stable/sysfs-class-infiniband, mlx5's hw_counters, `hccn_tool -stat -g`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from preflight.facts.sections.nic import Nic
from preflight.facts.sections.rdma import Rdma
from preflight.facts.types import ClusterFacts, HostFacts, Missing, Unreachable

# Counters of RDMA NICs: lost links, damaged packets, and packets that were sent or requested again.
FLAPS = ("link_downed", "link_error_recovery")
DAMAGED = ("symbol_error", "port_rcv_errors", "local_link_integrity_errors")
AGAIN = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "port_xmit_discards")
# Counters of devices' own NICs: errors, and the total that each is compared with. Jobs that were ended also cause other
# errors (queue pair errors, unexpected acknowledgements), which are left out.
WATCHED = {
    "mac_rx_bad_pkt_num": "mac_rx_total_pkt_num",
    "mac_tx_bad_pkt_num": "mac_tx_total_pkt_num",
    "roce_rx_err_pkt_num": "roce_rx_all_pkt_num",
    "roce_tx_err_pkt_num": "roce_tx_all_pkt_num",
    "roce_out_of_order_num": "roce_rx_all_pkt_num",
    "roce_new_pkt_rty_num": "roce_tx_all_pkt_num",
}
_PACKETS = ("port_rcv_packets", "port_xmit_packets", "roce_rx_all_pkt_num", "roce_tx_all_pkt_num")
_ERRORS = (*FLAPS, *DAMAGED, *AGAIN, *WATCHED)


@dataclass(frozen=True)
class PortCount:
    """The counters of one port. `port`: "mlx5_0 port 1", or "device 3".

    `packets`: received and sent. None: not counted. `errors`: each of the error counters above that rose → its rise.
    """

    host: str
    port: str
    device: int | None
    packets: int | None
    errors: dict[str, int]


@dataclass(frozen=True)
class LinkCounts:
    """The counters of all ports.

    `unknown`: host → why its counters are unknown. `without`: hosts without counters, or with a tool that prints none.
    """

    ports: tuple[PortCount, ...]
    unknown: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()


Section = Literal["rdma", "nic"]  # of the facts: the host's RDMA NICs, or the devices' own
_Values = Mapping[str, int]


def between(before: ClusterFacts, after: ClusterFacts, hosts: Iterable[str], section: Section) -> LinkCounts:
    """Return the rise of the counters of `hosts` between two runs. A counter that was reset meanwhile is left out."""
    ports: list[PortCount] = []
    unknown_reasons: dict[str, str] = {}
    without: list[str] = []
    for host in hosts:
        earlier, later = (_counters(facts.hosts.get(host), section) for facts in (before, after))
        if isinstance(earlier, str):
            unknown_reasons[host] = f"before the tests: {earlier}"
        elif isinstance(later, str):
            unknown_reasons[host] = f"after the tests: {later}"
        elif not earlier:
            without.append(host)
        else:
            ports += (_count(host, port, earlier[port], later[port]) for port in later if port in earlier)
            if missing := sorted(name for name, _ in earlier.keys() - later.keys()):
                unknown_reasons[host] = f"{', '.join(missing[:4])} reported no counters after the tests"
    return LinkCounts(tuple(ports), unknown_reasons, tuple(without))


def sentence(counts: LinkCounts) -> str:
    """Return a sentence for the notes of a report; "" if no port counted anything."""
    packet_counts = [port.packets for port in counts.ports if port.packets is not None]
    if not any(packet_counts) and not any(port.errors for port in counts.ports):
        return ""
    hosts = len({port.host for port in counts.ports})
    packets = f"{sum(packet_counts)} packets" if packet_counts else "packets not counted"
    ports = f"{len(counts.ports)} port{'s' if len(counts.ports) > 1 else ''}"
    on_hosts = f"on {hosts} host{'s' if hosts > 1 else ''}"
    return f"RDMA during the tests: {ports} {on_hosts}, {packets}, {_error_clause(counts.ports)}"


def _error_clause(ports: Iterable[PortCount]) -> str:
    failing_ports = [port for port in ports if port.errors]
    if not failing_ports:
        return "no errors"
    examples = [f"{port.host} {port.port}: {told_of(port.errors)}" for port in failing_ports[:4]]
    uncounted = [f"{len(failing_ports) - 4} more ports"] if len(failing_ports) > 4 else []
    return f"errors on {'; '.join(examples + uncounted)}"


def told_of(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{name} rose by {rise}" for name, rise in errors.items())


def _counters(contact: HostFacts | Unreachable | None, section: Section) -> dict[tuple[str, int | None], _Values] | str:
    """Return (port's name, device) → its counters, or why there are none."""
    if not isinstance(contact, HostFacts):
        return contact.summary if contact else "not checked"
    value = contact.rdma if section == "rdma" else contact.nic
    return value.error if isinstance(value, Missing) else dict(_of_ports(value))


def _of_ports(value: Rdma | Nic | None) -> Iterator[tuple[tuple[str, int | None], _Values]]:
    if isinstance(value, Rdma):
        for counters in (*value.counters, *value.later):  # for each port, the later values count
            yield (f"{counters.device} port {counters.port}", None), counters.values
    if isinstance(value, Nic):
        for device in value.devices:
            if device.packets.value:
                yield (f"device {device.index}", device.index), device.packets.value


def _count(host: str, place: tuple[str, int | None], then: _Values, now: _Values) -> PortCount:
    packets = _rise(then, now, _PACKETS)
    errors = {name: rise for name, rise in _rise(then, now, _ERRORS).items() if rise}
    return PortCount(host, place[0], place[1], sum(packets.values()) if packets else None, errors)


def _rise(then: _Values, now: _Values, names: Sequence[str]) -> dict[str, int]:
    return {name: now[name] - then[name] for name in names if name in then and now.get(name, -1) >= then[name]}
