"""Checks of slow links: pairs along the rails, compared with their median bandwidth."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.attribution.culprits import Named, named, sentence
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import tell
from preflight.model.finding import Finding
from preflight.model.measure import Located, Observation, Scope, TestOutcome
from preflight.model.peers import FEWEST, Usual, usual

SLOW_FAIL, FAR = 0.80, 5.0  # of the median, and spreads from it; or
HALF = 0.5  # of the slowest pair that is not slow: however restless the machines are
_MANY = 3  # slow pairs of which nobody is named; more of them are one finding
UNLIKE = 0.1  # of the median: a spread beyond which peers are no peers


_Pair = tuple[str, str]  # two devices of different hosts, "node01/3", sorted


def _along(pair: _Pair) -> bool:
    return pair[0].partition("/")[2] == pair[1].partition("/")[2]


def _is_rail_pair(seen: Observation) -> bool:
    members = seen.test.members
    along = len({m.host for m in members}) == 2 and members[0].device == members[1].device
    return seen.test.scope is Scope.PAIR and along


def _both_ways(seen: Observation) -> bool:
    """Whether it measured a pair as such. What has a root goes one way."""
    return seen.test.scope is Scope.PAIR and seen.test.busbw_GBps is not None and seen.test.root is None


def _called_slow(observations: Sequence[Observation]) -> set[_Pair]:
    """The pairs that the probe found slow in all their measurements; it knows how restless the machines were."""
    calm: dict[_Pair, bool] = {}
    for seen in observations:
        if _both_ways(seen):
            one, other = sorted(member.place for member in seen.test.members)
            calm[one, other] = calm.get((one, other), True) and seen.test.outcome is TestOutcome.SLOW
    return {pair for pair, slow in calm.items() if slow}


def _pair_bandwidths(observations: Sequence[Observation]) -> tuple[dict[_Pair, float], Usual | None]:
    """The bandwidth of each pair over hosts, GB/s, at the largest size measured; and what is usual of the same-rail
    ones, None if there are too few."""
    pairs: dict[tuple[int, str, str], dict[_Pair, float]] = defaultdict(dict)
    rails: dict[tuple[int, str, str], dict[_Pair, float]] = defaultdict(dict)
    for seen in observations:
        test = seen.test
        if not _both_ways(seen) or test.busbw_GBps is None or len({m.host for m in test.members}) < 2:
            continue
        kind = (test.bytes, test.op, test.dtype)
        one, other = sorted(member.place for member in test.members)
        # Measured twice, the better value counts: noise only ever makes a pair slower.
        best = max(test.busbw_GBps, pairs[kind].get((one, other), 0.0))
        pairs[kind][one, other] = best
        if _is_rail_pair(seen):
            rails[kind][one, other] = best
    kinds = [kind for kind, found in rails.items() if len(found) >= FEWEST]
    return (pairs[max(kinds)], usual(list(rails[max(kinds)].values()))) if kinds else ({}, None)


def _slow_rounds(observations: Sequence[Observation], place: str) -> int:
    """In how many rounds a device's pairs were slow: more than one is no accident of a moment."""
    pairs = (seen.test for seen in observations if seen.test.scope is Scope.PAIR)
    slow = (test for test in pairs if test.outcome is TestOutcome.SLOW)
    return len({test.id.partition("-")[0] for test in slow if place in (member.place for member in test.members)})


@dataclass(frozen=True)
class _SpeedInputs:
    """What all findings of a run are told from."""

    all_: All
    observations: Sequence[Observation]
    causes: Sequence[Finding] | None
    peers: Usual | None
    slowest_well: float  # GB/s of a pair along a rail; 0 if there is none

    def far(self, speed: float) -> bool:
        """Whether a pair is so slow that it is a failure."""
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

    By hand: hccn_tool -i 0 -speed -g; hccn_tool -i 0 -stat -g; hccn_tool -i 0 -roce_test ib_send_bw ...

    Mend: cable, optical module, switch port; speed and flow control at both ends
    """
    objects = named(located, TestOutcome.SLOW)
    bandwidth, peers = _pair_bandwidths(observations)
    together = _together(observations)
    if peers is None and not objects and not together:
        rail_pairs = (seen.test.members for seen in observations if _is_rail_pair(seen))
        planned = {frozenset(member.place for member in pair) for pair in rail_pairs}  # again in the other order, too
        if len(planned) < FEWEST:
            yield all_.skip(f"there are fewer than {FEWEST} pairs along the rails: no median to compare with")
        else:
            yield all_.unknown(f"fewer than {FEWEST} of the pairs along the rails brought a bandwidth", host=None)
        return
    slow = bandwidth.keys() & _called_slow(observations)
    well = [speed for pair, speed in bandwidth.items() if pair not in slow and _along(pair)]
    slowest_well = min(well, default=0.0)
    for it in objects:
        yield _slow(
            _SpeedInputs(all_, observations, causes, usual(well) or peers, slowest_well),
            it,
            _values(observations, it.one),
            again=True,
        )
    run = _SpeedInputs(all_, observations, causes, peers, slowest_well)
    left = {pair: bandwidth[pair] for pair in sorted(slow) if not any(it.explains(pair) for it in objects)}
    again = {pair: all(_slow_rounds(observations, place) > 1 for place in pair) for pair in left}
    if len(left) > _MANY:
        yield _slow(run, _unproven(observations, "group", *left), left, again=any(again.values()))
    else:
        for pair, speed in left.items():
            yield _slow(run, _unproven(observations, "link", pair), {pair: speed}, again=again[pair])
    if together and not slow and not any(it.explains({m.place for m in together.test.members}) for it in objects):
        yield _slow_together(all_, together, observations)
    if not slow and peers and peers.spread > UNLIKE * peers.median:
        yield from _unlike(all_, observations, bandwidth)


def _together(observations: Sequence[Observation]) -> Observation | None:
    """The slowest test of the largest group that the probe found slow."""
    slow = (seen for seen in observations if seen.test.scope is Scope.ALL and seen.test.outcome is TestOutcome.SLOW)
    return min(slow, key=lambda seen: (-len(seen.test.members), seen.test.busbw_GBps or 0.0), default=None)


def _slow_together(all_: All, together: Observation, observations: Sequence[Observation]) -> Finding:
    """All together are much slower than each pair, and nobody is named for it."""
    pairs = [
        seen.test.busbw_GBps for seen in observations if _both_ways(seen) and seen.test.outcome is TestOutcome.PASS
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
    """Where about half of the pairs are slow, the median lies between the halves and singles nobody out."""
    own: dict[_Pair, list[float]] = defaultdict(list)
    for seen in observations:
        if _is_rail_pair(seen) and _both_ways(seen) and seen.test.busbw_GBps is not None:
            one, other = sorted(member.place for member in seen.test.members)
            own[one, other].append(seen.test.busbw_GBps)
    steady = sorted(min(measured) / max(measured) for measured in own.values())[len(own) // 2]
    ranked = sorted(bandwidth.items(), key=lambda item: item[1])
    (_, lowest), (_, highest) = ranked[0], ranked[-1]
    if lowest < SLOW_FAIL * steady * highest:  # else the machines are busy, and pairs differ as much from themselves
        yield all_.warn(
            f"pairs along the rails have from {lowest:.2f} to {highest:.2f} GB/s: no median tells who of them is slow",
            host=None,
            expected="pairs that are alike",
            found=f"{lowest:.2f} to {highest:.2f} GB/s",
            evidence=tuple(f"{one} with {other}: {speed:.2f} GB/s" for (one, other), speed in ranked),
            cause="several of them are slow, or the rails are not of one kind",
            remedy="begin with the slowest: cable, optical module, switch port; hccn_tool -i N -speed -g at both ends",
        )


def _unproven(observations: Sequence[Observation], kind: str, *pairs: _Pair) -> Named:
    """Slow pairs of which neither end is named."""
    wanted = {frozenset(pair) for pair in pairs}
    slow = (seen.test for seen in observations if seen.test.outcome is TestOutcome.SLOW)
    ids = tuple(test.id for test in slow if frozenset(member.place for member in test.members) in wanted)
    members = pairs[0] if kind == "link" else tuple(sorted({place for pair in pairs for place in pair}))
    return Named(Located(kind, members, ids, TestOutcome.SLOW), proven=False)


def _values(observations: Sequence[Observation], one: Located) -> dict[_Pair, float]:
    """GB/s of the slow pairs that name somebody, measured both ways; where none was, one way."""
    slow = [seen for seen in observations if seen.test.id in one.tests and seen.test.outcome is TestOutcome.SLOW]
    values: dict[_Pair, float] = {}
    for seen in [seen for seen in slow if _both_ways(seen)] or slow:
        if len(seen.test.members) == 2 and seen.test.busbw_GBps is not None:
            one_, other = sorted(member.place for member in seen.test.members)
            values[one_, other] = max(seen.test.busbw_GBps, values.get((one_, other), 0.0))
    return values


def _directions(observations: Sequence[Observation], it: Named) -> str:
    """`it sends at 0.40 GB/s, receives at 1.90`: medians of what has gone one way, from a root; else the word alone."""
    from statistics import median  # its import costs more than listing all checks

    sent, received = list[float](), list[float]()
    for seen in observations:
        test, members = seen.test, seen.test.members
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
    """The finding about somebody who is slow, or about a slow pair of which neither end is proven at fault. `again`: it
    was slow in more than one round."""
    all_, peers, worst = run.all_, run.peers, min(values.values(), default=None)
    host, _, device = it.one.members[0].partition("/") if it.one.members else ("", "", "")
    who = f"device {device}" if device else "it"
    if it.kind == "link":
        what = f"{host}: {who} and {it.one.members[1]} are slow together"
        likely = "the path between them" if it.proven else "either end or the path between them"
    elif it.kind == "group":
        what, likely = f"{len(values)} pairs are slow, and nobody can be named", ""
    elif it.single:
        what, likely = f"{host}: {who} is slow", "slow with two partners that are fast elsewhere"
    else:
        what, likely = sentence(it), ""
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
    summary = "; ".join(filter(None, (": ".join(filter(None, (what, figures))), _directions(run.observations, it))))
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
        details=(*(f"{one} with {other}: {seen:.2f} GB/s" for (one, other), seen in sorted(values.items())), *with_all),
        remedy="cable, optical module and switch port; counters: hccn_tool -i N -stat -g",
    )
