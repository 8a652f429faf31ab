"""Deaths of processes: signals as shells, Python, launchers and libraries report them, aborts of glibc and of C++.

Formats of bash, dash and zsh, Python's faulthandler and subprocess, torch 1.11 to 2.13, DeepSpeed, Slurm's srun, Open
MPI 4 and 5, MPICH, UCX and glibc 2.17 to 2.41.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from preflight.diagnose.types import Role, Sign, Weight

_OWN_LOG = "read the last lines of that process"
_FAULTS = "run it with python -X faulthandler, which names the line, and compare versions on the hosts (VER103)"
_MEMORY = "dmesg -T | grep -i oom on that host; raise the job's memory limit, or use less memory"

_CRASH = Sign("crash", Role.OWN, (), "the process crashed ({signal})", _FAULTS, weight=Weight.DEATH)
_BUS_ERROR = Sign(
    "shm",
    Role.OWN,
    (),
    "mapped memory was not there (SIGBUS): /dev/shm is full, or a file was cut",
    "df -h /dev/shm on that host; in a container, give it more (docker: --shm-size) (HST115)",
    weight=Weight.DEATH,
)
_KILLED = Sign(
    "killed",
    Role.OWN,
    (),
    "another program killed it (SIGKILL): the kernel for lack of memory, or the scheduler",
    _MEMORY,
    weight=Weight.DEATH,
)
_ABORT = Sign("abort", Role.UNKNOWN, (), "the process aborted (SIGABRT); its own log tells why", _OWN_LOG)
_TERMINATED = Sign(
    "ended",
    Role.WAIT,
    (),
    "a launcher or scheduler ended it (SIGTERM), as it does after an error elsewhere",
    "find the rank that failed before it",
    weight=Weight.SYMPTOM,
)


@dataclass(frozen=True)
class _Signal:
    number: int
    name: str
    words: str  # strsignal(3)
    sign: Sign


def _crash(signal: str) -> Sign:
    return replace(_CRASH, cause=_CRASH.cause.format(signal=signal))


_SIGNALS = (
    _Signal(11, "SIGSEGV", "Segmentation fault", _crash("SIGSEGV")),
    _Signal(7, "SIGBUS", "Bus error", _BUS_ERROR),
    _Signal(9, "SIGKILL", "Killed", _KILLED),
    _Signal(6, "SIGABRT", "Aborted", _ABORT),
    _Signal(4, "SIGILL", "Illegal instruction", _crash("SIGILL")),
    _Signal(8, "SIGFPE", "Floating point exception", _crash("SIGFPE")),
    _Signal(15, "SIGTERM", "Terminated", _TERMINATED),
)
_OF_SCRIPT = r"(?:^|[\s\]])[\w./-]{1,200}: line \d{1,6}: +\d{1,10} "  # bash, of a child of a script
# What a launcher writes in front of a rank's line, or a shell in front of what became of its child.
_IN_FRONT = (
    r"(?:(?:[\w./-]{1,200}: ){1,3}(?:line )?\d{1,6}: +\d{1,10} |(?:ba|z|da)?sh: |\[\d+\] +[+-]? *\d{1,10} +"
    r"|(?:\[(?:rank|default)?[\d,]{1,9}\](?:<std\w{3}>)?:? ?|\([\w ]{0,40}pid=[^)]{1,80}\) ?"
    r"|\d{1,6}: |[a-zA-Z][\w.-]{0,60}\d[\w.-]{0,60}: ){0,2})"
)


def _reported(signal: _Signal) -> Iterator[Sign]:
    """Yield the signal in the words of each program that reports it."""
    number, name, words = signal.number, signal.name, signal.words
    first = rf"[{words[0]}{words[0].lower()}]{words[1:]}"
    sign = signal.sign
    for fixed in (
        (f"({name}) received by PID",),  # torchrun's table of failures
        (f"<Signals.{name}:",),  # subprocess
        (f"terminated with signal {name}",),  # torch.multiprocessing
        (f"Caught signal {number} ",),  # UCX
        (f"killed by signal: {words}",),  # torch's data loader
        (f"] Signal: {words} (",),  # Open MPI's handler
        (f"EXIT STRING: {words} (",),  # MPICH
        (f"BY SIGNAL: {number} (",),  # Intel MPI
        (f"Command terminated by signal {number}",),  # GNU time
        (f"Fatal Python error: {words}",),
    ):
        yield replace(sign, words=fixed)
    mpirun = rf"on node \S{{1,253}} exited on signal {number}\b"
    yield replace(sign, words=(f"exited on signal {number}", " on node "), pattern=mpirun)
    coded = (
        r"(?:[Ee]xit[ _]?[Cc]ode|[Rr]eturn ?code|exit ?status|exited with(?: code)?)\b[\s:=]{0,12}['\"(]?"
        rf"(?:-{number}|{128 + number})\b"
    )
    yield from (replace(sign, words=(word,), pattern=coded) for word in ("xit", "eturn"))
    if sign is _TERMINATED:  # srun and shells report it of all tasks that a scheduler ended
        return
    srun = rf"srun: error: \S{{1,300}}: tasks? [\d,-]{{1,200}}: {words}"
    yield replace(sign, words=("srun: error: ", words), pattern=srun)
    yield replace(sign, words=("srun: error: ", f"Exited with exit code {128 + number}"))
    dead = rf"{first}(?: +\(core dumped\))?(?:$|\s{{2,}}\S|\s+\(core)"
    shell = rf"^{_IN_FRONT}{dead}|{_OF_SCRIPT}{dead}"
    for start in (words[0], words[0].lower()):
        yield replace(sign, words=(start + words[1:],), pattern=shell)
    yield replace(sign, words=(f"{words} (core dumped)",))


_CORRUPTED = Sign(
    "heap",
    Role.OWN,
    (),
    "the process corrupted its own memory, and glibc ended it (SIGABRT)",
    _FAULTS,
    weight=Weight.DEATH,
)
_GLIBC = (
    "free(): ",
    "double free or corruption",
    "malloc(): ",
    "malloc_consolidate(): ",
    "munmap_chunk(): ",
    "realloc(): ",
    "corrupted size vs. prev_size",
    "corrupted double-linked list",
    "*** stack smashing detected ***",
    "*** buffer overflow detected ***",
    "tcache_thread_shutdown(): ",
)
# At the beginning of a line, or behind what a launcher or glibc 2.25 writes there ("*** Error in `python': ").
_OF_GLIBC = (
    r"(?:^|: ?|[>\]`'] ?)(?:\*\*\* [sb]|(?:free|malloc|realloc)\(\): [a-z]|malloc_cons|munmap_|double free or"
    r"|corrupted (?:size vs|double)|tcache_)"
)
_UNCAUGHT = "the program ended by a C++ exception that nothing caught"

SIGNS = (
    Sign(
        "host-memory-alloc",
        Role.OWN,
        ("std::bad_alloc",),
        "the host, or the job's memory limit, has no memory left",
        _MEMORY,
    ),
    *(sign for signal in _SIGNALS for sign in _reported(signal)),
    *(replace(_CORRUPTED, words=(words,), pattern=_OF_GLIBC) for words in _GLIBC),
    Sign(
        "terminate",
        Role.UNKNOWN,
        ("terminate called ",),
        f"{_UNCAUGHT} ({{type}})",
        _OWN_LOG,
        pattern=r"terminate called (?:after throwing an instance of '(?P<type>[^']{1,200}))",
    ),
    Sign("terminate", Role.UNKNOWN, ("terminate called without an active exception",), _UNCAUGHT, _OWN_LOG),
    Sign("terminate", Role.UNKNOWN, ("terminate called recursively",), _UNCAUGHT, _OWN_LOG),
    Sign(
        "python-fatal",
        Role.OWN,
        ("Fatal Python error: ",),
        "the Python interpreter stopped ({message})",
        _FAULTS,
        pattern=r"Fatal Python error: (?P<message>[^\n]{1,100})",
        weight=Weight.DEATH,
    ),
)

DEATHS = frozenset(sign.id for sign in SIGNS) - {"host-memory-alloc"}
