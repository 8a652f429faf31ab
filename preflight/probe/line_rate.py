"""Share of the ports' line rate that a test reached. Pure.

Only device NICs report their speed (`hccn_tool -speed -g`), so only tests over hccl get a share. A host NIC's speed
says little about gloo, which is limited by a core long before. A port's speed says nothing either if tensors are in the
host's memory, as on the lab's stand-ins: no device sends them through its port.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from preflight.facts.sections.nic import Nic
from preflight.facts.types import ClusterFacts, HostFacts
from preflight.model.measure import Observation, Scope

_OVER_PORTS = (Scope.PAIR, Scope.RAIL)  # one device a host, so that all of busbw went through each device's port
_BITS = 8000  # Mb/s in a GB/s


def ports(facts: ClusterFacts) -> dict[tuple[str, int], float]:
    """Return (host, device) → speed of its NIC's port in GB/s, if it is known and not 0."""
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
    """Return the observations, with line rates for tests of pairs and rails.

    A line rate is the share of the slowest port's speed that the test reached.
    """
    return tuple(
        replace(observation, test=replace(observation.test, line_rate=_share(observation, speeds)))
        for observation in observations
    )


def _share(observation: Observation, speeds: Mapping[tuple[str, int], float]) -> float | None:
    test = observation.test
    if test.busbw_GBps is None or not _is_over_ports(observation):
        return None
    port_speeds = [speeds.get((member.host, member.device)) for member in test.members]
    known_speeds = [speed for speed in port_speeds if speed]
    return test.busbw_GBps / min(known_speeds) if known_speeds and len(known_speeds) == len(port_speeds) else None


def _is_over_ports(observation: Observation) -> bool:
    """Return whether all data of a test went from device memory through the ports of its devices."""
    test, meeting = observation.test, observation.meeting
    if test.scope not in _OVER_PORTS or len({member.host for member in test.members}) < len(test.members):
        return False
    if meeting and meeting.backend != "hccl":
        return False
    return not any(view.on_host for view in observation.ranks)
