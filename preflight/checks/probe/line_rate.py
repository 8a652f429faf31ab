"""Checks of the probe's bandwidths against the ports' line rate and the operator's expectation."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.bandwidth_findings import Advice, ComparedBandwidth, slow_findings
from preflight.model.figures import Baseline, Figure, compare, figures, shape
from preflight.model.finding import Finding
from preflight.model.measure import Observation, Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome

LARGE = 256 << 20  # bytes from which on the line rate can be reached
WARN, FAIL = 0.85, 0.70  # a healthy fabric gives 88 to 95 %
# At 4 MiB a port of 200 Gb/s is busy for 0.17 ms. At a tenth of its rate the pair takes 1.7 ms, longer than any start
# of a healthy operation. With less data, latency may be all that is measured.
FAR, FAR_LEAST = 0.10, 4 << 20
_TOO_LITTLE = "no pair along a rail moved 256 MiB or more. Run preflight probe --sizes 256M to test that size"
_ADVICE = Advice(
    "one of the two ends, or the path between them",
    "check the cable, the optical module, the MTU, the flow control and the error counters",
)
_MEASURED = (TestOutcome.PASS, TestOutcome.UNCHECKED)  # PRB103 reports a slow pair


def _is_measured_rail(observation: Observation) -> bool:
    """Return whether a pair's data left one port and entered the other, as busbw counts it."""
    test, members = observation.test, observation.test.members
    return (
        len(members) == 2 == len({member.host for member in members})
        and members[0].device == members[1].device
        and test.op in ("all_reduce", "send_recv")
        and test.bytes >= FAR_LEAST
        and test.outcome in _MEASURED
    )


@cluster_check("PRB116", "Bandwidth against line rate", several=False, optional=("baseline",))
def line_rate(scribe: All, observations: tuple[Observation, ...], baseline: Baseline | None) -> Iterator[Finding]:
    """Why: If all rails are equally slow, a comparison among them shows nothing. Two ranks along a rail that move 256
    MiB or more reach 88 to 95 % of a healthy port's line rate.

    Result: WARN below 85 % of the line rate, FAIL below 70 %. With less data, from 4 MiB on, WARN for a pair below 10 %
    at the largest size. Such a pair passes if the saved baseline has the same figure. It also passes if the inventory
    expects that bandwidth: `expect = { pair = 1.2 }` under `[probe]`.

    Check manually: The speed is in Mb/s: 200000 Mb/s are 25 GB/s.
      hccn_tool -i 0 -speed -g
      preflight probe --sizes 256M

    Fix: Check the cable, the optical module, the MTU, the flow control and the switch ports between the two hosts. This
    command reads the flow control.
      hccn_tool -i 0 -pfc -g
    """
    pairs = list(filter(_is_measured_rail, observations))
    large = [observation for observation in pairs if observation.test.bytes >= LARGE]
    pairs = large or pairs
    tests = [observation.test for observation in pairs]
    if why := _why_not(pairs):
        yield scribe.skip(why)
    elif large:
        if unknown := len(tests) - len(_with_known_rate(tests)):
            yield scribe.unknown(
                f"the line rate of the ports is unknown for {unknown} of {len(tests)} measurements",
                remedy="read the speed of the ports",
                commands=tuple(_speed_queries(scribe, tests)),
            )
        yield from _slow(scribe, map(_near_line_rate, _best(tests)))
    else:
        small = list(_far_below(scribe, tests, baseline))
        yield from _slow(scribe, small)
        if all(bandwidth.outcome is Outcome.PASS for bandwidth in small):
            yield scribe.skip(_TOO_LITTLE)


def _why_not(pairs: Sequence[Observation]) -> str:
    """Return why the pairs prove nothing about their ports; empty if they may."""
    if not pairs:
        return _TOO_LITTLE
    if any(view.on_host for observation in pairs for view in observation.ranks):
        return "the probe used the hosts' memory (gloo or a stand-in), so no data went through device ports"
    if all(observation.meeting and observation.meeting.backend != "hccl" for observation in pairs):
        return "this run did not use hccl, and only the devices' own NICs report their line rate"
    return ""


def _slow(scribe: All, bandwidths: Iterable[ComparedBandwidth]) -> Iterator[Finding]:
    """Yield the findings, those about a pair with the query of its first port's counters."""
    for finding in slow_findings(scribe, bandwidths, _ADVICE):
        query = f"hccn_tool -i {finding.device} -stat -g"
        yield replace(finding, commands=(scribe.on(finding.host, query),)) if finding.host else finding


def _speed_queries(scribe: All, tests: Iterable[TestResult]) -> Iterator[str]:
    """Yield the commands for both ports of the first pair with an unknown line rate."""
    pair = next(test.members for test in tests if test.line_rate is None or not test.busbw_GBps)
    yield from (scribe.on(member.host, f"hccn_tool -i {member.device} -speed -g") for member in pair)


def _with_known_rate(tests: Iterable[TestResult]) -> list[TestResult]:
    return [test for test in tests if test.line_rate is not None and test.busbw_GBps]


def _best(tests: Iterable[TestResult]) -> list[TestResult]:
    """Return each pair's best measurement."""
    ranked = sorted(_with_known_rate(tests), key=lambda test: test.line_rate or 0.0)
    return list({shape(test): test for test in ranked}.values())


def _compared(test: TestResult, outcome: Outcome, least: float) -> ComparedBandwidth:
    share, busbw = test.line_rate or 0.0, test.busbw_GBps or 0.0
    return ComparedBandwidth(shape(test), busbw, share, outcome, least, f"the port's {busbw / share:.2f} GB/s")


def _near_line_rate(test: TestResult) -> ComparedBandwidth:
    share = test.line_rate or 0.0
    return _compared(test, Outcome.FAIL if share < FAIL else Outcome.WARN if share < WARN else Outcome.PASS, WARN)


def _far_below(scribe: All, tests: Sequence[TestResult], baseline: Baseline | None) -> Iterator[ComparedBandwidth]:
    """Yield the comparison of each pair's best measurement at the largest size of all."""
    largest = max(test.bytes for test in tests)
    best = _best(test for test in tests if test.bytes == largest)
    saved = compare(baseline, figures(best)) if baseline else []
    normal = {comparison.now.shape for comparison in saved if comparison.outcome is Outcome.PASS}
    for test in best:
        is_normal = _is_enough(scribe, test) or shape(test) in normal
        yield _compared(test, Outcome.PASS if is_normal else Outcome.WARN, FAR)


def _is_enough(scribe: All, test: TestResult) -> bool:
    """Return whether a pair is not far below the line rate, or not below the inventory's expectation."""
    least = scribe.cluster.probe.expect.get(Scope.PAIR, math.inf)
    return (test.line_rate or 0.0) >= FAR or (test.busbw_GBps or 0.0) >= least


@cluster_check("PRB117", "Bandwidth against inventory", several=False)
def expected_bandwidth(scribe: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: The inventory can hold the bandwidth that the cluster had at its handover, or that a job needs. The setting
    is `expect = { pair = 20.0, all = 15.0 }` under `[probe]`, in GB/s of bus bandwidth.

    Result: FAIL if all_reduce at its largest size stays below that.

    Check manually: The busbw column shows the bandwidth.
      preflight probe --scope all,pair

    Fix: Apply the fixes for PRB103, PRB115 and PRB116. If these checks pass, the expected bandwidth is too high, or the
    messages are too small. Set larger `sizes` under `[probe]`.
    """
    if not scribe.cluster.probe.expect:
        yield scribe.skip("the inventory does not set an expected bandwidth (expect under [probe])")
        return
    bandwidths: list[ComparedBandwidth] = []
    all_reduces = [observation.test for observation in observations if observation.test.op == "all_reduce"]
    for scope, least in scribe.cluster.probe.expect.items():
        tests = [test for test in all_reduces if test.scope == scope]
        measured = figures(tests)
        if not measured and any(test.outcome in _MEASURED for test in tests):
            yield scribe.unknown(f"{scope}: all_reduce returned no bandwidth to compare with {least:g} GB/s")
        bandwidths += _expected(measured, least)
    remedy = "fix the findings of PRB103, PRB115 and PRB116. If there are none, correct the number in the inventory"
    yield from slow_findings(scribe, bandwidths, Advice("", remedy))


def _expected(measured: Sequence[Figure], least: float) -> Iterator[ComparedBandwidth]:
    largest = max((figure.shape.bytes for figure in measured), default=0)
    for figure in measured:
        if figure.shape.bytes == largest:
            share = figure.busbw / least
            outcome = Outcome.FAIL if share < 1 else Outcome.PASS
            against = f"the inventory's {least:g} GB/s"
            yield ComparedBandwidth(figure.shape, figure.busbw, share, outcome, 1.0, against)
