"""A for loop of the shell: a process for each device, with its rank in its environment."""

from preflight.launch.environment import variables
from preflight.launch.job import HostLaunch, JobHost, LaunchedJob, RankProcess, Variable
from preflight.launch.words import folded

# No `exit`: in a terminal, that would end the shell. The last line is the status.
_LOOP = """\
pids=()
for LOCAL_RANK in {ranks}; do
    export LOCAL_RANK RANK=$((FIRST_RANK + LOCAL_RANK))
{npu}    {command} &
    pids+=($!)
done
status=0
for pid in "${{pids[@]}}"; do wait "$pid" || status=$?; done
test "$status" = 0"""
# DEVICE_ID counts the devices that the process sees (ASCEND_RT_VISIBLE_DEVICES); the device_id of a rank table is the
# physical one, which HCCL finds by itself. CANN's reference of ASCEND_RT_VISIBLE_DEVICES states this for
# ASCEND_DEVICE_ID.
_NPU = "    export RANK_ID=$RANK DEVICE_ID=$LOCAL_RANK\n"


def launches(job: LaunchedJob) -> tuple[HostLaunch, ...]:
    return tuple(_launch(job, place) for place in job.places)


def _launch(job: LaunchedJob, place: JobHost) -> HostLaunch:
    first, npu = job.first_ranks[place.name], job.cluster.product.is_npu
    argv = (*job.interpreter, *job.program)
    ranks = range(len(place.devices))
    return HostLaunch(
        place.name,
        (Variable("FIRST_RANK", str(first), "the rank of the first process on this host"), *variables(job, place)),
        _LOOP.format(ranks=" ".join(map(str, ranks)), npu=_NPU if npu else "", command=folded(argv)),
        tuple(RankProcess(argv, _own(first + local, local, npu=npu)) for local in ranks),
    )


def _own(rank: int, local: int, *, npu: bool) -> dict[str, str]:
    own = {"LOCAL_RANK": str(local), "RANK": str(rank)}
    return own | ({"RANK_ID": str(rank), "DEVICE_ID": str(local)} if npu else {})
