"""What torchrun, srun, mpirun and DeepSpeed say of processes that ended badly. Data; words of torch 1.11 to 2.13,
Slurm, Open MPI 4 and 5, MPICH."""

from preflight.diagnose.types import Role, Sign

_ENDED = "the launcher saw a process end with an error"
_WORDS = "look at the workers' own logs; torchrun --log-dir DIR --tee 3 keeps them"
_KILLED = "somebody killed it: the kernel for want of memory, or the scheduler"
_MEMORY = "dmesg -T | grep -i oom on that host; the job's memory limit"
_FAULTS = "run it with python -X faulthandler, and compare versions (VER103)"
# srun says "Terminated" of those that it ended itself, also at the time limit.
_BADLY = r"srun: error: \S{1,300}: tasks? [\d,-]{1,200}: (?:Exited with|Killed|Abort|Segm|Bus e|Illegal|Floating)"

SIGNS = (
    Sign("killed", Role.OWN, ("(SIGKILL) received by PID",), _KILLED, _MEMORY),
    Sign("killed", Role.OWN, ("exited on signal 9", " on node "), _KILLED, _MEMORY),
    Sign("crash", Role.OWN, ("(SIGSEGV) received by PID",), "the program crashed", _FAULTS),
    Sign("crash", Role.OWN, ("exited on signal 11", " on node "), "the program crashed", _FAULTS),
    Sign("ended", Role.WAIT, ("(SIGTERM) received by PID",), "it was ended after another rank",
         "look at the first error"),
    Sign("ended", Role.WAIT, ("(SIGABRT) received by PID",),
         "it gave up: torch's watchdog does so when others do not come", "look at the first error"),
    Sign("launcher", Role.WAIT, ("ChildFailedError",), _ENDED, _WORDS),
    Sign("launcher", Role.WAIT, ("srun: error: ", ": task"), _ENDED, _WORDS, pattern=_BADLY),
    Sign("launcher", Role.WAIT, ("exited on signal", " on node "), _ENDED, _WORDS),
    Sign("launcher", Role.WAIT, ("exited with non-zero status", "one or more processes"), _ENDED, _WORDS),
    Sign("launcher", Role.WAIT, ("BAD TERMINATION OF",), _ENDED, _WORDS),
    Sign("launcher", Role.WAIT, ("exits with return code = ",), _ENDED, _WORDS, pattern=r"code = -?[1-9]"),
)  # fmt: skip

ENDED_BADLY = frozenset(sign.id for sign in SIGNS)
