"""All checks over the facts of large clusters, without contact to any host.

The facts are those of the tests' healthy cluster, with a rank table, and with a whitelist and /etc/hosts of all hosts.
Thus the data that grows with the square of the hosts on a real site also does so here.
"""

import json
import resource
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network
from unittest.mock import patch

from benchmarks.measure import machine
from preflight.checks.engine.registry import Check, all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.reading import Found
from preflight.facts.sections.job import Job, SeenFile
from preflight.facts.sections.naming import Naming
from preflight.facts.sections.nic import Neighbour, Nic
from preflight.facts.types import Clock, ClusterFacts, HostFacts, Names, Sysctl, Unreachable
from preflight.model.cluster import Cluster, Device, Host
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from tests.unit import healthy

DEVICES = 8
NETWORK = IPv4Network("10.1.0.0/16")
BEHIND_A_LEAF = 32  # hosts
_FILES = {"RANK_TABLE_FILE": "/data/hccl.json", "HCCL_WHITELIST_FILE": "/data/white.json"}


def device_address(host: int, device: int) -> IPv4Interface:
    """Return a device address. A rail is a subnet, as in the tests' cluster, but holds more than their 24 hosts."""
    rail, place = device % 4, 2 * host + device // 4
    return IPv4Interface(f"10.{20 + rail}.{place >> 8}.{place & 255}/16")


def scene(hosts: int) -> tuple[Cluster, ClusterFacts]:
    """Return a healthy cluster with this number of hosts, and its facts."""
    with patch.object(healthy, "device_address", device_address), patch.object(healthy, "NETWORK", NETWORK):
        inventory = tuple(
            Host(
                f"node{number:04}", f"10.1.{number >> 8}.{number & 255}", nic="eth0",
                devices=tuple(Device(index, device_address(number, index)) for index in range(DEVICES)),
            )
            for number in range(1, hosts + 1)
        )  # fmt: skip
        cluster = replace(healthy.healthy_cluster(), hosts=inventory, cidrs=(NETWORK,))
        white = _whitelist(inventory)
        files = healthy.healthy_environment(replace(cluster, setup=healthy.SETUP), "eth0")
        facts: dict[str, HostFacts | Unreachable] = {}
        for number, host in enumerate(inventory, 1):
            some = replace(cluster, hosts=inventory[number - 1 : number + 3])  # hosts that try its ports
            found = healthy.host_facts(some, host, number)
            assert isinstance(found.job, Job)
            assert isinstance(found.nic, Nic)
            assert isinstance(found.sysctl, Sysctl)
            assert isinstance(found.naming, Naming)
            mine, first = number == 1, inventory[0]
            endpoints: dict[str, bool | None] = {first.name: mine, first.address: mine}
            facts[host.name] = replace(
                found, names=Names((host.address,), {first.name: (first.address,)}, hosts, hosts),
                job=_job(found.job, _rank_table(host), white),
                environment=replace(files, hosts=f"# {host.name}\n{files.hosts}"), nic=_cabled(found.nic, number),
                clock=Clock(0.0, 0.01), sysctl=replace(found.sysctl, somaxconn=65535, syn_backlog=65535),
                naming=replace(found.naming, endpoints=endpoints),
            )  # fmt: skip
    return cluster, ClusterFacts(facts)


def _rank_table(host: Host) -> str:
    """Return the part of a large rank table that a host sends."""
    devices = [
        {"device_id": str(one.index), "device_ip": str(one.address and one.address.ip), "rank_id": str(one.index)}
        for one in host.devices
    ]
    servers = [{"server_id": host.address, "device": devices}]
    return json.dumps({"version": "1.0", "status": "completed", "server_list": servers})


def _whitelist(hosts: Sequence[Host]) -> str:
    return json.dumps({"host_ip": [host.address for host in hosts], "device_ip": []}, indent=4)


def _job(job: Job, table: str, white: str) -> Job:
    there = [SeenFile("/data/hccl.json", "file", table, digest="of all"), SeenFile("/data/white.json", "file", white)]
    variables = {**job.variables, **_FILES, "HCCL_WHITELIST_DISABLE": "0"}
    return replace(job, variables=variables, files={**job.files, **{file.path: file for file in there}})


def _cabled(nic: Nic, number: int) -> Nic:
    pod = number // BEHIND_A_LEAF
    return Nic(
        tuple(
            replace(one, neighbour=Found(Neighbour(f"leaf{pod}-{one.index % 4}", f"100GE1/0/{number % BEHIND_A_LEAF}")))
            for one in nic.devices
        )
    )


def timed(checks: Mapping[str, Check], cluster: Cluster, facts: ClusterFacts) -> tuple[dict[str, float], list[Finding]]:
    """Return CPU seconds for each check, and all findings."""
    seconds, findings = {}, []
    for id_, check in checks.items():
        start = time.process_time()
        findings += run_checks(cluster, facts, checks=[check], hosts=cluster.hosts)
        seconds[id_] = time.process_time() - start
    return seconds, findings


def main(sizes: Sequence[int] = (1000, 2000, 4000)) -> None:
    checks, before = all_checks(), 0.0
    for hosts in sizes:
        cluster, facts = scene(hosts)
        seconds, findings = timed(checks, cluster, facts)
        total = sum(seconds.values())
        ratio = f", {total / before:.1f} times the time of half the hosts" if before else ""
        print(f"{hosts} hosts x {DEVICES} devices, {len(checks)} checks: {total:.1f} s of CPU{ratio}")
        worst = sorted(seconds, key=lambda id_: -seconds[id_])[:8]
        print("  most:", ", ".join(f"{id_} {seconds[id_]:.2f} s" for id_ in worst))
        quiet = (Outcome.PASS, Outcome.SKIP)
        print("  not passed:", dict(Counter(one.check for one in findings if one.outcome not in quiet)) or "none")
        before = total
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  at most {memory:.0f} MB resident; {machine()}")


if __name__ == "__main__":
    main()
