"""Checks of processor speed: every host's processors are as fast as those of the others."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from preflight.attribution.culprit_words import by_id, counted
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import command
from preflight.checks.shared.speed_limits import SpeedLimits, speed_limits
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Observation, Scope
from preflight.model.peers import FEWEST

OP = "processor"
WARN, FAIL = 1 / 1.5, 1 / 2  # shares of the median rank


@cluster_check("PRB118", "Host processor speed and results", several=False)
def host_processors(scribe: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: A host with slow or busy processors sends work to its devices late. The whole job waits for it, although its
    devices and links are healthy. Typical causes are a leftover job, a container with a share of the processors, and a
    throttled clock.

    Result: FAIL if one value is wrong. WARN if a host is 1.5 times slower than the median rank, FAIL if it is 2 times
    slower. One thread of each rank multiplies matrices on the host's processor. The limits are wider if ranks or
    measurements vary by more than that.

    Check manually: The files show a container's processor limit and the clock speed.
      top
      cat /sys/fs/cgroup/cpu.stat
      grep MHz /proc/cpuinfo

    Fix: End the processes that use the processors, raise the processor limit, or exclude the host from jobs.
    """
    hosts = sorted(_by_host(observations).items())
    for host, results in hosts:
        yield from _wrong(scribe, host, results)
    limits = speed_limits([speeds for _, results in hosts for speeds in _ranks(results).values()], WARN, FAIL)
    if limits:
        for host, results in hosts:
            yield from _slow(scribe, host, results, limits)
        return
    planned = len({observation.test.members[0].place for _, results in hosts for observation in results})
    if planned < FEWEST:
        yield scribe.skip(
            f"fewer than {FEWEST} ranks measured their host's processors, so there is no median to compare with"
        )
    else:
        yield scribe.unknown(f"fewer than {FEWEST} of {planned} ranks returned a time")


def _by_host(observations: Sequence[Observation]) -> dict[str, list[Observation]]:
    by_host: dict[str, list[Observation]] = defaultdict(list)
    for observation in observations:
        if observation.test.op == OP:
            by_host[observation.test.members[0].host].append(observation)
    return by_host


def _ranks(results: Sequence[Observation]) -> dict[int, list[float]]:
    """Return TFLOP/s by device."""
    speeds: dict[int, list[float]] = defaultdict(list)
    for test in (observation.test for observation in results):
        if test.tflops:
            speeds[test.members[0].device].append(test.tflops)
    return speeds


def _wrong(scribe: All, host: str, results: Sequence[Observation]) -> Iterator[Finding]:
    wrong = [observation for observation in results if observation.test.wrong_values]
    if wrong:
        yield scribe.bad(
            f"{host}: processors compute wrongly: {len(wrong)} of {len(results)} tests returned wrong values",
            host=host,
            expected="0 wrong values",
            found=counted(sum(observation.test.wrong_values for observation in wrong), "wrong value"),
            evidence=tuple(observation.ranks[0].first_wrong[:120] for observation in wrong),
            remedy="take the host out of jobs, then search its kernel log for memory errors",
            commands=(scribe.on(host, "journalctl -k | grep -i -e mce -e edac"),),
            culprit=Culprit("host", (host,), tuple(by_id(wrong)), "processors compute wrongly"),
        )


def _slow(scribe: All, host: str, results: Sequence[Observation], limits: SpeedLimits) -> Iterator[Finding]:
    """Yield the finding about a host with slow processors. The better measurement of a rank counts."""
    ranks = [max(speeds) for speeds in _ranks(results).values()]
    speed = median(ranks) if ranks else limits.median
    if speed >= limits.warn:
        return
    far = speed < limits.fail
    yield (scribe.bad if far else scribe.warn)(
        f"{host}: processors are slow or busy: {_gflops(speed)} per thread, median rank {_gflops(limits.median)}",
        host=host,
        expected=f"{WARN:.0%} of the median or more",
        found=f"{speed / limits.median:.0%}",
        cause="another job, a processor limit of the container, or a low clock rate",
        remedy="find the processes that use the processors, and the limits of the container",
        commands=(scribe.on(host, "top -b -n 1"), scribe.on(host, "cat /sys/fs/cgroup/cpu.stat")),
        retest=command(scribe, [host], Scope.DEVICE),
        culprit=Culprit("host", (host,), tuple(by_id(results)), "processors slow or busy") if far else None,
    )


def _gflops(tflops: float) -> str:
    return f"{1000 * tflops:.3g} GFLOP/s"
