"""How much of its ports' line rate a test reached. Pure.

Only device NICs tell their speed (`hccn_tool -speed -g`), so only what ran over hccl gets a share. A host NIC's speed
says little about gloo, which is bound by a core long before. Nor does a port's speed say anything where tensors are in
the host's memory, as on the lab's stand-ins: no device sends them through its port.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from preflight.facts.sections.nic import Nic
from preflight.facts.types import ClusterFacts, HostFacts
from preflight.model.measure import Observation, Scope

_OVER_PORTS = (Scope.PAIR, Scope.RAIL)  # one device a host, so that all that busbw counts went through each one's port
_BITS = 8000  # Mb/s in a GB/s


def ports(facts: ClusterFacts) -> dict[tuple[str, int], float]:
    """(host, device) → what its NIC's port carries, GB/s; those whose speed is known, and not 0."""
    return {
        (name, device.index): device.speed.value / _BITS
        for name, host in facts.hosts.items()
        if isinstance(host, HostFacts) and isinstance(host.nic, Nic)
        for device in host.nic.devices
        if device.speed.value
    }


def with_line_rates(
    observations: Iterable[Observation], speeds: Mapping[tuple[str, int], float]
) -> tuple[Observation, ...]:
    """The observations; tests of pairs and rails with the share of their slowest port's speed that they reached."""
    return tuple(replace(seen, test=replace(seen.test, line_rate=_share(seen, speeds))) for seen in observations)


def _share(seen: Observation, speeds: Mapping[tuple[str, int], float]) -> float | None:
    test = seen.test
    over_ports = test.scope in _OVER_PORTS and len({member.host for member in test.members}) == len(test.members)
    on_host = any(view.on_host for view in seen.ranks)
    if not over_ports or on_host or test.busbw_GBps is None or (seen.meeting and seen.meeting.backend != "hccl"):
        return None
    told = [speeds.get((member.host, member.device)) for member in test.members]
    known = [speed for speed in told if speed]
    return test.busbw_GBps / min(known) if known and len(known) == len(told) else None
