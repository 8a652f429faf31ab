"""Time and memory of `check --from` for the saved facts of a large cluster, without contact to any host.

The report is written in every form, one at a time and all at once. The cluster is that of `benchmarks.checks`, once
healthy and once in the worst case. Then every device has a different wrong address, so that no findings are merged.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path

from benchmarks.checks import DEVICES, NETWORK, scene
from benchmarks.measure import PREFLIGHT, machine
from preflight.facts.documents.facts_document import dump
from preflight.facts.types import ClusterFacts, Hccn, HostFacts, Unreachable
from preflight.inventory.dump import dump as inventory_text
from preflight.model.cluster import Cluster

ELSEWHERE = 1 << 24  # offset of the worst-case addresses from those of the inventory
FILES = ("console", "json", "junit", "prometheus", "html")


@dataclass(frozen=True)
class Spent:
    seconds: float
    cpu: float  # seconds
    megabytes: float  # resident, at most
    code: int


def spent(argv: Sequence[str]) -> Spent:
    begin = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Spent(
        time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode
    )


def worst_day(facts: ClusterFacts) -> ClusterFacts:
    """Return the facts with a wrong address for every device, which no other device has."""
    broken: dict[str, HostFacts | Unreachable] = {}
    for name, host in facts.hosts.items():
        assert isinstance(host, HostFacts)
        assert isinstance(host.hccn, Hccn)
        devices = tuple(
            replace(one, address=replace(one.address, value=str(IPv4Address(one.address.value or "") + ELSEWHERE)))
            for one in host.hccn.devices
        )
        broken[name] = replace(host, hccn=Hccn(devices))
    return ClusterFacts(broken)


def inventory(cluster: Cluster) -> str:
    hosts = [
        {"name": host.name, "address": host.address, "device_addresses": [str(one.address) for one in host.devices]}
        for host in cluster.hosts
    ]
    tables = {
        "cluster": {"name": cluster.name, "product": "atlas-a1", "cidrs": [str(NETWORK)]},
        "network": {"nic": "eth0"},
        "host_setup": {"hosts_file": True, "limits": True, "profile": True},
        "hosts": hosts,
    }
    return inventory_text(tables)


def main(hosts: int = 1000) -> None:
    cluster, healthy = scene(hosts)
    for day, facts in {"healthy": healthy, "every device at fault": worst_day(healthy)}.items():
        with tempfile.TemporaryDirectory(prefix="preflight-bench-") as directory:
            folder = Path(directory)
            (folder / "hosts.toml").write_text(inventory(cluster))
            (folder / "facts.json").write_text(dump(facts))
            megabytes = (folder / "facts.json").stat().st_size / 1e6
            print(f"{hosts} hosts x {DEVICES} devices, {day}: {megabytes:.0f} MB of facts")
            check = [*PREFLIGHT, "check", "--inventory", f"{folder}/hosts.toml", "--from", f"{folder}/facts.json"]
            for forms in (("short",), *((form,) for form in FILES), FILES):
                outputs = [word for form in forms for word in ("-o", f"{form}={folder}/report.{form}")]
                it = spent([*check, *outputs])
                sizes = ", ".join(f"{form} {(folder / f'report.{form}').stat().st_size / 1e6:.2f} MB" for form in forms)
                told = f"{it.seconds:6.1f} s ({it.cpu:.1f} s of CPU), {it.megabytes:.0f} MB resident"
                print(f"  {told}, exit {it.code}: {sizes}", flush=True)
    print(f"  {machine()}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
