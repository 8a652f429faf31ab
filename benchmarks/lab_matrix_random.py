"""Rows of the lab matrix with random faults, whose kinds, places and numbers are drawn from a seed, or with none."""

import random
from collections.abc import Iterator

from benchmarks.lab_matrix_rows import CHECK, DEVICES, HOSTS, Break, Named, Row, device, host, no_culprit

MOST_FAULTS = 4
OF_DEVICES = (
    "link-down",
    "slow-link",
    "slow-link-out",
    "random-loss",
    "random-loss-out",
    "small-mtu-path",
    "device-dead",
    "wrong-data",
    "wrong-mask",
    "stuck-open",
    "stuck-connect",
    "stuck-collective",
    "stuck-close",
)
OF_HOSTS = ("host-dead", "firewall-block", "wrong-interface")
LOSSES = (10, 25, 60)  # %


def random_rows(count: int, seed: int) -> Iterator[Row]:
    """Yield rows of one to MOST_FAULTS faults, each on a host of its own. The same seed draws the same rows."""
    drawn = random.Random(seed)
    for number in range(1, count + 1):
        hosts = drawn.sample(range(1, HOSTS + 1), drawn.randint(1, MOST_FAULTS))
        breaks = tuple(_draw(drawn, f"node{index:02}") for index in hosts)
        words = ", ".join(f"{one.fault} {_place(one).members[0]}" for one in breaks)
        yield Row(f"random {number}: {words}", breaks, (frozenset(map(_place, breaks)),), command=CHECK)


def healthy_rows(count: int) -> Iterator[Row]:
    """Yield rows without a fault."""
    for number in range(1, count + 1):
        yield Row(f"healthy {number}", (), no_culprit(), command=CHECK)


def _draw(drawn: random.Random, name: str) -> Break:
    fault = drawn.choice(OF_DEVICES + OF_HOSTS)
    if fault in OF_HOSTS:
        return Break(fault, name)
    percent = drawn.choice(LOSSES) if fault.startswith("random-loss") else None
    return Break(fault, name, drawn.randrange(DEVICES), percent)


def _place(one: Break) -> Named:
    return host(one.host) if one.device is None else device(f"{one.host}/{one.device}")
