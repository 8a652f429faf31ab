"""Preflight's own processes on this host: of the run that collects, and of other runs.

Every program of preflight is started by the loader of transport/bootstrap.py, which names its run in the command line.
A process that it forks has the same command line; a program that it starts (a vendor's test) descends from it.
"""

import os
import re

LOADER = re.compile(rb'compile\(source,"preflight(?: ([0-9a-f]{1,32}))?","exec"\)')
MOST = 1000  # processes that are reported
LINE = 65536  # bytes read of a command line; setup lines and wrappers come before the loader


def preflight_processes():
    """Return [{"pid", "name", "this_run"}], without this collector, its ancestors and its descendants."""
    runs_of_pids = loaders()
    own_pids = ancestry(os.getpid(), parent_of)
    if set(runs_of_pids) <= own_pids:
        return []
    this_run = runs_of_pids.get(os.getpid())
    return [
        {
            "pid": pid,
            "name": text_of(pid, "comm").decode("utf-8", "replace").strip(),
            "this_run": run is not None and run == this_run,
        }
        for pid, run in sorted(with_descendants(runs_of_pids, own_pids).items())[:MOST]
    ]


def pids_as_text():
    return filter(str.isdigit, os.listdir("/proc"))


def loaders():
    """Return {pid: run, or None for one without a name} of the processes that the loader has started."""
    runs_of_pids = {}
    for number in pids_as_text():
        loader = LOADER.search(text_of(number, "cmdline"))
        if loader:
            runs_of_pids[int(number)] = loader.group(1)
    return runs_of_pids


def ancestry(pid, parent):
    """Return the pids of a process and its ancestors, without init. `parent(pid)` is 0 where there is none."""
    pids = {pid}
    pid = parent(pid)
    while pid > 1 and pid not in pids:
        pids.add(pid)
        pid = parent(pid)
    return pids


def with_descendants(runs_of_pids, own_pids):
    """Return {pid: run} of the processes and their descendants, without our own and our descendants."""
    children = {}
    for number in pids_as_text():
        children.setdefault(parent_of(number), []).append(int(number))
    below(children, os.getpid(), own_pids)
    run_of = {}
    for pid, run in runs_of_pids.items():
        if pid not in own_pids:
            descendants = below(children, pid, set())
            run_of.update((each, run) for each in descendants if each not in own_pids and each not in runs_of_pids)
            run_of[pid] = run
    return run_of


def below(children, pid, pids):
    """Add the descendants of `pid` to `pids`, and return it."""
    generation = [pid]
    while generation:
        generation = [child for parent in generation for child in children.get(parent, ()) if child not in pids]
        pids.update(generation)
    return pids


def parent_of(pid):
    fields = text_of(pid, "stat").rpartition(b") ")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def text_of(pid, name):
    """Return the beginning of a file of /proc/PID; empty where the process has ended or is hidden."""
    try:
        with open("/proc/%s/%s" % (pid, name), "rb") as file:
            return file.read(LINE)
    except OSError:
        return b""
