"""Ends of jobs by a scheduler: time limits, preemption, failed nodes, cancellation and memory limits.

Formats of Slurm 17 to 25, PBS Professional and OpenPBS, LSF 10, and Kubernetes.
"""

from preflight.diagnose.types import Role, Sign

_LONGER = "request more time or save checkpoints. If the job made no progress, find the rank that stopped first"
_LIMIT = "the job reached its time limit, and {by} ended it. No rank is the culprit"
_FULL = "the job reached its memory limit, and the kernel killed one of its processes"
_MEMORY = "find what uses the memory, such as data loaders or page-locked memory. Otherwise request more ({})"
_SLURM = _MEMORY.format("--mem")

JOB_MEMORY = "job-memory"
CANCELLED = "cancelled"  # by its user, or by a launcher after a failed task: reports no fault


def _time_limit(by: str, *words: str) -> Sign:
    return Sign("time-limit", Role.ENDED, words, _LIMIT.format(by=by), _LONGER)


def _memory(*words: str, step: str = _SLURM, pattern: str = "") -> Sign:
    return Sign(JOB_MEMORY, Role.OWN, words, _FULL, step, pattern)


SIGNS = (
    _time_limit("Slurm", "CANCELLED", "DUE TO TIME LIMIT"),
    _time_limit("PBS", "PBS: job killed: walltime"),
    _time_limit("LSF", "TERM_RUNLIMIT"),
    _time_limit("Kubernetes", "DeadlineExceeded"),
    Sign(
        "preempted",
        Role.ENDED,
        ("CANCELLED", "DUE TO PREEMPTION"),
        "Slurm preempted the job for another one. No rank is the culprit",
        "submit the job again from a checkpoint (sbatch --requeue)",
    ),
    Sign(
        "preempted",
        Role.ENDED,
        ("TERM_PREEMPT",),
        "LSF preempted the job for another one. No rank is the culprit",
        "submit the job again",
    ),
    Sign(
        "node-failed",
        Role.OWN,
        ("Node failure on ",),
        "Slurm lost the node {node}",
        "read the node's state, console and kernel log, then check it\n"
        "scontrol show node {node}\npreflight check --limit {node}",
        pattern=r"Node failure on (?P<node>[\w.\[\],-]{1,253})",
    ),
    Sign(
        "node-failed",
        Role.ENDED,
        ("CANCELLED", "DUE TO NODE FAIL"),
        "Slurm lost a node of the job. This line does not name it",
        "find the node with sinfo or in the slurmctld log. Then read its console and kernel log\nsinfo -R",
    ),
    Sign(
        "node-failed",
        Role.ENDED,
        (
            "CANCELLED",
            "DUE TO NODE ",
        ),
        "Slurm ended the job because of a node",
        "find the node with sinfo or in the slurmctld log\nsinfo -R",
    ),
    Sign(
        CANCELLED,
        Role.HINT,
        (" CANCELLED AT ",),
        "the user cancelled the job, or it was cancelled after a task failed",
        "read the state and exit code of each step with sacct -j and the job's id",
        pattern=r"\*\*\* (?:JOB|STEP) \S{1,40} ON \S{1,253} CANCELLED AT (?:\S{1,40} )?"
        r"(?:DUE TO JOB REQUEUE |DUE to SIGNAL [\w ]{1,40} )?\*\*\*",
    ),
    _memory("Detected ", "oom", pattern=r"Detected [1-9]\d{0,5} oom[-_ ]kill event"),
    _memory(": Out Of Memory", "error: ", ": task"),
    _memory("xceeded job memory limit"),
    _memory("xceeded step memory limit"),
    _memory("exceeded memory limit", "being killed"),
    _memory("may have been killed by the cgroup out-of-memory handler"),
    _memory(
        "OOMKilled",
        step=_MEMORY.format("resources.limits.memory"),
        pattern=r"\b(?:[Rr]eason|[Ss]tatus|[Ss]tate|lastState)\b.{0,40}OOMKilled|^\S{1,253} +\d+/\d+ +OOMKilled",
    ),
    _memory("TERM_MEMLIMIT", step=_MEMORY.format("bsub -M")),
    _memory("PBS: job killed: mem ", step=_MEMORY.format("-l mem")),
    Sign(
        "evicted",
        Role.ENDED,
        ("he node was low on resource",),
        "Kubernetes evicted the pod because its node ran out of a resource",
        "read the events of the pod and of its node with kubectl describe",
    ),
)

ENDS = frozenset(sign.id for sign in SIGNS if sign.role is Role.ENDED)
