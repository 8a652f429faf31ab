"""Checks of slow links, by comparison of the pairs along the rails with their median bandwidth."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from preflight.attribution.culprit_words import Named, hosts_of, link_ends, named, place, sentence
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import ProbeResults, Symptom, command, culprit_finding, unproven
from preflight.model.finding import Finding
from preflight.model.measure import Located, Observation, Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome
from preflight.model.peers import FEWEST, Usual, usual

SLOW_FAIL, FAR = 0.80, 5.0  # Share of the median, and spreads from it, below which a slow pair is a failure.
HALF = 0.5  # Share of the slowest healthy pair that is a failure, too, even on noisy machines.
_MANY = 3  # Slow pairs without a known culprit. More of them are one finding.
UNLIKE = 0.1  # Share of the median. With a larger spread the pairs are not comparable.


_Pair = tuple[str, str]  # two devices, "node01/3", sorted


def _pair(test: TestResult) -> _Pair:
    first, second = sorted(member.place for member in test.members)
    return first, second


def _is_over_hosts(pair: _Pair) -> bool:
    return pair[0].partition("/")[0] != pair[1].partition("/")[0]


def _is_along_a_rail(pair: _Pair) -> bool:
    return _is_over_hosts(pair) and pair[0].partition("/")[2] == pair[1].partition("/")[2]


def _both_ways(observations: Iterable[Observation]) -> Iterator[tuple[_Pair, float, TestResult]]:
    """Yield the pairs that were measured in both directions, with GB/s. An operation with a root goes one way."""
    for test in (observation.test for observation in observations):
        if test.scope is Scope.PAIR and test.busbw_GBps is not None and test.root is None:
            yield _pair(test), test.busbw_GBps, test


def _called_slow(observations: Sequence[Observation]) -> set[_Pair]:
    """Return the pairs that the probe called slow in all their measurements. The probe knows the noise of the
    machines."""
    always_slow: dict[_Pair, bool] = {}
    for pair, _, test in _both_ways(observations):
        always_slow[pair] = always_slow.get(pair, True) and test.outcome is TestOutcome.SLOW
    return {pair for pair, slow in always_slow.items() if slow}


def _pair_bandwidths(observations: Sequence[Observation]) -> tuple[dict[_Pair, float], Usual | None]:
    """Return the bandwidth of each pair over hosts, GB/s, at the largest size measured.

    The second value is the usual bandwidth of same-rail pairs, None if there are too few."""
    pairs: dict[tuple[int, str, str], dict[_Pair, float]] = defaultdict(dict)
    rails: dict[tuple[int, str, str], dict[_Pair, float]] = defaultdict(dict)
    for pair, bandwidth, test in _both_ways(observations):
        if _is_over_hosts(pair):
            kind = (test.bytes, test.op, test.dtype)
            # The better of two measurements counts, since noise only makes a pair slower.
            pairs[kind][pair] = max(bandwidth, pairs[kind].get(pair, 0.0))
            if _is_along_a_rail(pair):
                rails[kind][pair] = pairs[kind][pair]
    kinds = [kind for kind, bandwidths in rails.items() if len(bandwidths) >= FEWEST]
    return (pairs[max(kinds)], usual(list(rails[max(kinds)].values()))) if kinds else ({}, None)


def _slow_rounds(observations: Sequence[Observation], place: str) -> int:
    """Return the number of rounds in which a device's pairs were slow. More than one is not a momentary disturbance."""
    pairs = (observation.test for observation in observations if observation.test.scope is Scope.PAIR)
    slow = (test for test in pairs if test.outcome is TestOutcome.SLOW)
    return len({test.id.partition("-")[0] for test in slow if place in (member.place for member in test.members)})


@dataclass(frozen=True)
class _Peers:
    """The bandwidths with which a slow pair is compared."""

    usual: Usual | None
    slowest_healthy: float  # GB/s of a pair along a rail; 0 if there is none

    @property
    def median(self) -> str:
        return f"{self.usual.median:.2f}" if self.usual else ""

    def is_far_below(self, speed: float) -> bool:
        """Return whether a pair is slow enough for a failure."""
        limit = self.usual.limit(SLOW_FAIL, FAR) if self.usual else 0.0
        return speed < max(HALF * self.slowest_healthy, limit)


@cluster_check("PRB103", "Link bandwidth", optional=("located", "causes"))
def link_bandwidth(
    scribe: All,
    observations: tuple[Observation, ...],
    located: tuple[Located, ...] | None,
    causes: tuple[Finding, ...] | None,
) -> Iterator[Finding]:
    """Why: A collective is as slow as its slowest link. If a port came up at a lower speed or loses packets,
    every job is slow, and no job fails.

    Result: Pairs along a rail are compared with their own median bandwidth. WARN below 93 % of the median, unless
    healthy pairs vary as much. FAIL below 80 %, or below half of the slowest healthy pair, if the pair is slow in a
    second round, too. If measurements of one pair vary by more than that, the machines are busy and only larger
    differences count. The culprit is a device or host that is slow with partners which are fast with other partners.
    If only one direction is slow, the finding has it. Without a culprit, the finding is about the pair. WARN with a
    list of the slow pairs if half of the pairs are slow and no culprit is identified.

    Check manually:
      hccn_tool -i 0 -speed -g
      hccn_tool -i 0 -stat -g
      preflight probe --scope pair

    Fix: Check the cable, the optical module and the switch port. Compare the speed and the flow control of both ends.
    """
    results = ProbeResults(scribe, observations, causes)
    culprits = named(located, TestOutcome.SLOW)
    bandwidths, peers = _pair_bandwidths(observations)
    if peers is None and not culprits and not _together(observations):
        yield _not_compared(results)
        return
    slow = bandwidths.keys() & _called_slow(observations)
    healthy = _along_rails(bandwidths, slow)
    slowest = min(healthy, default=0.0)
    for culprit in culprits:
        norm = _Peers(usual(healthy) or peers, slowest)
        yield _slow(results, norm, culprit, _pairs_of(culprit, observations), again=True)
    speeds = {
        pair: bandwidths[pair] for pair in sorted(slow) if not any(culprit.explains(pair) for culprit in culprits)
    }
    yield from _slow_pairs(results, _Peers(peers, slowest), speeds)
    if not slow:
        yield from _slow_together(results, culprits)
        yield from _unlike(results, bandwidths, peers)


def _along_rails(bandwidths: Mapping[_Pair, float], slow: Collection[_Pair]) -> list[float]:
    return [speed for pair, speed in bandwidths.items() if pair not in slow and _is_along_a_rail(pair)]


def _not_compared(results: ProbeResults) -> Finding:
    # Each pair is tested in both orders.
    pairs = {_pair(test) for test in results.tests.values() if test.scope is Scope.PAIR}
    if sum(map(_is_along_a_rail, pairs)) < FEWEST:
        return results.scribe.skip(f"a comparison needs at least {FEWEST} same-rail pairs")
    return results.scribe.unknown(f"fewer than {FEWEST} same-rail pairs reported a bandwidth")


def _slow_pairs(results: ProbeResults, peers: _Peers, speeds: Mapping[_Pair, float]) -> Iterator[Finding]:
    """Yield the findings about slow pairs without a known culprit. Many of them are one finding."""
    observations = results.observations
    for pairs in [list(speeds)] if len(speeds) > _MANY else [[pair] for pair in speeds]:
        again = any(all(_slow_rounds(observations, place) > 1 for place in pair) for pair in pairs)
        yield _slow(results, peers, _unproven(observations, pairs), {pair: speeds[pair] for pair in pairs}, again=again)


def _together(observations: Sequence[Observation]) -> TestResult | None:
    """Return the slowest test of the largest group that the probe called slow."""
    tests = (observation.test for observation in observations if observation.test.outcome is TestOutcome.SLOW)
    slow = (test for test in tests if test.scope is Scope.ALL)
    return min(slow, key=lambda test: (-len(test.members), test.busbw_GBps or 0.0), default=None)


def _slow_together(results: ProbeResults, culprits: Sequence[Named]) -> Iterator[Finding]:
    """Yield the finding about all ranks together that are much slower than each pair, without a known culprit."""
    together = _together(results.observations)
    if together is None or any(culprit.explains({m.place for m in together.members}) for culprit in culprits):
        return
    healthy = [
        speed for _, speed, test in _both_ways(results.observations) if test.outcome is TestOutcome.PASS and speed
    ]
    least = f" (slowest healthy pair: {min(healthy):.2f} GB/s)" if healthy else ""
    hosts = sorted(hosts_of(together.places))
    yield results.scribe.warn(
        f"all {len(together.members)} ranks together reach only {together.busbw_GBps or 0:.2f} GB/s{least}",
        cause="the uplinks or spine switches, or the algorithm that HCCL or NCCL uses for this many ranks",
        evidence=(f"test {together.id}",),
        remedy="check the load and the errors of the uplinks, then probe half of the hosts",
        commands=(command(results.scribe, hosts[: (len(hosts) + 1) // 2], Scope.ALL),),
    )


def _unlike(results: ProbeResults, bandwidths: Mapping[_Pair, float], peers: Usual | None) -> Iterator[Finding]:
    """Yield a finding if about half of the pairs are slow, where the median between the halves identifies none."""
    if peers is None or peers.spread <= UNLIKE * peers.median:
        return
    by_pair: dict[_Pair, list[float]] = defaultdict(list)
    for pair, speed, _ in _both_ways(results.observations):
        if _is_along_a_rail(pair):
            by_pair[pair].append(speed)
    steady = sorted(min(speeds) / max(speeds) for speeds in by_pair.values())[len(by_pair) // 2]
    ranked = sorted(bandwidths.items(), key=lambda item: item[1])
    (_, lowest), (_, highest) = ranked[0], ranked[-1]
    if lowest < SLOW_FAIL * steady * highest:  # else the machines are busy, and a pair differs as much from itself
        yield results.scribe.warn(
            f"uneven bandwidth: {lowest:.2f} to {highest:.2f} GB/s in same-rail pairs. Slow pairs do not stand out",
            expected="pairs with a similar bandwidth",
            found=f"{lowest:.2f} to {highest:.2f} GB/s",
            evidence=tuple(f"{first} with {second}: {speed:.2f} GB/s" for (first, second), speed in ranked),
            cause="several pairs are slow, or the rails have different hardware",
            remedy="check the cables, the optical modules and the switch ports of the slowest pair",
            commands=_port_queries(results.scribe, ranked[0][0], "speed"),
        )


def _unproven(observations: Sequence[Observation], pairs: Sequence[_Pair]) -> Named:
    """Return the slow pairs as an object of which neither end is proven at fault."""
    wanted = set(pairs)
    slow = (observation for observation in observations if observation.test.outcome is TestOutcome.SLOW)
    of_two = (observation for observation in slow if len(observation.test.members) == 2)
    failures = [observation for observation in of_two if _pair(observation.test) in wanted]
    kind = "link" if len(pairs) == 1 else "group"
    return unproven(kind, sorted({place for pair in pairs for place in pair}), failures, TestOutcome.SLOW)


def _pairs_of(culprit: Named, observations: Sequence[Observation]) -> dict[_Pair, float]:
    """Return GB/s of the slow pairs that identify a culprit, measured both ways, or one way if there are no others."""
    slow = [
        observation
        for observation in observations
        if observation.test.id in culprit.one.tests and observation.test.outcome is TestOutcome.SLOW
    ]
    tests = [test for _, _, test in _both_ways(slow)] or [observation.test for observation in slow]
    speeds: dict[_Pair, float] = {}
    for test in tests:
        if len(test.members) == 2 and test.busbw_GBps is not None:
            speeds[_pair(test)] = max(test.busbw_GBps, speeds.get(_pair(test), 0.0))
    return speeds


def _one_way(observations: Sequence[Observation]) -> Iterator[tuple[str, str, float]]:
    """Yield sender, receiver and GB/s of each test of a pair that went one way, from a root."""
    for test in (observation.test for observation in observations):
        if test.scope is Scope.PAIR and test.op == "broadcast" and test.root is not None and test.busbw_GBps:
            yield test.members[test.root].place, test.members[1 - test.root].place, test.busbw_GBps


def _points_out(culprit: Named, near: str, far: str) -> bool:
    """Return whether the way from `near` to `far` leads out of the culprit, or from a link's first member."""
    if culprit.kind == "link":
        return (near, far) == culprit.one.members
    return culprit.single and bool(culprit.part([near])) and not culprit.part([far])


def _directions(observations: Sequence[Observation], culprit: Named) -> str:
    """Return `It sends at 0.40 GB/s and receives at 1.90 GB/s`, or the direction alone. The figures are medians."""
    ways = list(_one_way(observations))
    sent = [speed for sender, receiver, speed in ways if _points_out(culprit, sender, receiver)]
    received = [speed for sender, receiver, speed in ways if _points_out(culprit, receiver, sender)]
    subject = culprit.one.members[0] if culprit.kind == "link" else "It"
    if sent and received:
        return f"{subject} sends at {median(sent):.2f} GB/s and receives at {median(received):.2f} GB/s"
    return f"{subject} {culprit.one.direction} slowly" if culprit.one.direction in ("sends", "receives") else ""


def _problem(culprit: Named, pairs: int) -> tuple[str, str]:
    """Return the problem and its likely cause, in words."""
    members = culprit.one.members
    if culprit.kind == "link":
        cause = "the path between them" if culprit.proven else "one of the two ends, or the path between them"
        return f"{link_ends(members)} are slow together", cause
    if culprit.kind == "group":
        return f"{pairs} pairs are slow, and the culprit cannot be identified", ""
    if culprit.single:
        name = members[0].replace("/", " device ")
        return f"{place(members[0])} is slow", f"cable, optical module or switch port of {name}"
    return sentence(culprit), ""


def _port_queries(scribe: All, members: Iterable[str], setting: str) -> tuple[str, ...]:
    """Return the commands that read a setting of the ports of NPUs ("node01/3"); none for other members."""
    if not scribe.cluster.product.is_npu:
        return ()
    places = (member.partition("/") for member in members)
    return tuple(scribe.on(host, f"hccn_tool -i {device} -{setting} -g") for host, _, device in places if device)


def _measurements(results: ProbeResults, culprit: Named, speeds: Mapping[_Pair, float]) -> list[str]:
    lines = [f"{first} with {second}: {speed:.2f} GB/s" for (first, second), speed in sorted(speeds.items())]
    together = _together(results.observations)
    if together and culprit.explains({member.place for member in together.members}):
        speed = together.busbw_GBps or 0
        lines.append(f"{together.id}: all {len(together.members)} ranks together: {speed:.2f} GB/s")
    return lines


def _slow(
    results: ProbeResults, peers: _Peers, culprit: Named, speeds: Mapping[_Pair, float], *, again: bool
) -> Finding:
    """Return the finding about a slow object, or about a slow pair of which neither end is proven at fault.

    `again`: it was slow in more than one round."""
    worst = min(speeds.values(), default=None)
    problem, cause = _problem(culprit, len(speeds))
    figures = "" if worst is None else _figures(culprit, worst, peers)
    counters = _counters(results, culprit)
    is_failure = again and worst is not None and peers.is_far_below(worst) and not culprit.intermittent
    symptom = Symptom(
        {"sends": "sends slowly", "receives": "receives slowly"}.get(culprit.one.direction, "slow"),
        ". ".join(filter(None, (f"{problem}{figures}", _directions(results.observations, culprit)))),
        cause=cause,
        expected=f"about {peers.median} GB/s" if peers.median else "",
        found=f"{worst:.2f} GB/s" if worst is not None else "",
        details=_measurements(results, culprit, speeds),
        remedy="read the port's error counters"
        if counters
        else "check the cable, the optical module and the switch port",
        commands=counters,
    )
    return culprit_finding(results, culprit, symptom, Outcome.FAIL if is_failure else Outcome.WARN)


def _figures(culprit: Named, worst: float, peers: _Peers) -> str:
    """Return `: 1.80 GB/s (median pair: 10.00 GB/s)`, to be added to the problem."""
    median = f" (median pair: {peers.median} GB/s)" if peers.median else ""
    begin = ": " if culprit.kind == "link" or culprit.single else ". The slowest pair reaches "
    return f"{begin}{worst:.2f} GB/s{median}"


def _counters(results: ProbeResults, culprit: Named) -> tuple[str, ...]:
    """Return the queries of the error counters of one or two ports; none if data did not go through them."""
    if culprit.kind not in ("device", "link") or results.backend(culprit.one) == "gloo":
        return ()
    return _port_queries(results.scribe, culprit.one.members, "stat")
