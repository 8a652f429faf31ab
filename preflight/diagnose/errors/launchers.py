"""Reports of launchers that a process ended badly: torchrun, srun, mpirun, DeepSpeed, accelerate and Ray.

Formats of torch 1.11 to 2.13, Slurm, Open MPI 4 and 5, MPICH, DeepSpeed and Ray 2. Signals are in `crashes`.
"""

from preflight.diagnose.errors.cann import HCCL_FAILED
from preflight.diagnose.types import Role, Sign, Weight

_ENDED = "the launcher reported that a process failed"
_WORDS = "read that process's own log. torchrun keeps these logs with --log-dir and --tee 3"
_RAY = "a Ray worker process died, and Ray gives no reason"
_RAY_LOG = (
    "check the kernel log of that host and the worker's log in /tmp/ray/session_latest/logs\n"
    "dmesg -T | grep -iE 'oom|segfault'"
)
_RAY_MEMORY = "Ray killed a worker because the host ran out of memory"
_USERS = "find what uses the memory: data loaders, page-locked memory or another job\nfree -g"
# srun reports "Terminated" for tasks that it ended itself, also at the time limit.
_BADLY = r"error: \S{1,300} tasks? [\d,-]{1,200}: Exited with"
_ENGINE = "find the first error of its worker processes"


LAUNCHER = "launcher"
RAY_WORKER = "ray-worker"


def _failed(*words: str, pattern: str = "") -> Sign:
    return Sign(LAUNCHER, Role.WAIT, words, _ENDED, _WORDS, pattern, Weight.SYMPTOM)


SIGNS = (
    _failed("ChildFailedError"),
    _failed("failed (exitcode:", pattern=r"exitcode: -?[1-9]"),
    _failed("exitcode ", "(pid:", pattern=r"exitcode {0,9}: -?[1-9]"),
    _failed(
        "exited with",
        pattern=r"\b(?:[Ww]orker|[Pp]rocess|[Rr]ank|[Pp]od|[Tt]ask|[Jj]ob|[Cc]ontainer)\b.{0,80}\bexited with "
        r"(?:exit )?(?:code|status)[ :=]{1,2}[1-9]",
    ),
    _failed("srun: error: ", ": task", pattern=_BADLY),
    _failed("exited on signal", " on node "),
    _failed("exited with non-zero status", "one or more processes"),
    _failed("exited with non-zero status", "non-zero exit status"),
    _failed("noticed that process rank", "exited"),
    _failed("mpirun detected that one or more processes exited with non-zero"),
    _failed("BAD TERMINATION OF"),
    _failed("exits with return code = ", pattern=r"code = -?[1-9]"),
    _failed("CalledProcessError: ", "returned non-zero exit status"),
    _failed("ProcessExitedException: "),
    _failed("ProcessRaisedException: "),
    _failed("command terminated with exit code ", pattern=r"exit code [1-9]"),
    Sign(
        RAY_WORKER,
        Role.WAIT,
        ("worker died", "unexpected"),
        _RAY,
        _RAY_LOG,
        pattern=r"(?:RayActorError|ActorDiedError|WorkerCrashedError|[Ww]orker died or was killed|actor died)",
        weight=Weight.SYMPTOM,
    ),
    *(
        Sign(
            RAY_WORKER,
            Role.WAIT,
            (name,),
            _RAY,
            _RAY_LOG,
            weight=Weight.SYMPTOM,
        )
        for name in ("ActorDiedError", "RayActorError", "WorkerCrashedError")
    ),
    Sign(
        "host-memory-ray",
        Role.OWN,
        ("ray.exceptions.OutOfMemoryError",),
        _RAY_MEMORY,
        _USERS,
    ),
    Sign(
        "host-memory-ray",
        Role.OWN,
        ("killed due to the node running low on memory",),
        _RAY_MEMORY,
        _USERS,
    ),
    Sign(
        "stopped",
        Role.ENDED,
        ("death signal, shutting down workers",),
        "torchrun was stopped from outside by a signal, and stopped its workers. No rank is the culprit",
        "find what stopped torchrun: a scheduler, a user, a limit or the failure of another node",
    ),
    Sign("engine-died", Role.WAIT, ("EngineDeadError",), "the engine process had died", _ENGINE),
    Sign("engine-died", Role.WAIT, ("ngine core initialization failed",), "a worker of the engine had failed", _ENGINE),
    Sign("engine-died", Role.WAIT, ("AsyncEngineDeadError",), "the engine process had died", _ENGINE),
)

# These alone do not show why the job ended.
ENDED_BADLY = frozenset({LAUNCHER, RAY_WORKER, HCCL_FAILED, "killed", "crash", "ended", "shm", "abort"})
