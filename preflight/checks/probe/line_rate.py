"""Checks of the probe's bandwidths against the ports' line rate and the operator's expectation."""

from collections.abc import Iterator, Sequence

from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.bandwidth_findings import Judged, spoken
from preflight.model.figures import Baseline, compare, figures, shape
from preflight.model.finding import Finding
from preflight.model.measure import Observation, Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome

LARGE = 256 << 20  # bytes from which on the line rate can be reached
WARN, FAIL = 0.85, 0.70  # a healthy fabric gives 88 to 95 %
# At 4 MiB a port of 200 Gb/s is busy for 0.17 ms. At a tenth of its rate the pair takes 1.7 ms, longer than any start
# of a healthy operation. With less data, latency may be all that is measured.
FAR, FAR_LEAST = 0.10, 4 << 20
_TOO_LITTLE = "no pair along a rail moved 256 MiB or more; preflight probe --sizes 256M asks for it"
_CAUSE = "either end, or the path between them"
_REMEDY = "cable, optical module, MTU and flow control; counters: hccn_tool -i N -stat -g"
_MEASURED = (TestOutcome.PASS, TestOutcome.UNCHECKED)  # PRB103 reports a slow pair


def _along_a_rail(seen: Observation) -> bool:
    """Return whether a pair's data left one port and entered the other, as busbw counts it."""
    members, test = seen.test.members, seen.test
    is_rail_pair = (
        len(members) == 2 == len({member.host for member in members}) and members[0].device == members[1].device
    )
    return is_rail_pair and test.op in ("all_reduce", "send_recv") and test.bytes >= FAR_LEAST


@cluster_check("PRB116", "Pairs along a rail reach their ports' line rate", several=False, optional=("baseline",))
def line_rate(all_: All, observations: tuple[Observation, ...], baseline: Baseline | None) -> Iterator[Finding]:
    """Why: where all rails are equally slow, no comparison shows it. Two ranks along a rail that move 256 MiB or more
    get 88 to 95 % of what a healthy port carries; below 85 % is a warning, below 70 % a failure. Where less was moved,
    a pair below 10 % at the largest size is a warning, from 4 MiB on. It is none where the saved baseline has the same
    figure, or where it is what the inventory expects: `expect = { pair = 1.2 }` under `[probe]`.

    Check manually: hccn_tool -i 0 -speed -g (Mb/s; 200000 are 25 GB/s), and preflight probe --sizes 256M

    Fix: cable, optical module, MTU, flow control (hccn_tool -i 0 -pfc -g) and the switch ports between the two
    """
    pairs = [
        observation
        for observation in observations
        if _along_a_rail(observation) and observation.test.outcome in _MEASURED
    ]
    large = [observation for observation in pairs if observation.test.bytes >= LARGE]
    pairs = large or pairs
    if why := _why_not(pairs):
        yield all_.skip(why)
        return
    if not large:
        small_judgements = list(_far_below(all_, [observation.test for observation in pairs], baseline))
        yield from spoken(all_, small_judgements, _CAUSE, _REMEDY)
        if all(judgement.outcome is Outcome.PASS for judgement in small_judgements):
            yield all_.skip(_TOO_LITTLE)
        return
    measured = [
        observation.test
        for observation in large
        if observation.test.line_rate is not None and observation.test.busbw_GBps
    ]
    if len(measured) < len(large):
        yield all_.unknown(
            f"of {len(large) - len(measured)} of {len(large)} measurements it is not known how fast the ports are",
            host=None,
            remedy="hccn_tool -i N -speed -g on both hosts",
        )
    best = {shape(test): test for test in sorted(measured, key=lambda test: test.line_rate or 0.0)}
    judged = []
    for measured_shape, test in best.items():
        share, busbw = test.line_rate or 0.0, test.busbw_GBps or 0.0
        outcome = Outcome.FAIL if share < FAIL else Outcome.WARN if share < WARN else Outcome.PASS
        judged.append(Judged(measured_shape, busbw, share, outcome, WARN, f"the {busbw / share:.2f} GB/s of its port"))
    yield from spoken(all_, judged, _CAUSE, _REMEDY)


def _why_not(pairs: Sequence[Observation]) -> str:
    """Return why the pairs prove nothing about their ports; empty where they may."""
    if not pairs:
        return _TOO_LITTLE
    if any(view.on_host for observation in pairs for view in observation.ranks):
        return "tensors were in the hosts' memory (gloo, or a stand-in): nothing went through devices' ports"
    if all(observation.meeting and observation.meeting.backend != "hccl" for observation in pairs):
        return "only device NICs tell how fast their ports are, and this was not run over hccl"
    return ""


def _far_below(all_: All, tests: Sequence[TestResult], baseline: Baseline | None) -> Iterator[Judged]:
    """Yield the judgement of each pair's best measurement at the largest size of all."""
    largest = max(test.bytes for test in tests)
    measured = [test for test in tests if test.bytes == largest and test.line_rate is not None and test.busbw_GBps]
    best = {shape(test): test for test in sorted(measured, key=lambda test: test.line_rate or 0.0)}
    saved = compare(baseline, figures(best.values())) if baseline else []
    normal = {comparison.now.shape for comparison in saved if comparison.outcome is Outcome.PASS}
    least = all_.cluster.probe.expect.get(Scope.PAIR, 0.0)
    for measured_shape, test in best.items():
        share, busbw = test.line_rate or 0.0, test.busbw_GBps or 0.0
        is_normal = share >= FAR or measured_shape in normal or (least and busbw >= least)
        outcome = Outcome.PASS if is_normal else Outcome.WARN
        yield Judged(measured_shape, busbw, share, outcome, FAR, f"the {busbw / share:.2f} GB/s of its port")


@cluster_check("PRB117", "The probe measures what the inventory expects", several=False)
def expected(all_: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: who knows what the cluster gave when it was handed over, or what a job needs, can say so: `expect = { pair =
    20.0, all = 15.0 }` under `[probe]`, in GB/s of bus bandwidth. all_reduce at its largest size may not stay below it.

    Check manually: preflight probe --scope all,pair; the column busbw

    Fix: whatever PRB103, PRB115 and PRB116 name; where they are content, the number is too high, or the size too
    small: `sizes` under `[probe]`
    """
    wanted = all_.cluster.probe.expect
    if not wanted:
        yield all_.skip("the inventory expects no bandwidth: expect under [probe]")
        return
    judged = []
    for scope, least in wanted.items():
        tests = [
            observation.test
            for observation in observations
            if observation.test.scope == scope and observation.test.op == "all_reduce"
        ]
        measured = figures(tests)
        if not measured and any(test.outcome in _MEASURED for test in tests):
            yield all_.unknown(f"{scope}: all_reduce brought no bandwidth to hold against {least:g} GB/s", host=None)
        largest = max((figure.shape.bytes for figure in measured), default=0)
        judged += [
            Judged(
                figure.shape,
                figure.busbw,
                share := figure.busbw / least,
                Outcome.FAIL if share < 1 else Outcome.PASS,
                1.0,
                f"the {least:g} GB/s that the inventory expects",
            )
            for figure in measured
            if figure.shape.bytes == largest
        ]
    yield from spoken(
        all_, judged, "", "what PRB103, PRB115 and PRB116 say of it; else a smaller number in the inventory"
    )
