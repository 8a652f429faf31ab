"""Whether a training step, done as jobs do it, brings the same everywhere."""

from collections.abc import Iterator

from preflight.checks.registry import All, cluster_check
from preflight.model.finding import Finding
from preflight.model.measure import Culprit, Observation


@cluster_check("PRB113", "A training step brings the same parameters on every rank", several=False)
def same_parameters(all_: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: replicas of a model that drift apart bring no error, only a job that learns worse. A few steps of a small
    model under DistributedDataParallel have to end in the same parameters on all ranks, bit by bit, and in those of one
    process that is given the same batches.

    By hand: compare the parameters' checksums of all ranks of a job after a few steps

    Mend: take the device that is named out of jobs; where ranks differ in the last bits only, HCCL_DETERMINISTIC=true
    """
    steps = [seen for seen in observations if seen.test.op == "training_step"]
    if not steps:
        yield all_.skip("no training step was tried")
    elif not any(view.seconds is not None for seen in steps for view in seen.ranks):
        yield all_.unknown("the training step was not done", host=None)
    # Where copies, products or collectives were wrong already, that is the cause, and this is what follows from it.
    elif not any(seen.test.wrong_values for seen in observations if seen not in steps):
        for seen in steps:
            yield from _different(all_, seen)


def _different(all_: All, seen: Observation) -> Iterator[Finding]:
    bad = [view for view in seen.ranks if view.wrong_values]
    evidence = tuple(f"{view.member.place}: {view.first_wrong[:200]}" for view in bad[:5])
    suspects = {view.suspect_rank for view in bad} - {None}
    named = [member for member in seen.test.members if member.rank in suspects]
    for member in named:
        yield all_.bad(
            f"{member.host}: device {member.device} (rank {member.rank}) trains wrongly", host=member.host,
            device=member.device, expected="the parameters of all others", found=f"seen by {len(bad)} ranks",
            evidence=evidence, remedy="take the device out of jobs, then test it alone: preflight probe --limit "
            f"{member.host} --scope device",
            culprit=Culprit("device", (member.place,), (seen.test.id,), "trains wrongly"),
        )  # fmt: skip
    if bad and not named:
        yield all_.bad(
            f"a training step ends in wrong parameters on {len(bad)} of {len(seen.ranks)} ranks", host=None,
            expected="those of one process", evidence=evidence, remedy="compare versions on all hosts",
        )  # fmt: skip
    drifting = [view for view in seen.ranks if view.first_wrong and not view.wrong_values]
    if drifting and not bad:
        yield all_.warn(
            f"after a training step {len(drifting)} of {len(seen.ranks)} ranks differ from the others in the last bits",
            host=None, expected="the same bits on all ranks", cause="all_reduce adds up in another order on each rank",
            evidence=tuple(view.member.place for view in drifting[:5]),
            remedy="export HCCL_DETERMINISTIC=true for jobs whose replicas may not drift apart",
        )  # fmt: skip
