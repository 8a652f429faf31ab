"""Time of a further round of the probe with running agents: fresh processes, a communicator, and its end.

Two hosts of eight ranks, both this machine, use gloo on the loopback interface. The first round is left out.
"""

import argparse
import statistics
import sys
import time
from dataclasses import replace

from benchmarks.measure import machine
from preflight.model.cluster import Cluster, Device, Host, ProbeSettings, Product
from preflight.model.measure import Observation, TestOutcome
from preflight.probe.agents import Agents, ProbeWorkload
from preflight.probe.conductor import Conductor
from preflight.probe.request import Request
from preflight.probe.rounds import ProbePlan, Round
from preflight.transport.local import LocalTransport
from preflight.transport.types import Options

BACKEND = "gloo"
LIMIT = 1.5  # seconds
FOR_EVER = float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    devices = tuple(Device(index) for index in range(8))
    hosts = tuple(Host(name, "127.0.0.1", devices=devices) for name in ("node01", "node02"))
    cluster = Cluster("rounds", Product.CPU, hosts, probe=ProbeSettings(sys.executable, backend=BACKEND))
    plan = ProbePlan(cluster, hosts, Request(BACKEND, (8, 1 << 20), quick=True), crowded=True)
    makes = {
        "come together and leave": lambda number: _empty(plan.all_devices(number)),
        "everybody, quick": plan.all_devices,
        "eight rails, quick": plan.rails,
    }
    transport = LocalTransport(Options())
    took: dict[str, list[float]] = {name: [] for name in makes}
    try:
        with Agents(cluster, hosts, transport, ProbeWorkload(BACKEND)) as agents:
            conductor = Conductor(agents, BACKEND, lambda _: None)
            conductor.roll_call(hosts, FOR_EVER)
            conductor.deadline = 60.0
            names = [name for _ in range(runs + 1) for name in makes]
            for number, name in enumerate(names):  # a group name is used once, as in a run
                begin = time.perf_counter()
                round_ = makes[name](number)
                _passed(conductor.play(round_, FOR_EVER), round_)
                if number >= len(makes):
                    took[name].append(time.perf_counter() - begin)
    finally:
        transport.close()
    print(f"a further round of 2 x 8 ranks over gloo: seconds, median (fastest to slowest) of {runs}")
    for name, seconds in took.items():
        print(f"  {name:<26}{statistics.median(seconds):6.2f} ({min(seconds):.2f} to {max(seconds):.2f})")
    worst = max(statistics.median(seconds) for seconds in took.values())
    print(f"  under {LIMIT} s: {'yes' if worst < LIMIT else 'NO'}")
    print(f"  {machine()}")


def _empty(round_: Round) -> Round:
    return replace(round_, groups=tuple(replace(group, tests=()) for group in round_.groups))


def _passed(seen: list[Observation], round_: Round) -> None:
    """Raise RuntimeError if a test of the round did not pass or run."""
    bad = [one.test.id for one in seen if one.test.outcome is not TestOutcome.PASS]
    if bad or len(seen) < sum(len(group.tests) for group in round_.groups):
        raise RuntimeError(f"the round did not pass: {bad}")


if __name__ == "__main__":
    main()
