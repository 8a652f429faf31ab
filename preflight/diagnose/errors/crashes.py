"""Deaths of processes: signals as shells, Python, launchers and libraries report them, aborts of glibc and of C++.

Formats of bash, dash and zsh, Python's faulthandler and subprocess, torch 1.11 to 2.13, DeepSpeed, Slurm's srun, Open
MPI 4 and 5, MPICH, UCX and glibc 2.17 to 2.41.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from preflight.diagnose.types import Role, Sign, Weight

_OWN_LOG = "read the last log lines of the process"
FAULTS = (
    "run the program with python -X faulthandler, which prints the failing line. Also compare package versions across "
    "the hosts (VER103)"
)
_MEMORY = "check the kernel log for kills. Then raise the job's memory limit or use less memory\ndmesg -T | grep -i oom"

_CRASH = Sign("crash", Role.OWN, (), "the process crashed ({signal})", FAULTS, weight=Weight.DEATH)
_BUS_ERROR = Sign(
    "shm",
    Role.OWN,
    (),
    "mapped memory could not be accessed (SIGBUS): /dev/shm is full, or a mapped file was truncated",
    "make /dev/shm larger. In a container, use docker's --shm-size (HST115)\ndf -h /dev/shm",
    weight=Weight.DEATH,
)
_KILLED = Sign(
    "killed",
    Role.OWN,
    (),
    "the process was killed (SIGKILL), by the kernel for lack of memory or by the scheduler",
    _MEMORY,
    weight=Weight.DEATH,
)
_ABORT = Sign("abort", Role.UNKNOWN, (), "the process aborted (SIGABRT). Its own log has the reason", _OWN_LOG)
_TERMINATED = Sign(
    "ended",
    Role.WAIT,
    (),
    "a launcher or scheduler ended the process (SIGTERM), as it does after an error elsewhere",
    "find the rank that failed first",
    weight=Weight.SYMPTOM,
)


@dataclass(frozen=True)
class _Signal:
    """A signal of Linux. `words`: strsignal(3); empty if other errors have the same words, too."""

    number: int
    name: str
    words: str
    sign: Sign


def _crash(number: int, name: str, words: str) -> _Signal:
    return _Signal(number, name, words, replace(_CRASH, cause=_CRASH.cause.format(signal=name)))


def _ended(number: int, name: str) -> _Signal:
    return _Signal(number, name, "", replace(_TERMINATED, cause=_TERMINATED.cause.replace("SIGTERM", name)))


_SIGNALS = (
    _crash(11, "SIGSEGV", "Segmentation fault"),
    _Signal(7, "SIGBUS", "Bus error", _BUS_ERROR),
    _Signal(9, "SIGKILL", "Killed", _KILLED),
    _Signal(6, "SIGABRT", "Aborted", _ABORT),
    _crash(4, "SIGILL", "Illegal instruction"),
    _crash(5, "SIGTRAP", "Trace/breakpoint trap"),
    _crash(8, "SIGFPE", "Floating point exception"),
    _crash(24, "SIGXCPU", "CPU time limit exceeded"),
    _crash(25, "SIGXFSZ", "File size limit exceeded"),
    _crash(31, "SIGSYS", "Bad system call"),
    *(
        _ended(number, name)
        for number, name in (
            (15, "SIGTERM"),
            (1, "SIGHUP"),
            (2, "SIGINT"),
            (3, "SIGQUIT"),
            (10, "SIGUSR1"),
            (12, "SIGUSR2"),
            (13, "SIGPIPE"),
            (14, "SIGALRM"),
        )
    ),
)
_AMBIGUOUS = 3  # up to this number a negative exit code may be a program's own, unless torchrun reports it
_OF_SCRIPT = r"(?:^|[\s\]])[\w./-]{1,200}: line \d{1,6}: +\d{1,10} "  # bash, of a child of a script
# Text that a launcher writes before a rank's line, or a shell before its report on a child.
_IN_FRONT = (
    r"(?:(?:[\w./-]{1,200}: ){1,3}(?:line )?\d{1,6}: +\d{1,10} |(?:ba|z|da)?sh: |\[\d+\] +[+-]? *\d{1,10} +"
    r"|(?:\[(?:rank|default)?[\d,]{1,9}\](?:<std\w{3}>)?:? ?|\([\w ]{0,40}pid=[^)]{1,80}\) ?"
    r"|\d{1,6}: |[a-zA-Z][\w.-]{0,60}\d[\w.-]{0,60}: ){0,2})"
)


def _reported(signal: _Signal) -> Iterator[Sign]:
    """Yield the signs of a signal, one for each program that reports its name or number."""
    number, name, sign = signal.number, signal.name, signal.sign
    for fixed in (
        f"({name}) received by PID",  # torchrun's table of failures
        f"<Signals.{name}:",  # subprocess
        f"terminated with signal {name}",  # torch.multiprocessing
        f"Caught signal {number} ",  # UCX
        f"BY SIGNAL: {number} (",  # Intel MPI
        f"Command terminated by signal {number}",  # GNU time
    ):
        yield replace(sign, words=(fixed,))
    mpirun = rf"on node \S{{1,253}} exited on signal {number}\b"
    yield replace(sign, words=(f"exited on signal {number}", " on node "), pattern=mpirun)
    yield replace(sign, words=("exitcode",), pattern=rf"exitcode {{0,9}}: -{number}\b")
    if number > _AMBIGUOUS:
        code = rf"\b[\s:=]{{0,12}}['\"(]?(?:-{number}|{128 + number})\b"
        coded = r"(?:[Ee]xit[ _]?[Cc]ode|[Rr]eturn ?code|exit ?status|exited with(?: code)?)" + code
        yield from (replace(sign, words=(word,), pattern=coded) for word in ("xit", "eturn"))
    if signal.words:
        yield from _in_words(signal)


def _in_words(signal: _Signal) -> Iterator[Sign]:
    """Yield the signs of a signal, one for each program that describes it in words."""
    words, sign = signal.words, signal.sign
    for fixed in (
        f"killed by signal: {words}",  # torch's data loader
        f"] Signal: {words} (",  # Open MPI's handler
        f"EXIT STRING: {words} (",  # MPICH
        f"Fatal Python error: {words}",
        f"{words} (core dumped)",
    ):
        yield replace(sign, words=(fixed,))
    srun = rf"error: \S{{1,300}} tasks? [\d,-]{{1,200}}: {words}"
    yield replace(sign, words=("srun: error: ", words), pattern=srun)
    yield replace(sign, words=("srun: error: ", f"Exited with exit code {128 + signal.number}"))
    first = rf"[{words[0]}{words[0].lower()}]{words[1:]}"
    dead = rf"{first}(?: +\(core dumped\))?(?:$|\s{{2,}}\S|\s+\(core)"
    shell = rf"^{_IN_FRONT}{dead}|{_OF_SCRIPT}{dead}"
    for start in (words[0], words[0].lower()):
        yield replace(sign, words=(start + words[1:],), pattern=shell)


_CORRUPTED = Sign(
    "heap",
    Role.OWN,
    (),
    "the process corrupted its own memory, and glibc aborted it (SIGABRT)",
    FAULTS,
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
# At the beginning of a line, or after text of a launcher or of glibc 2.25 ("*** Error in `python': ").
_OF_GLIBC = (
    r"(?:^|: ?|[>\]`'] ?)(?:\*\*\* [sb]|(?:free|malloc|realloc)\(\): [a-z]|malloc_cons|munmap_|double free or"
    r"|corrupted (?:size vs|double)|tcache_)"
)
_UNCAUGHT = "the program ended with an uncaught C++ exception"

SIGNS = (
    Sign(
        "host-memory-alloc",
        Role.OWN,
        ("std::bad_alloc",),
        "the host or the job's memory limit is exhausted",
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
        FAULTS,
        pattern=r"Fatal Python error: (?P<message>[^\n]{1,100})",
        weight=Weight.DEATH,
    ),
)
