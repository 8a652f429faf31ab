"""Checks of a training step as jobs do it: the same result on every rank."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from preflight.attribution.culprit_words import counted, named
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import ProbeResults, Symptom, command, culprit_finding
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Located, Member, Observation, RankView, Scope, TestOutcome

STEP = "training_step"
_TROUBLE = "trains wrongly"
_COMPARE = "compare the versions of torch, of CANN or CUDA, and of the driver on all hosts"


@cluster_check("PRB113", "Training step parameters", several=False, optional=("located", "causes"))
def training_step(
    scribe: All,
    observations: tuple[Observation, ...],
    located: tuple[Located, ...] | None,
    causes: tuple[Finding, ...] | None,
) -> Iterator[Finding]:
    """Why: If replicas of a model drift apart, no error appears, but the model trains worse. The probe trains a small
    model for a few steps under DistributedDataParallel. All ranks must have the same parameters, bit by bit. One
    process with the same batches must have them, too.

    Result: FAIL for wrong parameters. WARN for a difference in the last bits only.

    Check manually: Compare the parameters' checksums of all ranks of a job after a few steps.

    Fix: Exclude the identified device from jobs. If ranks differ in the last bits only, make HCCL deterministic in the
    jobs' environment.
      export HCCL_DETERMINISTIC=true
    """
    steps = [observation for observation in observations if observation.test.op == STEP]
    if not steps:
        yield scribe.skip("no training step was run")
    elif not any(map(_was_done, steps)):
        yield scribe.unknown("the training step was not completed")
    # Wrong copies, products or collectives are the cause, and a wrong training step follows from them.
    elif not any(observation.test.wrong_values for observation in observations if observation not in steps):
        wrong = list(filter(_wrong_views, steps))
        yield from (
            _wrong_parameters(ProbeResults(scribe, wrong, causes), located) if wrong else _drifting(scribe, steps)
        )


def _was_done(observation: Observation) -> bool:
    return any(view.seconds is not None for view in observation.ranks)


def _wrong_views(observation: Observation) -> list[RankView]:
    return [view for view in observation.ranks if view.wrong_values]


def _evidence(views: Sequence[RankView]) -> tuple[str, ...]:
    return tuple(f"{view.member.place}: {view.first_wrong[:200]}" for view in views[:5])


def _sources(wrong: Iterable[Observation]) -> dict[str, list[tuple[Member, Observation]]]:
    """Return each device with a part that was wrong: its member and the observation of each such test."""
    sources: dict[str, list[tuple[Member, Observation]]] = defaultdict(list)
    for observation in wrong:
        suspects = {view.suspect_rank for view in _wrong_views(observation)}
        for member in observation.test.members:
            if member.rank in suspects:
                sources[member.place].append((member, observation))
    return sources


def _wrong_parameters(results: ProbeResults, located: Sequence[Located] | None) -> Iterator[Finding]:
    """Yield each device with a part that was wrong once, even if smaller groups were tried after all ranks.

    Without such a device, yield the objects that these groups identify."""
    scribe, wrong = results.scribe, results.observations
    sources = _sources(wrong)
    for place, tests in sources.items():
        (member, first), *_ = tests
        yield scribe.bad(
            f"{member.host}: device {member.device} (rank {member.rank}) computes wrong parameters in the training "
            "step",
            host=member.host,
            device=member.device,
            expected="the same parameters as on all other ranks",
            found=f"different parameters, detected by {counted(len(_wrong_views(first)), 'rank')}",
            evidence=_evidence(_wrong_views(first)),
            remedy="exclude the device from jobs, then test it alone",
            commands=(command(scribe, [member.host], Scope.DEVICE),),
            culprit=Culprit("device", (place,), tuple(observation.test.id for _, observation in tests), _TROUBLE),
        )
    if not sources:
        yield from _without_source(results, located)


def _without_source(results: ProbeResults, located: Sequence[Located] | None) -> Iterator[Finding]:
    views = _wrong_views(results.observations[0])
    culprits = [
        culprit for culprit in named(located, TestOutcome.WRONG_DATA) if results.tests.keys() & set(culprit.one.tests)
    ]
    summary, remedy = "the training step ends with wrong parameters", _COMPARE
    for culprit in culprits:
        symptom = Symptom(_TROUBLE, remedy=remedy, details=(summary, *_evidence(views)))
        yield culprit_finding(results, culprit, symptom)
    if not culprits:
        yield results.scribe.bad(
            f"{summary} on {len(views)} of {len(results.observations[0].ranks)} ranks",
            expected="the same parameters as in a single process",
            evidence=_evidence(views),
            remedy=remedy,
            commands=("preflight check --only VER",),
        )


def _drifting(scribe: All, steps: Iterable[Observation]) -> Iterator[Finding]:
    for observation in steps:
        drifting = [view for view in observation.ranks if view.first_wrong]
        if drifting:
            yield scribe.warn(
                f"after the training step, {len(drifting)} of {len(observation.ranks)} ranks differ from the others "
                "in the last bits",
                expected="the same bits on all ranks",
                cause="all_reduce adds in a different order on each rank",
                evidence=tuple(view.member.place for view in drifting[:5]),
                remedy="set HCCL_DETERMINISTIC=true in the environment of jobs that need identical replicas",
            )
            return
