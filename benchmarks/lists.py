"""Time to read the host list of 4,096 hosts in every format, and to make an inventory of it."""

import statistics
import time
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path

from benchmarks.measure import machine
from preflight.hostlists.formats import FORMATS, read
from preflight.hostlists.host_list import HostList, ListedHost, ListSource
from preflight.hostlists.inventory_import import ImportOptions, document_of
from preflight.inventory import dump, parse
from preflight.ranktable.read import read as read_rank_table

HOSTS = 4096
DEVICES = 8


def main(runs: int = 7) -> None:
    listed = HostList(tuple(map(_host, range(HOSTS))), product="atlas-a2")
    print(f"host lists of {HOSTS:,} hosts, medians of {runs}: KiB of text, milliseconds of CPU to read it, to write it")
    for name, form in FORMATS.items():
        text = form.write(listed)
        source = ListSource(name, text)
        reading, writing = _median(lambda: _anew(source), runs), _median(lambda: form.write(listed), runs)  # noqa: B023
        print(f"  {name:<20}{len(text) / 1024:8.0f}{reading * 1e3:8.0f}{writing * 1e3:8.0f}")
    tables, _ = document_of(listed, ImportOptions(prefix=16))
    text = dump(tables)
    making = _median(lambda: dump(document_of(listed, ImportOptions(prefix=16))[0]), runs)
    loading = _median(lambda: parse(text, Path("hosts.toml")), runs)
    print(f"  {'hosts.toml':<20}{len(text) / 1024:8.0f}{loading * 1e3:8.0f}{making * 1e3:8.0f}")
    print(f"  {machine()}")


def _host(n: int) -> ListedHost:
    """Return a host. Names and addresses do not count up together, so that ranges are short."""
    devices = tuple(IPv4Address("11.0.0.1") + n * DEVICES + device for device in range(DEVICES))
    address = str(IPv4Address("10.0.0.1") + n * 7 % HOSTS)
    return ListedHost(f"node{n:04d}", address, DEVICES, "ops", device_ips=devices)


def _anew(source: ListSource) -> None:
    read_rank_table.cache_clear()  # it has the text of the previous run
    read(source)


def _median(work: Callable[[], object], runs: int) -> float:
    """Return the median CPU seconds. Nothing here waits, and other work on the machine does not count."""
    taken = []
    for _ in range(runs):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
