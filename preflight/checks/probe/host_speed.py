"""Checks of processor speed: every host's processors are as fast as those of the others."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from preflight.attribution.culprit_words import by_id
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import command
from preflight.checks.shared.speed_limits import SpeedLimits, speed_limits
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Observation, Scope
from preflight.model.peers import FEWEST

OP = "processor"
WARN, FAIL = 1 / 1.5, 1 / 2  # shares of the median rank


@cluster_check("PRB118", "No host's processors are slow, busy with something else, or wrong", several=False)
def host_processors(scribe: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: a host whose processors belong to somebody else (a job that was left behind, a container with a share of
    them, a throttled clock) feeds its devices late, and the whole job waits for it, while its devices and links are
    well. One thread a rank multiplies matrices on the host's processor; a host is compared with the median rank: 1.5
    times slower is a warning, twice as slow a failure, more where ranks differ from each other or from themselves.

    By hand: top; cat /sys/fs/cgroup/cpu.stat; the clock: grep MHz /proc/cpuinfo

    Mend: end what uses them, lift the limit, or take the host out of jobs
    """
    results = [observation for observation in observations if observation.test.op == OP]
    yield from _wrong(scribe, results)
    speeds: dict[str, list[float]] = defaultdict(list)
    for observation in results:
        if observation.test.tflops:
            speeds[observation.test.members[0].place].append(observation.test.tflops)
    limits = speed_limits(speeds.values(), WARN, FAIL)
    if limits:
        yield from _slow(scribe, results, limits, _hosts(speeds))
        return
    ranks = {observation.test.members[0].place for observation in results}
    if len(ranks) < FEWEST:
        yield scribe.skip(f"fewer than {FEWEST} ranks measured their host's processors: no median to compare with")
    else:
        yield scribe.unknown(f"fewer than {FEWEST} of {len(ranks)} ranks brought a time")


def _of_host(results: Sequence[Observation], host: str) -> list[Observation]:
    return [observation for observation in results if observation.test.members[0].host == host]


def _wrong(scribe: All, results: Sequence[Observation]) -> Iterator[Finding]:
    for host in sorted({observation.test.members[0].host for observation in results if observation.test.wrong_values}):
        own = _of_host(results, host)
        wrong = [observation for observation in own if observation.test.wrong_values]
        ids = tuple(by_id(wrong))
        yield scribe.bad(
            f"{host}: its processors compute wrongly: {len(wrong)} of {len(own)} tests brought wrong values",
            host=host,
            expected="0 wrong values",
            found=f"{sum(observation.test.wrong_values for observation in wrong)} wrong values",
            evidence=tuple(observation.ranks[0].first_wrong[:120] for observation in wrong),
            remedy="take the host out of jobs; look for memory errors: journalctl -k | grep -i -e mce -e edac",
            culprit=Culprit("host", (host,), ids, "processors compute wrongly"),
        )


def _hosts(speeds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median of each host's ranks. The better measurement of a rank counts."""
    from statistics import median  # its import costs more than listing all checks

    by_host: dict[str, list[float]] = defaultdict(list)
    for place, measured in speeds.items():
        by_host[place.partition("/")[0]].append(max(measured))
    return {host: median(ranks) for host, ranks in by_host.items()}


def _slow(
    scribe: All, results: Sequence[Observation], limits: SpeedLimits, hosts: Mapping[str, float]
) -> Iterator[Finding]:
    for host, speed in sorted(hosts.items()):
        if speed >= limits.warn:
            continue
        far = speed < limits.fail
        ids = tuple(by_id(_of_host(results, host)))
        yield (scribe.bad if far else scribe.warn)(
            f"{host}: its processors are slow, or busy with something else: {_gflops(speed)} a thread, the median rank "
            f"has {_gflops(limits.median)}",
            host=host,
            expected=f"{WARN:.0%} of the median or more",
            found=f"{speed / limits.median:.0%}",
            cause="another job, a limit on what it may use, or a low clock",
            remedy="see who uses them: top; its limits: cat /sys/fs/cgroup/cpu.stat; to see it again: "
            + command(scribe, [host], Scope.DEVICE),
            culprit=Culprit("host", (host,), ids, "processors slow or busy") if far else None,
        )


def _gflops(tflops: float) -> str:
    return f"{1000 * tflops:.3g} GFLOP/s"
