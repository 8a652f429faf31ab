"""A conductor that plays rounds against a model of a cluster instead of agents: which devices are dead, slow, or send
wrong data, and which do not reach each other."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import combinations

from preflight.model.cluster import Host
from preflight.model.measure import Observation, RankView, TestOutcome, TestResult
from preflight.probe.hooks import Hooks
from preflight.probe.messages import Ready
from preflight.probe.rounds import Place, ProbePlan, RankGroup, Round
from preflight.probe.run import Deadlines, Run

PASS, HANG, SLOW = TestOutcome.PASS, TestOutcome.HANG, TestOutcome.SLOW
FULL = 10.0  # GB/s


@dataclass
class Fabric:
    """`ill` devices fail alone, `dead` ones with others, `wrong` ones send wrong data; `sends`, `receives`: GB/s of
    devices that are slow one way; `cut`: whether two devices do not reach each other; `too_many`: hosts from which on
    all their devices together hang; `crawls`: from which on they are slow; `dies`: hosts that are there for so many
    rounds only; `stalls`: after how many rounds a device is dead, too; `lossy`: devices that are dead in every second
    round and slow in the others; `restless`: in every second round everybody has
    this share of its speed."""

    ill: Collection[Place] = ()
    dead: Collection[Place] = ()
    wrong: Collection[Place] = ()
    sends: dict[Place, float] = field(default_factory=dict)
    receives: dict[Place, float] = field(default_factory=dict)
    cut: Callable[[Place, Place], bool] = lambda *_: False
    too_many: int = 10**6
    crawls: int = 10**6
    dies: dict[str, int] = field(default_factory=dict)
    stalls: dict[Place, int] = field(default_factory=dict)
    lossy: Collection[Place] = ()
    restless: float = 1.0
    rounds: list[Round] = field(default_factory=list)
    hurried: bool = False

    @property
    def ready(self) -> "_Everybody":
        return _Everybody()

    def present(self, hosts: Collection[Host]) -> list[Host]:
        return [host for host in hosts if len(self.rounds) < self.dies.get(host.name, 10**6)]

    def add_to_plan(self, round_: Round) -> None:
        """Progress is not shown here."""

    def play(self, round_: Round, until: float) -> list[Observation]:  # noqa: ARG002
        used = [member.place for group in round_.groups for member in group.members]
        assert len(used) == len(set(used)), "groups of a round are disjoint"
        self.rounds.append(round_)
        return [
            self._ran(f"{round_.name}-{number}", group, place)
            for number, (group, place) in enumerate(
                (group, place) for group in round_.groups for place in range(len(group.tests))
            )
        ]

    def _ran(self, name: str, group: RankGroup, number: int) -> Observation:
        test, places = group.tests[number], [(member.host, member.device) for member in group.members]
        outcome, speed = self._outcome(places), self._speed(places, test.root if test.op == "broadcast" else None)
        busbw = speed if test.bytes and outcome is PASS else None
        result = TestResult(
            name, test.op, test.dtype, test.bytes, test.root, group.members, outcome, "closed", 0, 0.1, busbw, busbw,
            scope=group.scope, reduction=test.reduction, form=test.form,
        )  # fmt: skip
        stage = "peers" if outcome is HANG else "closed"
        return Observation(result, tuple(RankView(member, stage) for member in group.members))

    def _outcome(self, places: list[Place]) -> TestOutcome:
        hosts = len({host for host, _ in places})
        dead = {*self.dead, *(place for place, after in self.stalls.items() if len(self.rounds) > after)}
        dead |= set(self.lossy) if len(self.rounds) % 2 else set()
        if (len(places) > 1 and set(places) & dead) or any(self.cut(*two) for two in combinations(places, 2)):
            return HANG
        if hosts >= self.too_many:
            return HANG
        spoiled = set(places) & set(self.ill if len(places) == 1 else self.wrong)
        return TestOutcome.WRONG_DATA if spoiled else PASS

    def _speed(self, places: list[Place], root: int | None) -> float:
        if len({host for host, _ in places}) >= self.crawls:
            return FULL / 5
        out = [self.sends.get(place, FULL) for number, place in enumerate(places) if root in (None, number)]
        into = [self.receives.get(place, FULL) for number, place in enumerate(places) if root is None or root != number]
        lost = 0.01 if set(places) & set(self.lossy) else 1.0
        return min(out + into) * lost * (1.0 if len(self.rounds) % 2 else self.restless)


class _Everybody(dict[str, Ready]):
    def __missing__(self, host: str) -> Ready:
        return Ready(nonce="n", torch="2.13.0", nic="eth0", address="10.0.0.1", store=4711, cores=64)


def played(
    plan: ProbePlan,
    fabric: Fabric,
    *,
    seed: int = 1,
    leaves: Callable[[Place], str] | None = None,
    unreached: Collection[str] = (),
) -> Run:
    """A whole run. `leaves`: behind which switch a device is, where that is to be known; `unreached`: hosts of which
    the rehearsal knows that nobody gets through to them."""
    known = {place: leaves(place) for place in plan.places()} if leaves else {}
    run = Run(plan, fabric, Hooks(leaves=lambda: known), Deadlines(float("inf"), 180.0), seed)  # type: ignore[arg-type]
    run.unreached = frozenset(unreached)
    run.play_scopes()
    return run
