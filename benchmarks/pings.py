"""Time to plan the pings of a large cluster and to find the causes of lost pings, without contact to any host."""

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.measure import machine
from preflight.attribution.lost_pings import causes
from preflight.facts.pings.plan import PingPlan, PingScope, plan_pings
from preflight.facts.types import ClusterFacts, Hccn, HccnDevice, HostFacts, Missing, Reading, Unreachable
from preflight.model.cluster import Cluster, Device, Host, Product
from preflight.model.ping import Ping

BEHIND_A_LEAF = 32  # hosts


def cluster(hosts: int, devices: int) -> tuple[Cluster, ClusterFacts]:
    """Return a cluster and its facts, with a subnet, a gateway and leaves for every rail."""

    def seen(host: int, index: int) -> HccnDevice:
        return HccnDevice(
            index, Reading(f"10.{index}.{host >> 8}.{host & 255}"), Reading("255.255.0.0"), Reading("UP"), Reading(),
            Reading(), Reading(f"10.{index}.255.254"), Reading(), Reading(),
            Reading(f"leaf{index}-{host // BEHIND_A_LEAF}"), Reading("1500"),
        )  # fmt: skip

    no = Missing("not looked at")
    facts: dict[str, HostFacts | Unreachable] = {
        f"node{host:04}": HostFacts(
            no, no, no, no, no, no, no, no, no, hccn=Hccn(tuple(seen(host, index) for index in range(devices)))
        )
        for host in range(hosts)
    }
    inventory = tuple(Host(name, name, devices=tuple(map(Device, range(devices)))) for name in facts)
    return Cluster("bench", Product.ATLAS_A3, inventory), ClusterFacts(facts)


def planning(hosts: int, devices: int, wanted: PingScope, runs: int = 5) -> PingPlan:
    """Measure the plan for this number of hosts and for half of it. Twice the time for twice the hosts is linear."""
    small, large = cluster(hosts // 2, devices), cluster(hosts, devices)
    plan = plan_pings(*large, wanted)
    half, whole = _medians(lambda: plan_pings(*small, wanted), lambda: plan_pings(*large, wanted), runs=runs)
    kind = "mesh" if wanted.mesh else "neighbours"
    print(f"{hosts} hosts x {devices} devices, {kind}: {len(plan.pings):,} pings planned in {whole:.2f} s, ", end="")
    print(f"{whole / half:.1f} times the time of {hosts // 2} hosts")
    return plan


def counting(plan: PingPlan, runs: int = 5) -> None:
    """Measure the search for two causes in all pings: a rail that is off and a quarter of the hosts that is cut off."""
    hosts = sorted({ping.host for ping in plan.pings})
    part = set(hosts[: len(hosts) // 4])

    def off(ping: Ping) -> bool:
        return ping.device == 1

    def cut(ping: Ping) -> bool:
        return ping.peer != "gateway" and (ping.host in part) != (ping.peer.partition("/")[0] in part)

    def cut_on_one_rail(ping: Ping) -> bool:
        return off(ping) and cut(ping)

    for what, lost in (("a rail", off), ("a quarter", cut), ("a quarter of a rail", cut_on_one_rail)):
        done = [replace(ping, sent=3, received=0 if lost(ping) else 3) for ping in plan.pings]
        (seconds,) = _medians(lambda done=done: causes(done, {}), runs=runs)  # type: ignore[misc]
        print(f"  {what}: {len(causes(done, {}))} cause named out of {len(done):,} pings in {seconds:.2f} s")


def _medians(*works: Callable[[], object], runs: int) -> tuple[float, ...]:
    """Seconds of the processor that each takes, done in turns: on a machine with other work the clock tells less."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(runs):
        for work, mine in zip(works, times, strict=True):
            start = time.process_time()
            work()
            mine.append(time.process_time() - start)
    return tuple(map(statistics.median, times))


def main() -> None:
    counting(planning(4000, 16, PingScope()))
    counting(planning(240, 16, PingScope(mesh=True)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  at most {memory:.0f} MB resident; {machine()}")


if __name__ == "__main__":
    main()
