"""Checks of slow links, by comparison of the pairs along the rails with their median bandwidth."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.attribution.culprit_words import Named, named, sentence
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import tell
from preflight.model.finding import Finding
from preflight.model.measure import Located, Observation, Scope, TestOutcome
from preflight.model.peers import FEWEST, Usual, usual

SLOW_FAIL, FAR = 0.80, 5.0  # Share of the median, and spreads from it, below which a slow pair is a failure.
HALF = 0.5  # Share of the slowest healthy pair that is a failure, too, even on noisy machines.
_MANY = 3  # Slow pairs without a known culprit. More of them are one finding.
UNLIKE = 0.1  # Share of the median. With a larger spread the pairs are not comparable.


_Pair = tuple[str, str]  # two devices of different hosts, "node01/3", sorted


def _along(pair: _Pair) -> bool:
    return pair[0].partition("/")[2] == pair[1].partition("/")[2]


def _is_rail_pair(seen: Observation) -> bool:
    members = seen.test.members
    along = len({m.host for m in members}) == 2 and members[0].device == members[1].device
    return seen.test.scope is Scope.PAIR and along


def _both_ways(seen: Observation) -> bool:
    """Return whether the test measured a pair in both directions. An operation with a root goes one way."""
    return seen.test.scope is Scope.PAIR and seen.test.busbw_GBps is not None and seen.test.root is None


def _called_slow(observations: Sequence[Observation]) -> set[_Pair]:
    """Return the pairs that the probe called slow in all their measurements. The probe knows the noise of the
    machines."""
    always_slow: dict[_Pair, bool] = {}
    for observation in observations:
        if _both_ways(observation):
            first, second = sorted(member.place for member in observation.test.members)
            always_slow[first, second] = (
                always_slow.get((first, second), True) and observation.test.outcome is TestOutcome.SLOW
            )
    return {pair for pair, slow in always_slow.items() if slow}


def _pair_bandwidths(observations: Sequence[Observation]) -> tuple[dict[_Pair, float], Usual | None]:
    """Return the bandwidth of each pair over hosts, GB/s, at the largest size measured.

    The second value is the usual bandwidth of same-rail pairs, None if there are too few."""
    pairs: dict[tuple[int, str, str], dict[_Pair, float]] = defaultdict(dict)
    rails: dict[tuple[int, str, str], dict[_Pair, float]] = defaultdict(dict)
    for observation in observations:
        test = observation.test
        if not _both_ways(observation) or test.busbw_GBps is None or len({m.host for m in test.members}) < 2:
            continue
        kind = (test.bytes, test.op, test.dtype)
        first, second = sorted(member.place for member in test.members)
        # The better of two measurements counts, since noise only makes a pair slower.
        best = max(test.busbw_GBps, pairs[kind].get((first, second), 0.0))
        pairs[kind][first, second] = best
        if _is_rail_pair(observation):
            rails[kind][first, second] = best
    kinds = [kind for kind, bandwidths in rails.items() if len(bandwidths) >= FEWEST]
    return (pairs[max(kinds)], usual(list(rails[max(kinds)].values()))) if kinds else ({}, None)


def _slow_rounds(observations: Sequence[Observation], place: str) -> int:
    """Return the number of rounds in which a device's pairs were slow. More than one is not a momentary disturbance."""
    pairs = (observation.test for observation in observations if observation.test.scope is Scope.PAIR)
    slow = (test for test in pairs if test.outcome is TestOutcome.SLOW)
    return len({test.id.partition("-")[0] for test in slow if place in (member.place for member in test.members)})


@dataclass(frozen=True)
class _SpeedInputs:
    """The common inputs of all findings of a run."""

    all_: All
    observations: Sequence[Observation]
    causes: Sequence[Finding] | None
    peers: Usual | None
    slowest_well: float  # GB/s of a pair along a rail; 0 if there is none

    def far(self, speed: float) -> bool:
        """Return whether a pair is slow enough for a failure."""
        return speed < HALF * self.slowest_well or (self.peers is not None and speed < self.peers.limit(SLOW_FAIL, FAR))


@cluster_check("PRB103", "No rail is slow", optional=("located", "causes"))
def no_slow_rail(
    all_: All,
    observations: tuple[Observation, ...],
    located: tuple[Located, ...] | None,
    causes: tuple[Finding, ...] | None,
) -> Iterator[Finding]:
    """Why: a collective is as slow as its slowest link; a port that came up at a lower speed, or loses packets, slows
    every job and fails none. Pairs along the rails are compared with their own median: one that stays below 93 % of
    it, and further from it than healthy ones are, is a warning; below 80 %, or half of the slowest one that is well,
    and slow in a second round it is a failure. Where pairs differ from themselves by more than that from one
    measurement to the next, the machines are busy and only larger differences count. Whoever is slow with partners
    that are fast elsewhere is named, with the direction where that is known, and compared with the pairs that are
    well; else the pair. Where half of the pairs are slow, and nobody is named, no median tells who: a warning lists
    them.

    Check manually: hccn_tool -i 0 -speed -g; hccn_tool -i 0 -stat -g; hccn_tool -i 0 -roce_test ib_send_bw ...

    Fix: cable, optical module, switch port; speed and flow control at both ends
    """
    objects = named(located, TestOutcome.SLOW)
    bandwidth, peers = _pair_bandwidths(observations)
    together = _together(observations)
    if peers is None and not objects and not together:
        rail_pairs = (observation.test.members for observation in observations if _is_rail_pair(observation))
        # Each pair is tested in both orders.
        planned = {frozenset(member.place for member in pair) for pair in rail_pairs}
        if len(planned) < FEWEST:
            yield all_.skip(f"there are fewer than {FEWEST} pairs along the rails: no median to compare with")
        else:
            yield all_.unknown(f"fewer than {FEWEST} of the pairs along the rails brought a bandwidth", host=None)
        return
    slow = bandwidth.keys() & _called_slow(observations)
    healthy = [speed for pair, speed in bandwidth.items() if pair not in slow and _along(pair)]
    slowest_well = min(healthy, default=0.0)
    for fault in objects:
        yield _slow(
            _SpeedInputs(all_, observations, causes, usual(healthy) or peers, slowest_well),
            fault,
            _values(observations, fault.one),
            again=True,
        )
    run = _SpeedInputs(all_, observations, causes, peers, slowest_well)
    pairs_left = {pair: bandwidth[pair] for pair in sorted(slow) if not any(fault.explains(pair) for fault in objects)}
    repeated = {pair: all(_slow_rounds(observations, place) > 1 for place in pair) for pair in pairs_left}
    if len(pairs_left) > _MANY:
        yield _slow(run, _unproven(observations, "group", *pairs_left), pairs_left, again=any(repeated.values()))
    else:
        for pair, speed in pairs_left.items():
            yield _slow(run, _unproven(observations, "link", pair), {pair: speed}, again=repeated[pair])
    if together and not slow and not any(fault.explains({m.place for m in together.test.members}) for fault in objects):
        yield _slow_together(all_, together, observations)
    if not slow and peers and peers.spread > UNLIKE * peers.median:
        yield from _unlike(all_, observations, bandwidth)


def _together(observations: Sequence[Observation]) -> Observation | None:
    """Return the slowest test of the largest group that the probe called slow."""
    slow = (
        observation
        for observation in observations
        if observation.test.scope is Scope.ALL and observation.test.outcome is TestOutcome.SLOW
    )
    return min(
        slow, key=lambda observation: (-len(observation.test.members), observation.test.busbw_GBps or 0.0), default=None
    )


def _slow_together(all_: All, together: Observation, observations: Sequence[Observation]) -> Finding:
    """Return the finding about all ranks together that are much slower than each pair, without a known culprit."""
    pairs = [
        observation.test.busbw_GBps
        for observation in observations
        if _both_ways(observation) and observation.test.outcome is TestOutcome.PASS
    ]
    slowest = min(filter(None, pairs), default=None)
    least = f", the slowest pair that is well has {slowest:.2f}" if slowest else ""
    return all_.warn(
        f"all {len(together.test.members)} ranks together are slow: {together.test.busbw_GBps or 0:.2f} GB/s{least}",
        host=None,
        cause="what only all of them use: uplinks and spines, or what HCCL or NCCL makes of so many ranks",
        evidence=(f"test {together.test.id}",),
        remedy="load and errors of the uplinks; the same with half of the hosts: preflight probe --limit HOSTS",
    )


def _unlike(all_: All, observations: Sequence[Observation], bandwidth: Mapping[_Pair, float]) -> Iterator[Finding]:
    """Yield a finding if about half of the pairs are slow, where the median between the halves identifies none."""
    by_pair: dict[_Pair, list[float]] = defaultdict(list)
    for observation in observations:
        if _is_rail_pair(observation) and _both_ways(observation) and observation.test.busbw_GBps is not None:
            first, second = sorted(member.place for member in observation.test.members)
            by_pair[first, second].append(observation.test.busbw_GBps)
    steady = sorted(min(measured) / max(measured) for measured in by_pair.values())[len(by_pair) // 2]
    ranked = sorted(bandwidth.items(), key=lambda item: item[1])
    (_, lowest), (_, highest) = ranked[0], ranked[-1]
    if lowest < SLOW_FAIL * steady * highest:  # else the machines are busy, and a pair differs as much from itself
        yield all_.warn(
            f"pairs along the rails have from {lowest:.2f} to {highest:.2f} GB/s: no median tells who of them is slow",
            host=None,
            expected="pairs that are alike",
            found=f"{lowest:.2f} to {highest:.2f} GB/s",
            evidence=tuple(f"{first} with {second}: {speed:.2f} GB/s" for (first, second), speed in ranked),
            cause="several of them are slow, or the rails are not of one kind",
            remedy="begin with the slowest: cable, optical module, switch port; hccn_tool -i N -speed -g at both ends",
        )


def _unproven(observations: Sequence[Observation], kind: str, *pairs: _Pair) -> Named:
    """Return the slow pairs as an object of which neither end is proven at fault."""
    wanted = {frozenset(pair) for pair in pairs}
    slow = (observation.test for observation in observations if observation.test.outcome is TestOutcome.SLOW)
    ids = tuple(test.id for test in slow if frozenset(member.place for member in test.members) in wanted)
    members = pairs[0] if kind == "link" else tuple(sorted({place for pair in pairs for place in pair}))
    return Named(Located(kind, members, ids, TestOutcome.SLOW), proven=False)


def _values(observations: Sequence[Observation], one: Located) -> dict[_Pair, float]:
    """Return GB/s of the slow pairs that identify an object, measured both ways, or one way if there are no others."""
    slow = [
        observation
        for observation in observations
        if observation.test.id in one.tests and observation.test.outcome is TestOutcome.SLOW
    ]
    values: dict[_Pair, float] = {}
    for observation in [observation for observation in slow if _both_ways(observation)] or slow:
        if len(observation.test.members) == 2 and observation.test.busbw_GBps is not None:
            first, second = sorted(member.place for member in observation.test.members)
            values[first, second] = max(observation.test.busbw_GBps, values.get((first, second), 0.0))
    return values


def _directions(observations: Sequence[Observation], it: Named) -> str:
    """Return `it sends at 0.40 GB/s, receives at 1.90`, or the direction alone.

    The figures are medians of tests that went one way, from a root."""
    from statistics import median  # its import costs more than listing all checks

    sent, received = list[float](), list[float]()
    for observation in observations:
        test, members = observation.test, observation.test.members
        if test.scope is Scope.PAIR and test.op == "broadcast" and test.root is not None and test.busbw_GBps:
            sender, receiver = members[test.root].place, members[1 - test.root].place
            if it.single and it.part([sender]) and not it.part([receiver]):
                sent.append(test.busbw_GBps)
            elif it.single and it.part([receiver]) and not it.part([sender]):
                received.append(test.busbw_GBps)
            elif it.kind == "link" and {sender, receiver} == set(it.one.members):
                (sent if sender == it.one.members[0] else received).append(test.busbw_GBps)
    if not (sent and received):
        return {"sends": "it sends slowly", "receives": "it receives slowly"}.get(it.one.direction, "")
    return f"it sends at {median(sent):.2f} GB/s, receives at {median(received):.2f}"


def _slow(run: _SpeedInputs, it: Named, values: Mapping[_Pair, float], *, again: bool) -> Finding:
    """Return the finding about a slow object, or about a slow pair of which neither end is proven at fault.

    `again`: it was slow in more than one round."""
    all_, peers, worst = run.all_, run.peers, min(values.values(), default=None)
    host, _, device = it.one.members[0].partition("/") if it.one.members else ("", "", "")
    subject = f"device {device}" if device else "it"
    if it.kind == "link":
        problem = f"{host}: {subject} and {it.one.members[1]} are slow together"
        likely = "the path between them" if it.proven else "either end or the path between them"
    elif it.kind == "group":
        problem, likely = f"{len(values)} pairs are slow, and nobody can be named", ""
    elif it.single:
        problem, likely = f"{host}: {subject} is slow", "slow with two partners that are fast elsewhere"
    else:
        problem, likely = sentence(it), ""
    usual_ = f", the median pair has {peers.median:.2f}" if peers else ""
    figures = f"{worst:.2f} GB/s{usual_}" if worst is not None else ""
    together = _together(run.observations)
    with_all = (
        [
            f"{together.test.id}: all {len(together.test.members)} ranks together: "
            f"{together.test.busbw_GBps or 0:.2f} GB/s"
        ]
        if together and it.explains({member.place for member in together.test.members})
        else []
    )
    far = worst is not None and run.far(worst)
    summary = "; ".join(filter(None, (": ".join(filter(None, (problem, figures))), _directions(run.observations, it))))
    return tell(
        all_,
        it,
        run.observations,
        run.causes,
        summary=summary,
        report=all_.bad if again and far and not it.intermittent else all_.warn,
        trouble={"sends": "sends slowly", "receives": "receives slowly"}.get(it.one.direction, "slow"),
        likely=likely,
        expected=f"about {peers.median:.2f} GB/s" if peers else "",
        found=f"{worst:.2f} GB/s" if worst is not None else "",
        details=(
            *(f"{first} with {second}: {speed:.2f} GB/s" for (first, second), speed in sorted(values.items())),
            *with_all,
        ),
        remedy="cable, optical module and switch port; counters: hccn_tool -i N -stat -g",
    )
