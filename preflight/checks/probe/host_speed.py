"""Checks of processor speed: every host's processors are as fast as those of the others."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import command
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Observation, Scope
from preflight.model.peers import FEWEST, usual

OP = "processor"
WARN, WARN_FAR = 1 / 1.5, 3.0  # share of the median rank, and spreads from it
FAIL, FAIL_FAR = 1 / 2, 5.0


@cluster_check("PRB118", "No host's processors are slow, busy with something else, or wrong", several=False)
def processors(all_: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: a host whose processors belong to somebody else (a job that was left behind, a container with a share of
    them, a throttled clock) feeds its devices late, and the whole job waits for it, while its devices and links are
    well. One thread a rank multiplies matrices on the host's processor; a host is compared with the median rank: 1.5
    times slower is a warning, twice as slow a failure, more where ranks differ from each other or from themselves.

    Check manually: top; cat /sys/fs/cgroup/cpu.stat; the clock: grep MHz /proc/cpuinfo

    Fix: end what uses them, lift the limit, or take the host out of jobs
    """
    results = [observation for observation in observations if observation.test.op == OP]
    for host in sorted({observation.test.members[0].host for observation in results if observation.test.wrong_values}):
        own = [observation for observation in results if observation.test.members[0].host == host]
        wrong = [observation for observation in own if observation.test.wrong_values]
        yield all_.bad(
            f"{host}: its processors compute wrongly: {len(wrong)} of {len(own)} tests brought wrong values",
            host=host,
            expected="0 wrong values",
            found=f"{sum(observation.test.wrong_values for observation in wrong)} wrong values",
            evidence=tuple(observation.ranks[0].first_wrong[:120] for observation in wrong),
            remedy="take the host out of jobs; look for memory errors: journalctl -k | grep -i -e mce -e edac",
            culprit=Culprit(
                "host", (host,), tuple(observation.test.id for observation in wrong), "processors compute wrongly"
            ),
        )
    ranks, steady = _ranks(results)
    peers = usual(list(ranks.values()))
    if peers is None:
        planned = {observation.test.members[0].place for observation in results}
        if len(planned) < FEWEST:
            yield all_.skip(f"fewer than {FEWEST} ranks measured their host's processors: no median to compare with")
        else:
            yield all_.unknown(f"fewer than {FEWEST} of {len(planned)} ranks brought a time", host=None)
        return
    steady_limit = peers.median * steady
    for host, speed in sorted(_hosts(ranks).items()):
        if speed >= min(steady_limit, peers.limit(WARN, WARN_FAR)):
            continue
        far = speed < min(steady_limit, peers.limit(FAIL, FAIL_FAR))
        ids = tuple(observation.test.id for observation in results if observation.test.members[0].host == host)
        yield (all_.bad if far else all_.warn)(
            f"{host}: its processors are slow, or busy with something else: {_gflops(speed)} a thread, the median rank "
            f"has {_gflops(peers.median)}",
            host=host,
            expected=f"{WARN:.0%} of the median or more",
            found=f"{speed / peers.median:.0%}",
            cause="another job, a limit on what it may use, or a low clock",
            remedy="see who uses them: top; its limits: cat /sys/fs/cgroup/cpu.stat; to see it again: "
            + command(all_, [host], Scope.DEVICE),
            culprit=Culprit("host", (host,), ids, "processors slow or busy") if far else None,
        )


def _ranks(done: Sequence[Observation]) -> tuple[Mapping[str, float], float]:
    """Return device → TFLOP/s of its rank, and the median of worse / better measurement of a rank.

    The better measurement counts, since noise only makes a rank slower."""
    measured: dict[str, list[float]] = defaultdict(list)
    for observation in done:
        if observation.test.tflops:
            measured[observation.test.members[0].place].append(observation.test.tflops)
    from statistics import median  # its import costs more than listing all checks

    ratios = [min(speeds) / max(speeds) for speeds in measured.values()]
    return {place: max(speeds) for place, speeds in measured.items()}, median(ratios) if ratios else 1.0


def _hosts(ranks: Mapping[str, float]) -> dict[str, float]:
    """Return the median of each host's ranks."""
    of_host: dict[str, list[float]] = defaultdict(list)
    for place, speed in ranks.items():
        of_host[place.partition("/")[0]].append(speed)
    from statistics import median

    return {host: median(speeds) for host, speeds in of_host.items()}


def _gflops(tflops: float) -> str:
    return f"{1000 * tflops:.3g} GFLOP/s"
