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
    percent: int | None = None


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


def links(*pairs: tuple[str, str]) -> tuple[frozenset[Named], ...]:
    return exactly(*(Named("link", pair) for pair in pairs))


def loss(fault: str, percent: int, place: tuple[str, int]) -> Row:
    """Return a row of a device that loses packets."""
    way = "to" if fault == "random-loss" else "from"
    name = f"{percent} % of the packets {way} a device lost"
    return Row(name, (Break(fault, *place, percent),), exactly(device(f"{place[0]}/{place[1]}")))


NAMES = tuple(f"node{number:02}" for number in range(1, HOSTS + 1))
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
    *(
        loss(fault, percent, place)
        for percent, place in ((5, ("node05", 1)), (10, ("node06", 0)), (25, ("node02", 1)), (60, ("node04", 0)))
        for fault in ("random-loss", "random-loss-out")
    ),
    Row("one direction of a link dropped", (Break("one-way-drop", "node03", 0),), links(("node03/0", "node04/0"))),
    Row("slow link, receiving", (Break("slow-link", "node07", 0),), exactly(device("node07/0")), "receives"),
    Row("slow link, sending", (Break("slow-link-out", "node07", 0),), exactly(device("node07/0")), "sends"),
    Row("MTU black hole", (Break("small-mtu-path", "node02", 0),), exactly(device("node02/0")), "large packets"),
    Row("MTU black hole, with facts and pings", (Break("small-mtu-path", "node02", 0),), exactly(device("node02/0")),
        "large pings", command=CHECK),
    Row(
        "25 % loss, with facts and pings", (Break("random-loss", "node02", 1, 25),), exactly(device("node02/1")),
        "packets", command=CHECK,
    ),
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
    Row(
        "two faults: a link that went down and a slow link",
        (Break("link-flap", "node02", 1), Break("slow-link", "node07", 0)),
        exactly(device("node02/1"), device("node07/0")), "receives", command=CHECK,
    ),
    Row(
        "two faults: a black hole and 30 % loss",
        (Break("small-mtu-path", "node02", 0), Break("random-loss-out", "node05", 0, 30)),
        exactly(device("node02/0"), device("node05/0")), command=CHECK,
    ),
    Row(
        "three faults",
        (Break("link-down", "node02", 1), Break("slow-link", "node07", 0), Break("device-dead", "node05", 0)),
        exactly(device("node02/1"), device("node07/0"), device("node05/0")), command=CHECK,
    ),
    Row(
        "four faults",
        (
            Break("host-dead", "node03"), Break("link-down", "node02", 1), Break("stuck-collective", "node08", 1),
            Break("random-loss", "node06", 0, 25),
        ),
        exactly(host("node03"), device("node02/1"), device("node08/1"), device("node06/0")), command=CHECK,
    ),
    Row(
        "every port of a rail down", tuple(Break("link-down", name, 1) for name in NAMES),
        (
            frozenset(device(f"{name}/1") for name in NAMES),
            frozenset([Named("rail", tuple(f"{name}/1" for name in NAMES))]),
        ),
        "DOWN", "each port is down", command=CHECK,
    ),
    Row(
        "half of the hosts without firewall rules", tuple(Break("firewall-block", name) for name in NAMES[::2]),
        exactly(*map(host, NAMES[::2])), "firewall", command=CHECK,
    ),
)  # fmt: skip
SHORT = ("nothing wrong", "link down", "slow link, receiving", "wrong data in one rank", "dead host")
