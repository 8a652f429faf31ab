"""The time and the memory that the program may take on a host where something is wrong with it, or with its request."""

import math
import os
import resource
import signal
import sys

from apply.tools import kill_running

MEMORY = 2 << 30  # bytes of address space; the largest ruleset and journal of a real host are a tenth of it


def bind(seconds):
    """End this process after `seconds`, and where it takes too much memory; the tools that it calls have the same
    bound of memory each."""
    lower(resource.RLIMIT_AS, MEMORY)
    lower(resource.RLIMIT_CPU, math.ceil(seconds) + 1)  # ends it even in the middle of a call that never returns
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def unbind():
    """Lift the bounds: whoever reverts a firewall goes on until it is open."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (hard, hard))


def lower(limit, value):
    soft, hard = resource.getrlimit(limit)
    given = [bound for bound in (soft, hard, value) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(limit, (min(given), hard))


def end(*_):
    kill_running()
    sys.stderr.write("the program on the host took too long and has ended itself\n")
    sys.stderr.flush()
    os._exit(1)
