"""A model of a fabric with faults: how a test over some of its hosts would end. For the simulator; nothing is run.

Hosts are behind leaves, which uplinks join. A rail is one device index. Faults are drawn from a seed and a list:

    dead:3,slow:1,wrong-data:1,one-way:1,flaky:2@0.5   hosts (flaky: share of its tests that fail; 0.5)
    device:2,rail:1                                    a device of a host, a rail of all hosts
    link:2,slow-link:1,hidden-link:1                   between two hosts, on one rail; hidden: not tested in round 1
    uplink:1,slow-uplink:1,partition:0.25              parts that are cut off, or slow to reach; a share of the hosts
    scale:128,combination:3                            tests of more than so many hosts; so many hosts only together
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from preflight.attribution.localiser.localise import GroupOutcome
from preflight.model.errors import UsageError

FULL_SPEED = 25.0  # GB/s, 200 Gb/s
_HOST_FAULTS = {
    "dead": GroupOutcome.HANG,
    "slow": GroupOutcome.SLOW,
    "one-way": GroupOutcome.SLOW,
    "wrong-data": GroupOutcome.WRONG_DATA,
}
_COUNTS = (
    *_HOST_FAULTS,
    "flaky",
    "device",
    "rail",
    "link",
    "slow-link",
    "hidden-link",
    "uplink",
    "slow-uplink",
    "scale",
    "combination",
)

Host = str
Pair = frozenset[Host]


@dataclass(frozen=True)
class Fault:
    kind: str
    amount: float  # their number; for a partition a share, for scale a size
    chance: float = 0.5  # of flaky: share of tests that fail


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Parse the list of faults. Raise UsageError with the wrong item and the allowed values."""
    faults = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        kind, _, value = item.partition(":")
        amount, at, chance = value.partition("@")
        if kind not in (*_COUNTS, "partition"):
            raise UsageError(f"--faults: {item!r}: no such fault; there are {', '.join((*_COUNTS, 'partition'))}")
        try:
            fault = Fault(kind, float(amount or 1), float(chance) if at else 0.5)
        except ValueError:
            raise UsageError(f"--faults: {item!r}: write it like {kind}:2") from None
        whole = kind != "partition"
        if (whole and (fault.amount < 1 or fault.amount % 1)) or (not whole and not 0 < fault.amount < 1):
            raise UsageError(
                f"--faults: {item!r}: {kind} takes {'a whole number' if whole else 'a share between 0 and 1'}"
            )
        if (at and kind != "flaky") or not 0 < fault.chance <= 1:
            raise UsageError(f"--faults: {item!r}: only flaky takes @, and a share between 0 and 1 after it")
        faults.append(fault)
    return tuple(faults)


@dataclass
class Model:
    """The drawn faults. Devices and links have a rail if they do not concern all rails."""

    hosts: tuple[Host, ...]
    rails: int
    leaf: Mapping[Host, int]
    noise: float
    random: Random
    bad: dict[Host, GroupOutcome] = field(default_factory=dict)
    flaky: dict[Host, float] = field(default_factory=dict)
    devices: set[tuple[Host, int]] = field(default_factory=set)
    dead_rails: set[int] = field(default_factory=set)
    links: dict[tuple[Pair, int], GroupOutcome] = field(default_factory=dict)
    sides: list[tuple[frozenset[Host], GroupOutcome]] = field(default_factory=list)  # each cut off from all other hosts
    scale: int = 0  # tests of more hosts fail; 0: no such fault
    combination: frozenset[Host] = frozenset()

    def outcome(self, members: Collection[Host], rail: int) -> GroupOutcome:
        """Return how a test ends: the worst outcome of its members and of the links between them, or noise."""
        group = frozenset(members)
        if rail in self.dead_rails or any((host, rail) in self.devices for host in group if self.devices):
            return GroupOutcome.HANG
        for host in group:
            if host in self.bad:
                return self.bad[host]
        for (pair, on), end in self.links.items():
            if on == rail and pair <= group:
                return end
        for side, end in self.sides:
            if 0 < len(side & group) < len(group):
                return end
        if (self.scale and len(group) > self.scale) or (self.combination and self.combination <= group):
            return GroupOutcome.HANG
        if any(self.random.random() < self.flaky[host] for host in group & self.flaky.keys()):
            return GroupOutcome.FAIL
        return GroupOutcome.FAIL if self.noise and self.random.random() < self.noise else GroupOutcome.PASS

    def value(self, outcome: GroupOutcome) -> float:
        """Return a bandwidth in GB/s, which varies a little each time."""
        return FULL_SPEED * self.random.uniform(0.9, 1.0) * (0.3 if outcome is GroupOutcome.SLOW else 1.0)

    def groups(self) -> set[frozenset[Host]]:
        """Return the parts within which all healthy hosts reach each other."""
        if not self.sides:
            return set()
        healthy = frozenset(self.hosts).difference(self.bad)
        parts = {side & healthy for side, _ in self.sides}
        parts.add(healthy.difference(*parts))
        return {part for part in parts if part}


def draw(faults: Iterable[Fault], model: Model, met: Sequence[Pair], choose: Random) -> None:
    """Put faults into a model that has none. `met` are the pairs of the first round.

    Raise UsageError if there are fewer hosts, rails or leaves than faults.
    """
    free = list(model.hosts)
    choose.shuffle(free)

    def take(count: int) -> list[Host]:
        if count > len(free):
            raise UsageError(f"--faults: more of them than {len(model.hosts)} hosts can have")
        return [free.pop() for _ in range(count)]

    for fault in sorted(faults, key=lambda fault: "link" not in fault.kind or "uplink" in fault.kind):
        count, kind = int(fault.amount), fault.kind
        if kind in _HOST_FAULTS:
            model.bad.update(dict.fromkeys(take(count), _HOST_FAULTS[kind]))
        elif kind == "flaky":
            model.flaky.update(dict.fromkeys(take(count), fault.chance))
        elif kind == "device":
            model.devices.update((host, choose.randrange(model.rails)) for host in take(count))
        elif kind == "rail":
            if count > model.rails:
                raise UsageError(f"--faults: rail:{count} of {model.rails} rails")
            model.dead_rails.update(choose.sample(range(model.rails), count))
        elif kind in ("link", "slow-link", "hidden-link"):
            end = GroupOutcome.SLOW if kind == "slow-link" else GroupOutcome.FAIL
            _draw_links(model, count, end, met if kind != "hidden-link" else (), free, choose)
        elif kind in ("uplink", "slow-uplink"):
            leaves = sorted(set(model.leaf.values()))
            if count >= len(leaves):
                raise UsageError(f"--faults: {kind}:{count} needs more than {count} leaves (--leaves)")
            for chosen in choose.sample(leaves, count):
                side = frozenset(host for host in model.hosts if model.leaf[host] == chosen)
                model.sides.append((side, GroupOutcome.SLOW if kind == "slow-uplink" else GroupOutcome.HANG))
        elif kind == "partition":
            share = max(1, round(fault.amount * len(model.hosts)))
            model.sides.append((frozenset(choose.sample(model.hosts, share)), GroupOutcome.HANG))
        elif kind == "scale":
            model.scale = count
        else:
            model.combination = frozenset(take(count))


def _draw_links(
    model: Model, count: int, how: GroupOutcome, met: Sequence[Pair], free: list[Host], choose: Random
) -> None:
    """Draw links that share no host with another fault, so that each can be identified."""
    for _ in range(count):
        fitting = [pair for pair in met if pair <= set(free)]
        if not met and len(free) >= 2:
            fitting = [frozenset(free[-2:])]
        if not fitting:
            raise UsageError(f"--faults: more links than {len(model.hosts)} hosts can have")
        pair = choose.choice(fitting)
        model.links[pair, choose.randrange(model.rails)] = how
        for host in pair:
            free.remove(host)
