"""What the probe's tests say: who did not arrive, whose data was wrong, who is slow."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from preflight.checks.registry import All, cluster_check
from preflight.facts.last_words import meaning
from preflight.model.finding import Finding
from preflight.model.measure import End, Member, Observation, RankView, TestOutcome, kept_waiting

SLOW_FAIL, SLOW_WARN = 0.5, 0.8  # of the median bandwidth of the same-rail pairs
_LOST = "was lost"
PAIRS = 4  # a median of fewer says little


def _place(member: Member) -> str:
    return f"{member.host}/{member.device}"


@cluster_check("PRB101", "Every rank arrives at every stage of the probe", several=False)
def all_arrive(all_: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: a collective needs every rank; one that is missing makes all others wait until a time-out, whose message
    names whoever waited. The probe asks each rank how far it came, so those that stayed behind are named, with the
    last stage they got through: spawned, torch, backend, device, store, peers, communicator, iteration, values, closed.

    By hand: the job's log of the rank that is named, not of the one that complained

    Mend: by the stage: before device: software on the host; store: route, firewall or port of the first rank;
    communicator: the device's address, link and TLS switch; iteration: the fabric
    """
    if not observations:
        yield all_.unknown("the probe brought no results", host=None)
    troubled = [seen for seen in observations if seen.test.outcome in (TestOutcome.FAIL, TestOutcome.HANG)]
    left = [seen.test.id for seen in observations if seen.test.outcome is TestOutcome.NOT_RUN]
    if left and not troubled:  # else they follow from the tests that failed
        yield all_.unknown(f"{len(left)} tests did not run", host=None, evidence=(f"tests {', '.join(left[:8])}",))
    awaited: dict[tuple[Member, str, str], list[str]] = defaultdict(list)
    words: dict[tuple[Member, str, str], str] = {}
    stopped: dict[tuple[tuple[Member, ...], str], list[Observation]] = defaultdict(list)
    for seen in troubled:
        views = kept_waiting(seen)
        for view in views:
            awaited[view.member, view.stage, _how(view)].append(seen.test.id)
            words[view.member, view.stage, _how(view)] = view.error
        if not views:
            stopped[seen.test.members, seen.test.stage].append(seen)
    for (members, stage), alike in stopped.items():
        yield _all_stopped(all_, members, stage, alike)
    lost: dict[tuple[str, str, str], list[Member]] = defaultdict(list)
    for member, stage, how in awaited:
        if _with_its_host(stage, how):
            lost[member.host, stage, how].append(member)
    for (host, stage, how), ranks in lost.items():
        yield all_.bad(
            f"{host}: its {len(ranks)} ranks came as far as {stage}, and the host {how}", host=host,
            expected="closed", found=stage,
            **_why(stage, [how], remedy="look at the host and the way to it"),
        )  # fmt: skip
    for (member, stage, how), tests in awaited.items():
        if _with_its_host(stage, how):
            continue
        yield all_.bad(
            f"{member.host}: device {member.device} (rank {member.rank}) came as far as {stage} and {how}",
            host=member.host, device=member.device, expected="closed", found=stage,
            evidence=(f"tests {', '.join(tests[:8])}",), **_why(stage, [words[member, stage, how]]),
        )  # fmt: skip


def _why(stage: str, errors: Iterable[str], cause: str = "", remedy: str = "") -> dict[str, str]:
    """Cause and remedy: those of an error that is known, else what the stage alone tells."""
    known = next(filter(None, map(meaning, errors)), None)
    if known:
        return {"cause": known.cause, "remedy": known.remedy}
    return {"cause": cause, "remedy": _REMEDY.get(stage, remedy)}


def _with_its_host(stage: str, how: str) -> bool:
    """Whether this is the host's trouble and not the rank's: told once a host."""
    return stage == "none" or how.startswith(_LOST)


def _how(view: RankView) -> str:
    """How it ended, in words, with the first line of its error."""
    error = view.error.strip().partition("\n")[0][:200]
    how = {
        End.EXITED: "left without a word",
        End.KILLED: "was killed by a signal",
        End.LOST: _LOST,
        End.UNBORN: "was never started",
    }.get(view.end or End.OVERDUE, "died" if error else "did not go on")
    state = f" (process state {view.state})" if view.state not in ("", "S", "R") else ""
    return how + state + (f": {error}" if error else "")


_REMEDY = {  # by the last stage that the rank got through
    "none": "look at the host: was it reached, did python start?",
    "spawned": "import torch by hand in the job's environment on that host",
    "torch": "import the backend (torch_npu) by hand in the job's environment on that host",
    "backend": "open the device by hand: driver, permissions of /dev/davinci*, another process on it",
    "device": "reach the first rank's port by hand: route, firewall (FWL101), port in use (PRT103)",
    "store": "look at the ranks that are missing, not at this one",
    "peers": "look at the device's address, link and TLS switch (NPU101, NPU107, NPU108)",
    "communicator": "look at the fabric of that rail: link, mask, MTU, loss",
    "iteration": "look at the fabric of that rail: link, mask, MTU, loss",
}


def _all_stopped(all_: All, members: tuple[Member, ...], stage: str, alike: Sequence[Observation]) -> Finding:
    """The finding about a group that stopped together, so that nobody in it can be named: a pair names its link."""
    errors = [view.error for seen in alike for view in seen.ranks if view.error]
    first_lines = (error.strip().partition("\n")[0][:200] for error in errors)
    evidence = (f"tests {', '.join(seen.test.id for seen in alike[:8])}", *dict.fromkeys(first_lines))
    remedy = "look at the first rank's host"
    if len(members) == 2:
        one, other = members
        return all_.bad(
            f"{one.host}: device {one.device} and {_place(other)} stopped together after {stage}", host=one.host,
            device=one.device, peer=_place(other), expected="closed", found=stage, evidence=evidence,
            **_why(stage, errors, "either end, or the path between them", remedy),
        )  # fmt: skip
    return all_.bad(
        f"all {len(members)} ranks stopped after {stage}", host=None, expected="closed", found=stage,
        evidence=evidence,
        **_why(
            stage, errors,
            "what stops all ranks at the same stage is common to them: network, firewall, versions, the first rank",
            remedy,
        ),
    )  # fmt: skip


@cluster_check("PRB102", "Every value that a collective brings is exact", several=False)
def values_exact(all_: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: a device or link that changes bits brings no error; the loss curve just looks odd, weeks later. The probe
    sends patterns whose exact result is known on every rank, and compares every element.

    By hand: no tool of the vendor compares values; preflight probe --inventory hosts.toml

    Mend: take the device that is named out of jobs; run the probe again with another partner before it is replaced
    """
    compared = [seen for seen in observations if any(view.stage in ("values", "closed") for view in seen.ranks)]
    if not compared:
        yield all_.unknown("no test came as far as comparing values", host=None)
    by_source: dict[Member, list[str]] = defaultdict(list)
    by_receiver: dict[Member, list[str]] = defaultdict(list)
    for seen in observations:
        members = {member.rank: member for member in seen.test.members}
        for view in seen.ranks:
            if not view.wrong_values:
                continue
            word = f"{_place(view.member)} saw {view.wrong_values} wrong values in {seen.test.op} {seen.test.dtype}"
            source = None if view.suspect_rank is None else members.get(view.suspect_rank)
            (by_source[source] if source else by_receiver[view.member]).append(
                f"{word} ({seen.test.id}): {view.first_wrong[:120]}"
            )
    for member, evidence in by_receiver.items() if not by_source else ():  # a source that is known explains them
        yield all_.bad(
            f"{member.host}: device {member.device} received wrong values of an unknown rank",
            host=member.host, device=member.device, expected="0 wrong values",
            found=f"wrong in {len(evidence)} results", evidence=tuple(evidence[:5]),
            remedy="probe again: a device that is alone in this receives wrong; if all are, look at what they share",
        )  # fmt: skip
    for member, evidence in by_source.items():
        yield all_.bad(
            f"{member.host}: device {member.device} (rank {member.rank}): its data arrives wrong", host=member.host,
            device=member.device, expected="0 wrong values", found=f"wrong in {len(evidence)} results",
            evidence=tuple(evidence[:5]), remedy="take the device out of jobs, then probe it with another partner",
        )  # fmt: skip


_Pair = tuple[str, str]  # two devices of different hosts, "node01/3", sorted


def _is_rail_pair(seen: Observation) -> bool:
    members = seen.test.members
    return len(members) == 2 == len({m.host for m in members}) and members[0].device == members[1].device


def _called_slow(observations: Sequence[Observation]) -> set[_Pair]:
    """The pairs that the probe found slow in all their measurements; it knows how restless the machines were."""
    calm: dict[_Pair, bool] = {}
    for seen in observations:
        if len(seen.test.members) == 2 and seen.test.busbw_GBps is not None:
            one, other = sorted(map(_place, seen.test.members))
            calm[one, other] = calm.get((one, other), True) and seen.test.outcome is TestOutcome.SLOW
    return {pair for pair, slow in calm.items() if slow}


def _pair_bandwidths(observations: Sequence[Observation]) -> tuple[dict[_Pair, float], float | None]:
    """The bandwidth of each pair over hosts, GB/s, at the largest size measured; and the median of the same-rail ones,
    None if there are too few."""
    pairs: dict[tuple[int, str, str], dict[_Pair, float]] = defaultdict(dict)
    rails: dict[tuple[int, str, str], dict[_Pair, float]] = defaultdict(dict)
    for seen in observations:
        test = seen.test
        if len(test.members) != 2 or test.busbw_GBps is None or len({member.host for member in test.members}) < 2:
            continue
        kind = (test.bytes, test.op, test.dtype)
        one, other = sorted(map(_place, test.members))
        # Measured twice, the better value counts: noise only ever makes a pair slower.
        best = max(test.busbw_GBps, pairs[kind].get((one, other), 0.0))
        pairs[kind][one, other] = best
        if _is_rail_pair(seen):
            rails[kind][one, other] = best
    kinds = [kind for kind, found in rails.items() if len(found) >= PAIRS]
    if not kinds:
        return {}, None
    from statistics import median  # its import costs more than listing all checks

    return pairs[max(kinds)], median(rails[max(kinds)].values())


@cluster_check("PRB103", "No rail is slow")
def no_slow_rail(all_: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: a collective is as slow as its slowest link; a port that came up at a lower speed, or loses packets, slows
    every job and fails none. Pairs along the rails are compared with their own median: one that stays below 80 % of it
    is a warning, below half of it a failure; where pairs differ from themselves by more than that from one measurement
    to the next, the machines are busy and only larger differences count. A device is named if it is slow with two
    partners that are fast elsewhere, else the pair.

    By hand: hccn_tool -i 0 -speed -g; hccn_tool -i 0 -stat -g; hccn_tool -i 0 -roce_test ib_send_bw ...

    Mend: cable, optical module, switch port; speed and flow control at both ends
    """
    bandwidth, usual = _pair_bandwidths(observations)
    if usual is None:
        planned = sum(_is_rail_pair(seen) and seen.test.op != "init" for seen in observations)
        if planned < PAIRS:
            yield all_.skip(f"there are fewer than {PAIRS} pairs along the rails: no median to compare with")
        else:
            yield all_.unknown(f"fewer than {PAIRS} of the pairs along the rails brought a bandwidth", host=None)
        return
    slow = bandwidth.keys() & _called_slow(observations)
    fast = {place for pair in bandwidth.keys() - slow for place in pair}
    partners: dict[str, set[str]] = defaultdict(set)
    for one, other in slow:
        partners[one].add(other)
        partners[other].add(one)
    convicted = {place for place, others in partners.items() if len(others & fast) >= 2 and place not in fast}
    for place in sorted(convicted):
        yield _slow(all_, place, {pair: bandwidth[pair] for pair in slow if place in pair}, usual)
    for pair in sorted(slow):
        if not convicted & set(pair):
            yield _slow(all_, pair[0], {pair: bandwidth[pair]}, usual, peer=pair[1])


def _slow(all_: All, place: str, values: dict[_Pair, float], usual: float, peer: str | None = None) -> Finding:
    """The finding about a slow device, or, with `peer`, about a slow pair of which neither end is proven at fault."""
    host, _, device = place.partition("/")
    worst = min(values.values())
    what = f"device {device} and {peer} are slow together" if peer else f"device {device} is slow"
    report = all_.bad if worst < SLOW_FAIL * usual else all_.warn
    return report(
        f"{host}: {what}: {worst:.2f} GB/s, the median pair has {usual:.2f}", host=host, device=int(device),
        peer=peer, expected=f"{SLOW_WARN * usual:.2f} GB/s or more", found=f"{worst:.2f} GB/s",
        cause="either end or the path between them" if peer else "slow with two partners that are fast elsewhere",
        evidence=tuple(f"{one} with {other}: {seen:.2f} GB/s" for (one, other), seen in sorted(values.items())),
        remedy="cable, optical module and switch port; counters: hccn_tool -i N -stat -g",
    )  # fmt: skip
