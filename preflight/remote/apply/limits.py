"""Limits on the time and memory of the program, for a host or a request that is faulty."""

import math
import os
import resource
import signal
import sys

from apply.tools import kill_running

MEMORY = 2 << 30  # bytes of address space; the largest ruleset and journal of a real host take a tenth


def bind(seconds):
    """Limit this process to `seconds` and to MEMORY; each tool that it calls has the same memory limit."""
    lower(resource.RLIMIT_AS, MEMORY)
    lower(resource.RLIMIT_CPU, math.ceil(seconds) + 1)  # ends the process even in a call that never returns
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def unbind():
    """Lift the limits: a revert of the firewall goes on until the host is open."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (hard, hard))


def lower(limit, value):
    soft, hard = resource.getrlimit(limit)
    bounds = [bound for bound in (soft, hard, value) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(limit, (min(bounds), hard))


def end(*_):
    kill_running()
    sys.stderr.write("the program on the host reached its time limit, so it stopped\n")
    sys.stderr.flush()
    os._exit(1)
