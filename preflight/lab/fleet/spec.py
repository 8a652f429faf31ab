"""The specification of a fleet, and what each simulated host does. Pure: the same seed draws the same fleet."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Literal, get_args

from preflight.model.errors import UsageError

Behaviour = Literal["dead", "refuse", "hang", "stall", "slow", "garbage"]
# Behaviours of hosts that do not answer as they should, as the end of "hosts that …".
BEHAVIOURS: Mapping[Behaviour, str] = {
    "dead": "send no packet back",
    "refuse": "refuse the connection",
    "hang": "accept the connection and stay silent",
    "stall": "accept the login and never answer",
    "slow": "answer byte by byte",
    "garbage": "answer with noise",
}
Drift = Literal["link-down", "other-kernel", "ports-not-reserved", "wrong-clock"]
DRIFTS: tuple[Drift, ...] = get_args(Drift)  # faults in a host's facts

MOST_HOSTS = 8000  # three open files each
MOST_DEVICES = 16
SPREAD = 0.2
# Loopback answers for the whole block while a fleet runs. It belongs to tests between networks (RFC 2544).
NETWORK = IPv4Network("198.19.0.0/16")


@dataclass(frozen=True)
class FleetSpec:
    """A requested fleet.

    `think`: seconds until a program answers; each host draws its own, up to SPREAD of it more or less. `shares`: of
    the hosts (0 to 1) with each behaviour. `faulty`: share of the hosts whose facts show a drift.
    """

    hosts: int
    devices: int = 0
    think: float = 1.0
    shares: Mapping[Behaviour, float] = field(default_factory=dict)
    faulty: float = 0.0
    seed: int = 1
    port: int = 2222

    def __post_init__(self) -> None:
        """Raise UsageError for the first impossible value."""
        if not 1 <= self.hosts <= MOST_HOSTS:
            raise UsageError(f"--hosts must be 1 to {MOST_HOSTS}, not {self.hosts}.")
        if not 0 <= self.devices <= MOST_DEVICES:
            raise UsageError(f"--devices must be 0 to {MOST_DEVICES}, not {self.devices}.")
        if not 0 <= self.think <= 600:
            raise UsageError(f"--think must be 0 to 600 seconds, not {self.think:g}.")
        if not 1 <= self.port <= 65535:
            raise UsageError(f"--port must be 1 to 65535, not {self.port}.")
        if sum(self.shares.values()) > 1:
            raise UsageError("the shares of hosts that do not answer exceed 100%.")

    @property
    def product(self) -> str:
        return "atlas-a2" if self.devices else "cpu"

    @property
    def host_names(self) -> list[str]:
        width = max(2, len(str(self.hosts)))
        return [f"node{number:0{width}d}" for number in range(1, self.hosts + 1)]


@dataclass(frozen=True)
class SimulatedHost:
    """One host. `behaviour`: None if it answers. `drift`: what its facts show, or None. `think`: seconds."""

    name: str
    address: str
    think: float
    behaviour: Behaviour | None = None
    drift: Drift | None = None
    device: int = 0  # of the drift, where it is about one


def draw(spec: FleetSpec) -> list[SimulatedHost]:
    """Return the hosts of a fleet, as its seed draws them."""
    drawn = random.Random(spec.seed)
    order = list(range(spec.hosts))
    drawn.shuffle(order)
    behaviours: dict[int, Behaviour] = {}
    for behaviour in BEHAVIOURS:
        for _ in range(min(len(order), round(spec.shares.get(behaviour, 0.0) * spec.hosts))):
            behaviours[order.pop()] = behaviour
    faulty = set(order[: round(spec.faulty * spec.hosts)])
    drifts = [drift for drift in DRIFTS if spec.devices or drift != "link-down"]
    return [
        SimulatedHost(
            name,
            str(NETWORK[number + 1]),
            spec.think * drawn.uniform(1 - SPREAD, 1 + SPREAD),
            behaviours.get(number),
            drawn.choice(drifts) if number in faulty else None,
            drawn.randrange(max(1, spec.devices)),
        )
        for number, name in enumerate(spec.host_names)
    ]
