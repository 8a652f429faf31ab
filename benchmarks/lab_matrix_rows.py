"""What the lab matrix breaks, and whom the probe has to name for it. Eight hosts of two devices, two on a leaf: with
two leaves only, all pairs of a first round cross the uplinks, and nothing is slow beside the others."""

from dataclasses import dataclass

HOSTS, DEVICES, LEAVES = 8, 2, 4
PROBE = ("probe", "--idle", "--quick")


@dataclass(frozen=True)
class Break:
    """A fault of `preflight lab faults`, and where it is made."""

    fault: str
    host: str
    device: int | None = None


@dataclass(frozen=True)
class Named:
    """As `culprits` of the report have it."""

    kind: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """`expected`: whom the report has to name, all and nobody else; more than one answer where the tests cannot tell,
    and `untold` says why. `word`: of the cause, in what the report says of it. `left_out`: hosts that the probe may not
    touch, beside culprits. `command`: what is run; a word of preflight first. `backend`: that of the inventory.
    `limit`: seconds."""

    name: str
    breaks: tuple[Break, ...]
    expected: tuple[frozenset[Named], ...]
    word: str = ""
    untold: str = ""
    left_out: tuple[str, ...] = ()
    command: tuple[str, ...] = PROBE
    backend: str = "hccl"
    limit: float = 60.0


def nobody() -> tuple[frozenset[Named], ...]:
    return (frozenset(),)


def these(*culprits: Named) -> tuple[frozenset[Named], ...]:
    return (frozenset(culprits),)


def either(*culprits: Named) -> tuple[frozenset[Named], ...]:
    return tuple(frozenset([one]) for one in culprits)


def host(name: str) -> Named:
    return Named("host", (name,))


def device(place: str) -> Named:
    return Named("device", (place,))


WITH_HOSTS = (*PROBE, "--scope", "host,all,pair")
CHECK = ("check", "--idle")
FIRST_LEAF = these(Named("partition", ("node01", "node02")))
SIBLINGS = "of two devices that do not reach each other within a host, it may be either, or what is between them"
TWO_OWNERS = "two devices have one address: either may be the one to change"

ROWS = (
    Row("nothing wrong", (), nobody()),
    Row("nothing wrong, over gloo", (), nobody(), backend="gloo"),
    Row("nothing wrong, facts and pings, too", (), nobody(), command=CHECK),
    Row("dead host", (Break("host-dead", "node03"),), these(host("node03")), "not reached"),
    Row("dead host, over gloo", (Break("host-dead", "node03"),), these(host("node03")), "not reached",
        backend="gloo"),
    Row("dead device", (Break("device-dead", "node05", 1),), these(device("node05/1")), "507033"),
    Row("link down", (Break("link-down", "node02", 1),), these(device("node02/1")), "link down"),
    Row(
        "HCCS down", (Break("hccs-down", "node04", 1),),
        either(Named("link", ("node04/0", "node04/1")), host("node04"), device("node04/1")), "", SIBLINGS,
        command=WITH_HOSTS,
    ),
    Row("10 % loss", (Break("random-loss", "node06", 0),), these(device("node06/0")), "lost"),
    Row("slow link, towards it", (Break("slow-link", "node07", 0),), these(device("node07/0")), "receives"),
    Row("slow link, away from it", (Break("slow-link-out", "node07", 0),), these(device("node07/0")), "sends"),
    Row("MTU black hole", (Break("small-mtu-path", "node02", 0),), these(device("node02/0")), "large packets"),
    Row("firewall drop", (Break("firewall-block", "node05"),), these(host("node05")), "firewall"),
    Row(
        "firewall drop, over gloo", (Break("firewall-block", "node05"),), these(host("node05")), "firewall",
        backend="gloo",
    ),
    Row("wrong data in one rank", (Break("wrong-data", "node06", 1),), these(device("node06/1")), "wrong"),
    Row("stuck before its backend", (Break("stuck-import", "node03", 0),), these(device("node03/0")), "backend"),
    Row("stuck before its device", (Break("stuck-open", "node03", 0),), these(device("node03/0")), "device"),
    Row("stuck before its communicator", (Break("stuck-connect", "node08", 1),), these(device("node08/1")), "peers"),
    Row("stuck in a collective", (Break("stuck-collective", "node08", 1),), these(device("node08/1")), "stuck in"),
    Row("stuck at its end", (Break("stuck-close", "node08", 1),), these(device("node08/1")), "closed"),
    Row(
        "stuck in its setup", (Break("setup-hangs", "node04"),), these(host("node04")), "setup",
        "a host has a minute to start", limit=120.0,
    ),
    Row("device busy", (Break("device-busy", "node04", 0),), nobody(), "in use", left_out=("node04",)),
    Row("device held by HCCP", (Break("leftover-qp", "node04", 0),), these(device("node04/0")), "EJ0001"),
    Row(
        "overloaded host", (Break("host-overloaded", "node06"),), these(host("node06")), "other processes",
        command=CHECK,
    ),
    Row("wrong interface", (Break("wrong-interface", "node03"),), these(host("node03")), "docker0", command=CHECK),
    Row("wrong mask", (Break("wrong-mask", "node05", 1),), these(device("node05/1")), "mask", command=CHECK),
    Row(
        "duplicate address", (Break("duplicate-address", "node02", 0),),
        (*either(device("node02/0"), device("node03/0")), *these(device("node02/0"), device("node03/0"))),
        "address", TWO_OWNERS,
    ),
    Row("partition of the fabric", (Break("partition", "node01"),), FIRST_LEAF),
    Row("slow uplink", (Break("slow-uplink", "node01"),), FIRST_LEAF, "slow"),
    Row(
        "two at once: a host and a device", (Break("host-dead", "node03"), Break("link-down", "node07", 1)),
        these(host("node03"), device("node07/1")), "link down",
    ),
    Row(
        "two at once: two devices", (Break("slow-link", "node02", 0), Break("wrong-data", "node06", 1)),
        these(device("node02/0"), device("node06/1")), "wrong",
    ),
)  # fmt: skip
SHORT = ("nothing wrong", "link down", "slow link, towards it", "wrong data in one rank", "dead host")
