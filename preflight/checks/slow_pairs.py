"""Whether all rails are alike: pairs along them, compared with their own median."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from preflight.checks.registry import All, cluster_check
from preflight.model.finding import Finding
from preflight.model.measure import Observation, Scope, TestOutcome
from preflight.model.peers import FEWEST, Usual, usual

SLOW_FAIL, FAR = 0.80, 5.0  # of the median, and spreads from it
UNLIKE = 0.1  # of the median: a spread beyond which peers are no peers


_Pair = tuple[str, str]  # two devices of different hosts, "node01/3", sorted


def _is_rail_pair(seen: Observation) -> bool:
    members = seen.test.members
    along = len({m.host for m in members}) == 2 and members[0].device == members[1].device
    return seen.test.scope is Scope.PAIR and along


def _called_slow(observations: Sequence[Observation]) -> set[_Pair]:
    """The pairs that the probe found slow in all their measurements; it knows how restless the machines were."""
    calm: dict[_Pair, bool] = {}
    for seen in observations:
        if seen.test.scope is Scope.PAIR and seen.test.busbw_GBps is not None:
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
        if test.scope is not Scope.PAIR or test.busbw_GBps is None or len({m.host for m in test.members}) < 2:
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
    slow = (seen.test for seen in observations if seen.test.outcome is TestOutcome.SLOW)
    return len({test.id.partition("-")[0] for test in slow if place in (member.place for member in test.members)})


@cluster_check("PRB103", "No rail is slow")
def no_slow_rail(all_: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: a collective is as slow as its slowest link; a port that came up at a lower speed, or loses packets, slows
    every job and fails none. Pairs along the rails are compared with their own median: one that stays below 93 % of it,
    and further from it than healthy ones are, is a warning; below 80 % and slow in a second round it is a failure.
    Where pairs differ from themselves by more than that from one measurement to the next, the machines are busy and
    only larger differences count. A device is named if it is slow with two partners that are fast elsewhere, else the
    pair. Where half of the pairs are slow, no median tells who: a warning lists them.

    By hand: hccn_tool -i 0 -speed -g; hccn_tool -i 0 -stat -g; hccn_tool -i 0 -roce_test ib_send_bw ...

    Mend: cable, optical module, switch port; speed and flow control at both ends
    """
    bandwidth, peers = _pair_bandwidths(observations)
    if peers is None:
        planned = {seen.test.members for seen in observations if _is_rail_pair(seen)}
        if len(planned) < FEWEST:
            yield all_.skip(f"there are fewer than {FEWEST} pairs along the rails: no median to compare with")
        else:
            yield all_.unknown(f"fewer than {FEWEST} of the pairs along the rails brought a bandwidth", host=None)
        return
    slow = bandwidth.keys() & _called_slow(observations)
    fast = {place for pair in bandwidth.keys() - slow for place in pair}
    partners: dict[str, set[str]] = defaultdict(set)
    for one, other in slow:
        partners[one].add(other)
        partners[other].add(one)
    convicted = {place for place, others in partners.items() if len(others & fast) >= 2 and place not in fast}
    for place in sorted(convicted):
        values = {pair: bandwidth[pair] for pair in slow if place in pair}
        yield _slow(all_, place, values, peers, again=True)
    for pair in sorted(slow):
        if not convicted & set(pair):
            again = all(_slow_rounds(observations, place) > 1 for place in pair)
            yield _slow(all_, pair[0], {pair: bandwidth[pair]}, peers, peer=pair[1], again=again)
    if not slow and peers.spread > UNLIKE * peers.median:
        yield from _unlike(all_, observations, bandwidth)


def _unlike(all_: All, observations: Sequence[Observation], bandwidth: Mapping[_Pair, float]) -> Iterator[Finding]:
    """Where about half of the pairs are slow, the median lies between the halves and singles nobody out."""
    own: dict[_Pair, list[float]] = defaultdict(list)
    for seen in observations:
        if _is_rail_pair(seen) and seen.test.busbw_GBps is not None:
            one, other = sorted(member.place for member in seen.test.members)
            own[one, other].append(seen.test.busbw_GBps)
    steady = sorted(min(measured) / max(measured) for measured in own.values())[len(own) // 2]
    ranked = sorted(bandwidth.items(), key=lambda item: item[1])
    (_, lowest), (_, highest) = ranked[0], ranked[-1]
    if lowest < SLOW_FAIL * steady * highest:  # else the machines are busy, and pairs differ as much from themselves
        yield all_.warn(
            f"pairs along the rails have from {lowest:.2f} to {highest:.2f} GB/s: no median tells who of them is slow",
            host=None, expected="pairs that are alike", found=f"{lowest:.2f} to {highest:.2f} GB/s",
            evidence=tuple(f"{one} with {other}: {speed:.2f} GB/s" for (one, other), speed in ranked),
            cause="several of them are slow, or the rails are not of one kind",
            remedy="begin with the slowest: cable, optical module, switch port; hccn_tool -i N -speed -g at both ends",
        )  # fmt: skip


def _slow(
    all_: All, place: str, values: dict[_Pair, float], peers: Usual, *, again: bool, peer: str | None = None
) -> Finding:
    """The finding about a slow device, or, with `peer`, about a slow pair of which neither end is proven at fault.
    `again`: it was slow in more than one round."""
    host, _, device = place.partition("/")
    worst = min(values.values())
    what = f"device {device} and {peer} are slow together" if peer else f"device {device} is slow"
    report = all_.bad if again and worst < peers.limit(SLOW_FAIL, FAR) else all_.warn
    return report(
        f"{host}: {what}: {worst:.2f} GB/s, the median pair has {peers.median:.2f}", host=host, device=int(device),
        peer=peer, expected=f"about {peers.median:.2f} GB/s", found=f"{worst:.2f} GB/s",
        cause="either end or the path between them" if peer else "slow with two partners that are fast elsewhere",
        evidence=tuple(f"{one} with {other}: {seen:.2f} GB/s" for (one, other), seen in sorted(values.items())),
        remedy="cable, optical module and switch port; counters: hccn_tool -i N -stat -g",
    )  # fmt: skip
