"""Checks of a training step as jobs do it: the same result on every rank."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from preflight.attribution.culprit_words import named
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import tell
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Located, Member, Observation, RankView, TestOutcome

STEP = "training_step"
_TROUBLE = "trains wrongly"


@cluster_check(
    "PRB113", "A training step brings the same parameters on every rank", several=False, optional=("located", "causes")
)
def same_parameters(
    all_: All,
    observations: tuple[Observation, ...],
    located: tuple[Located, ...] | None,
    causes: tuple[Finding, ...] | None,
) -> Iterator[Finding]:
    """Why: replicas of a model that drift apart bring no error, only a job that learns worse. A few steps of a small
    model under DistributedDataParallel have to end in the same parameters on all ranks, bit by bit, and in those of one
    process that is given the same batches.

    Check manually: compare the parameters' checksums of all ranks of a job after a few steps

    Fix: take the device that is named out of jobs; where ranks differ in the last bits only, HCCL_DETERMINISTIC=true
    """
    steps = [observation for observation in observations if observation.test.op == STEP]
    if not steps:
        yield all_.skip("no training step was tried")
    elif not any(view.seconds is not None for observation in steps for view in observation.ranks):
        yield all_.unknown("the training step was not done", host=None)
    # Wrong copies, products or collectives are the cause, and a wrong training step follows from them.
    elif not any(observation.test.wrong_values for observation in observations if observation not in steps):
        wrong = [observation for observation in steps if _bad(observation)]
        yield from _wrong(all_, wrong, located, causes)
        if not wrong:
            yield from _drifting(all_, steps)


def _bad(seen: Observation) -> list[RankView]:
    return [view for view in seen.ranks if view.wrong_values]


def _evidence(views: Sequence[RankView]) -> tuple[str, ...]:
    return tuple(f"{view.member.place}: {view.first_wrong[:200]}" for view in views[:5])


def _wrong(
    all_: All, wrong: Sequence[Observation], located: Sequence[Located] | None, causes: Sequence[Finding] | None
) -> Iterator[Finding]:
    """Yield each device with a part that was wrong once, even if smaller groups were tried after all ranks.

    Without such a device, yield the objects that these groups identify."""
    sources: dict[str, list[tuple[Member, Observation]]] = defaultdict(list)
    for observation in wrong:
        suspects = {view.suspect_rank for view in _bad(observation)} - {None}
        for member in (member for member in observation.test.members if member.rank in suspects):
            sources[member.place].append((member, observation))
    for place, results in sources.items():
        (member, first), *_ = results
        yield all_.bad(
            f"{member.host}: device {member.device} (rank {member.rank}) trains wrongly",
            host=member.host,
            device=member.device,
            expected="the parameters of all others",
            found=f"seen by {len(_bad(first))} ranks",
            evidence=_evidence(_bad(first)),
            remedy="take the device out of jobs, then test it alone: preflight probe "
            f"--limit {member.host} --scope device",
            culprit=Culprit("device", (place,), tuple(observation.test.id for _, observation in results), _TROUBLE),
        )
    if sources or not wrong:
        return
    bad, ids = _bad(wrong[0]), {observation.test.id for observation in wrong}
    objects = [fault for fault in named(located, TestOutcome.WRONG_DATA) if ids & set(fault.one.tests)]
    summary, remedy = "a training step ends in wrong parameters", "compare versions on all hosts"
    for fault in objects:
        yield tell(all_, fault, wrong, causes, trouble=_TROUBLE, remedy=remedy, details=(summary, *_evidence(bad)))
    if not objects:
        yield all_.bad(
            f"{summary} on {len(bad)} of {len(wrong[0].ranks)} ranks",
            host=None,
            expected="those of one process",
            evidence=_evidence(bad),
            remedy=remedy,
        )


def _drifting(all_: All, steps: Iterable[Observation]) -> Iterator[Finding]:
    for observation in steps:
        drifting = [view for view in observation.ranks if view.first_wrong]
        if drifting:
            yield all_.warn(
                f"after a training step {len(drifting)} of {len(observation.ranks)} ranks differ from the others in "
                "the last bits",
                host=None,
                expected="the same bits on all ranks",
                cause="all_reduce adds up in another order on each rank",
                evidence=tuple(view.member.place for view in drifting[:5]),
                remedy="export HCCL_DETERMINISTIC=true for jobs whose replicas may not drift apart",
            )
            return
