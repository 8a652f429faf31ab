"""The probe's own time with 1,000 simulated hosts of 8 devices: healthy, and with five faults.

`python -m benchmarks.agents [--hosts 1000]`. The agents are simulated (`benchmarks.simulated_agents`). The conductor,
the choice of pairs, the timeouts and the attribution are the real ones. A round's time includes the simulation's, on
another core, and the time for which a silent pair is waited for.
"""

import argparse
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from unittest.mock import patch

from benchmarks.measure import machine
from benchmarks.simulated_agents import Fault, Place, SimulatedAgents
from preflight.model.cluster import Cluster, Device, Host, ProbeSettings, Product
from preflight.model.measure import Observation
from preflight.probe import run
from preflight.probe.conductor import Conductor
from preflight.probe.hooks import Hooks
from preflight.probe.request import Request
from preflight.probe.rounds import Round
from preflight.probe.run import ProbeResult

DEVICES = 8
SIZES = (8, 1 << 20, 16 << 20)
FAULTS: Mapping[Place, Fault] = {
    ("host0007", 3): "hangs",
    ("host0123", 0): "slow",
    ("host0456", 5): "wrong",
    ("host0789", 7): "hangs",
    ("host0900", 2): "slow",
}


@dataclass
class Rounds:
    """Seconds and CPU seconds of each round that a conductor played, by its name."""

    seconds: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)


class TimedConductor(Conductor):
    """A conductor that times its rounds."""

    rounds = Rounds()

    def play(self, round_: Round, until: float) -> list[Observation]:
        begin, cpu = time.perf_counter(), time.process_time()
        observations = super().play(round_, until)
        self.rounds.seconds[round_.name] = time.perf_counter() - begin
        self.rounds.cpu[round_.name] = time.process_time() - cpu
        self.rounds.ranks[round_.name] = sum(len(group.members) for group in round_.groups)
        return observations


def cluster_of(hosts: int) -> Cluster:
    devices = tuple(Device(index) for index in range(DEVICES))
    names = [f"host{number:04}" for number in range(1, hosts + 1)]
    return Cluster(
        "agents",
        Product.NVIDIA,
        tuple(Host(name, f"10.0.{number >> 8}.{number & 255}", devices=devices) for number, name in enumerate(names)),
        probe=ProbeSettings("python3", backend="nccl"),
    )


def played(cluster: Cluster, faults: Mapping[Place, Fault]) -> tuple[ProbeResult, float, Rounds]:
    """Return the result of a probe, its seconds, and its rounds."""
    TimedConductor.rounds = Rounds()
    agents = SimulatedAgents(cluster.hosts, faults)
    begin = time.perf_counter()
    try:
        request = Request("nccl", SIZES, quick=True, seed=1)
        with patch.object(run, "Conductor", TimedConductor):
            result = run.probe(cluster, cluster.hosts, agents, request, Hooks())
    finally:
        agents.end()
    return result, time.perf_counter() - begin, TimedConductor.rounds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents")
    parser.add_argument("--hosts", type=int, default=1000)
    hosts = parser.parse_args().hosts
    cluster = cluster_of(hosts)
    for name, faults in (("healthy", {}), ("five faults", FAULTS)):
        result, seconds, rounds = played(cluster, faults)
        culprits = sorted(f"{it.kind} {' '.join(it.members)}" for it in result.located)
        print(f"{hosts} simulated hosts x {DEVICES} devices, {name}: {seconds:.1f} s")
        for round_, took in rounds.seconds.items():
            print(f"  round {round_}: {rounds.ranks[round_]} ranks, {took:.1f} s, {rounds.cpu[round_]:.1f} s of CPU")
        print(f"  culprits: {', '.join(culprits) or 'none'}", flush=True)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  at most {memory:.0f} MB resident; {machine()}")


if __name__ == "__main__":
    main()
