"""Rows of the lab matrix: the faults, and the culprits that the probe must report for them.

The lab has eight hosts of two devices, with two hosts on a leaf. With only two leaves, all pairs of the first round
would cross the uplinks, and no pair would be slow compared with the others.
"""

from dataclasses import dataclass

HOSTS, DEVICES, LEAVES = 8, 2, 4
PROBE = ("probe", "--idle", "--quick")


@dataclass(frozen=True)
class Break:
    """A fault of `preflight lab faults`, with the host and device that get it."""

    fault: str
    host: str
    device: int | None = None


@dataclass(frozen=True)
class Named:
    """A culprit, as in `culprits` of the report."""

    kind: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A row of the matrix.

    `expected` holds the acceptable sets of culprits. It has several where the tests cannot tell the culprits apart.
    `untold` then gives the reason.
    `word` must occur in the cause that the report gives.
    `left_out` lists the hosts that the probe may not use, beside the culprits.
    `command` holds the arguments of preflight, `backend` is that of the inventory, `limit` is in seconds.
    """

    name: str
    breaks: tuple[Break, ...]
    expected: tuple[frozenset[Named], ...]
    word: str = ""
    untold: str = ""
    left_out: tuple[str, ...] = ()
    command: tuple[str, ...] = PROBE
    backend: str = "hccl"
    limit: float = 60.0


def no_culprit() -> tuple[frozenset[Named], ...]:
    return (frozenset(),)


def exactly(*culprits: Named) -> tuple[frozenset[Named], ...]:
    return (frozenset(culprits),)


def either(*culprits: Named) -> tuple[frozenset[Named], ...]:
    return tuple(frozenset([culprit]) for culprit in culprits)


def host(name: str) -> Named:
    return Named("host", (name,))


def device(place: str) -> Named:
    return Named("device", (place,))


WITH_HOSTS = (*PROBE, "--scope", "host,all,pair")
CHECK = ("check", "--idle")
FIRST_LEAF = exactly(Named("partition", ("node01", "node02")))
SIBLINGS = "either device of a pair that fails within a host, or the path between them"
TWO_OWNERS = "two devices have one address, and either may be the one to change"

ROWS = (
    Row("nothing wrong", (), no_culprit()),
    Row("nothing wrong, over gloo", (), no_culprit(), backend="gloo"),
    Row("nothing wrong, with facts and pings", (), no_culprit(), command=CHECK),
    Row("dead host", (Break("host-dead", "node03"),), exactly(host("node03")), "not reached"),
    Row("dead host, over gloo", (Break("host-dead", "node03"),), exactly(host("node03")), "not reached",
        backend="gloo"),
    Row("dead device", (Break("device-dead", "node05", 1),), exactly(device("node05/1")), "507033"),
    Row("link down", (Break("link-down", "node02", 1),), exactly(device("node02/1")), "link down"),
    Row(
        "HCCS down", (Break("hccs-down", "node04", 1),),
        either(Named("link", ("node04/0", "node04/1")), host("node04"), device("node04/1")), "", SIBLINGS,
        command=WITH_HOSTS,
    ),
    Row("10 % packet loss", (Break("random-loss", "node06", 0),), exactly(device("node06/0")), "lost"),
    Row("slow link, receiving", (Break("slow-link", "node07", 0),), exactly(device("node07/0")), "receives"),
    Row("slow link, sending", (Break("slow-link-out", "node07", 0),), exactly(device("node07/0")), "sends"),
    Row("MTU black hole", (Break("small-mtu-path", "node02", 0),), exactly(device("node02/0")), "large packets"),
    Row("firewall drop", (Break("firewall-block", "node05"),), exactly(host("node05")), "firewall"),
    Row(
        "firewall drop, over gloo", (Break("firewall-block", "node05"),), exactly(host("node05")), "firewall",
        backend="gloo",
    ),
    Row("wrong data in one rank", (Break("wrong-data", "node06", 1),), exactly(device("node06/1")), "wrong"),
    Row("stuck before the backend", (Break("stuck-import", "node03", 0),), exactly(device("node03/0")), "backend"),
    Row("stuck before the device", (Break("stuck-open", "node03", 0),), exactly(device("node03/0")), "device"),
    Row("stuck before the communicator", (Break("stuck-connect", "node08", 1),), exactly(device("node08/1")), "peers"),
    Row("stuck in a collective", (Break("stuck-collective", "node08", 1),), exactly(device("node08/1")), "stuck in"),
    Row("stuck at the end", (Break("stuck-close", "node08", 1),), exactly(device("node08/1")), "closed"),
    Row(
        "stuck in the setup", (Break("setup-hangs", "node04"),), exactly(host("node04")), "setup",
        "a host has a minute to start", limit=120.0,
    ),
    Row("device busy", (Break("device-busy", "node04", 0),), no_culprit(), "in use", left_out=("node04",)),
    Row("device held by HCCP", (Break("leftover-qp", "node04", 0),), exactly(device("node04/0")), "EJ0001"),
    Row(
        "overloaded host", (Break("host-overloaded", "node06"),), exactly(host("node06")), "other processes",
        command=CHECK,
    ),
    Row("wrong interface", (Break("wrong-interface", "node03"),), exactly(host("node03")), "docker0", command=CHECK),
    Row("wrong mask", (Break("wrong-mask", "node05", 1),), exactly(device("node05/1")), "mask", command=CHECK),
    Row(
        "duplicate address", (Break("duplicate-address", "node02", 0),),
        (*either(device("node02/0"), device("node03/0")), *exactly(device("node02/0"), device("node03/0"))),
        "address", TWO_OWNERS,
    ),
    Row("partition of the fabric", (Break("partition", "node01"),), FIRST_LEAF),
    Row("slow uplink", (Break("slow-uplink", "node01"),), FIRST_LEAF, "slow"),
    Row(
        "two faults: a host and a device", (Break("host-dead", "node03"), Break("link-down", "node07", 1)),
        exactly(host("node03"), device("node07/1")), "link down",
    ),
    Row(
        "two faults: two devices", (Break("slow-link", "node02", 0), Break("wrong-data", "node06", 1)),
        exactly(device("node02/0"), device("node06/1")), "wrong",
    ),
)  # fmt: skip
SHORT = ("nothing wrong", "link down", "slow link, receiving", "wrong data in one rank", "dead host")
