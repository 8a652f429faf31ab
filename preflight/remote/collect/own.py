"""Preflight's own processes on this host: of the run that collects, and of other runs.

Every program of preflight is started by the loader of transport/bootstrap.py, which names its run in the command line.
What such a process forks has the same command line; what it starts (a vendor's test) descends from it.
"""

import os
import re

LOADER = re.compile(rb'compile\(source,"preflight(?: ([0-9a-f]{1,32}))?","exec"\)')
MOST = 1000  # processes that are told of
LINE = 65536  # bytes read of a command line; setup lines and wrappers stand before the loader


def preflight_processes():
    """[{"pid", "name", "this_run"}] but for this collector, what it was started by, and what it starts."""
    runs = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        loader = LOADER.search(text_of(number, "cmdline"))
        if loader:
            runs[int(number)] = loader.group(1)
    this = runs.get(os.getpid())
    mine = {os.getpid()}
    pid = parent_of(os.getpid())
    while pid > 1 and pid not in mine:
        mine.add(pid)
        pid = parent_of(pid)
    if set(runs) <= mine:
        return []
    children = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        children.setdefault(parent_of(number), []).append(int(number))
    below(children, os.getpid(), mine)
    told = {}
    for pid, run in runs.items():
        if pid not in mine:
            descendants = below(children, pid, set())
            told.update((each, run) for each in descendants if each not in mine and each not in runs)
            told[pid] = run
    return [
        {
            "pid": pid,
            "name": text_of(pid, "comm").decode("utf-8", "replace").strip(),
            "this_run": run is not None and run == this,
        }
        for pid, run in sorted(told.items())[:MOST]
    ]


def below(children, pid, known):
    """Add to `known` what descends from `pid`; returns it."""
    new = [pid]
    while new:
        new = [child for parent in new for child in children.get(parent, ()) if child not in known]
        known.update(new)
    return known


def parent_of(pid):
    fields = text_of(pid, "stat").rpartition(b") ")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def text_of(pid, name):
    """The beginning of a file of /proc/PID; empty where the process has ended or is hidden."""
    try:
        with open("/proc/%s/%s" % (pid, name), "rb") as file:
            return file.read(LINE)
    except OSError:
        return b""
