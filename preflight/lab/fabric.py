"""A model of a fabric with faults: how a test over some of its hosts would end. For the simulator; nothing is run.

Hosts are behind leaves, which uplinks join. A rail is one device index. Faults are drawn from a seed and a list:

    `dead:3,slow:1,wrong-data:1,one-way:1,flaky:2@0.5`  Hosts (flaky: share of its tests that fail, 0.5 by default).
    `device:2,rail:1`                                   A device of a host, a rail of all hosts.
    `link:2,slow-link:1,hidden-link:1`                  Between two hosts, on one rail (hidden: not tested in round 1).
    `uplink:1,slow-uplink:1,partition:0.25`             Parts that are cut off or slow to reach, a share of the hosts.
    `scale:128,combination:3`                           Tests of more than so many hosts, so many hosts only together.
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
class ModelFault:
    kind: str
    amount: float  # their number; for a partition a share, for scale a size
    chance: float = 0.5  # of flaky: share of tests that fail


def parse_faults(text: str) -> tuple[ModelFault, ...]:
    """Parse the list of faults. Raise UsageError with the wrong item and the allowed values."""
    return tuple(_parse_fault(item) for item in filter(None, map(str.strip, text.split(","))))


def _parse_fault(item: str) -> ModelFault:
    kind, _, value = item.partition(":")
    amount, at, chance = value.partition("@")
    if kind not in (*_COUNTS, "partition"):
        raise UsageError(f"--faults: there is no fault {item!r}. Choose from {', '.join((*_COUNTS, 'partition'))}")
    try:
        fault = ModelFault(kind, float(amount or 1), float(chance) if at else 0.5)
    except ValueError:
        raise UsageError(f"--faults: {item!r}: write it like {kind}:2") from None
    if kind == "partition" and not 0 < fault.amount < 1:
        raise UsageError(f"--faults: {item!r}: {kind} takes a share between 0 and 1")
    if kind != "partition" and (fault.amount < 1 or fault.amount % 1):
        raise UsageError(f"--faults: {item!r}: {kind} takes a whole number")
    if (at and kind != "flaky") or not 0 < fault.chance <= 1:
        raise UsageError(f"--faults: {item!r}: only flaky takes @, and a share between 0 and 1 after it")
    return fault


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
        return self._of_members(group, rail) or self._of_connections(group, rail) or self._by_chance(group)

    def _of_members(self, group: frozenset[Host], rail: int) -> GroupOutcome | None:
        if rail in self.dead_rails or (self.devices and not self.devices.isdisjoint((host, rail) for host in group)):
            return GroupOutcome.HANG
        return next((self.bad[host] for host in group if host in self.bad), None)

    def _of_connections(self, group: frozenset[Host], rail: int) -> GroupOutcome | None:
        for (pair, link_rail), end in self.links.items():
            if link_rail == rail and pair <= group:
                return end
        for side, end in self.sides:
            if 0 < len(side & group) < len(group):
                return end
        too_large = self.scale and len(group) > self.scale
        return GroupOutcome.HANG if too_large or (self.combination and self.combination <= group) else None

    def _by_chance(self, group: frozenset[Host]) -> GroupOutcome:
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


def draw(faults: Iterable[ModelFault], model: Model, met: Sequence[Pair], choose: Random) -> None:
    """Put faults into a model that has none. `met` are the pairs of the first round.

    Raise UsageError if there are fewer hosts, rails or leaves than faults.
    """
    drawing = _Drawing(model, met, choose)
    for fault in sorted(faults, key=lambda fault: "link" not in fault.kind or "uplink" in fault.kind):
        drawing.add(fault)


class _Drawing:
    """Faults on places that are drawn. `free`: hosts without a fault yet."""

    def __init__(self, model: Model, met: Sequence[Pair], choose: Random) -> None:
        self.model, self.met, self.choose = model, met, choose
        self.free = list(model.hosts)
        choose.shuffle(self.free)

    def add(self, fault: ModelFault) -> None:
        model, kind, count = self.model, fault.kind, int(fault.amount)
        match kind:
            case "flaky":
                model.flaky.update(dict.fromkeys(self._take(count), fault.chance))
            case "device":
                model.devices.update((host, self.choose.randrange(model.rails)) for host in self._take(count))
            case "rail":
                self._rails(count)
            case "link" | "hidden-link" | "slow-link":
                self._links(kind, count)
            case "uplink" | "slow-uplink":
                self._uplinks(kind, count)
            case "partition":
                share = max(1, round(fault.amount * len(model.hosts)))
                model.sides.append((frozenset(self.choose.sample(model.hosts, share)), GroupOutcome.HANG))
            case "scale":
                model.scale = count
            case "combination":
                model.combination = frozenset(self._take(count))
            case _:
                model.bad.update(dict.fromkeys(self._take(count), _HOST_FAULTS[kind]))

    def _take(self, count: int) -> list[Host]:
        if count > len(self.free):
            raise UsageError(f"--faults: more faults than {len(self.model.hosts)} hosts can have")
        return [self.free.pop() for _ in range(count)]

    def _rails(self, count: int) -> None:
        if count > self.model.rails:
            raise UsageError(f"--faults: rail:{count} of {self.model.rails} rails")
        self.model.dead_rails.update(self.choose.sample(range(self.model.rails), count))

    def _uplinks(self, kind: str, count: int) -> None:
        leaves = sorted(set(self.model.leaf.values()))
        if count >= len(leaves):
            raise UsageError(f"--faults: {kind}:{count} needs more than {count} leaves (--leaves)")
        for leaf in self.choose.sample(leaves, count):
            side = frozenset(host for host in self.model.hosts if self.model.leaf[host] == leaf)
            self.model.sides.append((side, GroupOutcome.SLOW if kind == "slow-uplink" else GroupOutcome.HANG))

    def _links(self, kind: str, count: int) -> None:
        """Draw links that share no host with another fault, so that each can be identified."""
        outcome = GroupOutcome.SLOW if kind == "slow-link" else GroupOutcome.FAIL
        met = self.met if kind != "hidden-link" else ()
        for _ in range(count):
            pairs = [pair for pair in met if pair <= set(self.free)]
            if not met and len(self.free) >= 2:
                pairs = [frozenset(self.free[-2:])]
            if not pairs:
                raise UsageError(f"--faults: more links than {len(self.model.hosts)} hosts can have")
            pair = self.choose.choice(pairs)
            self.model.links[pair, self.choose.randrange(self.model.rails)] = outcome
            for host in pair:
                self.free.remove(host)
