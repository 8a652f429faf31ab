"""What the agent's children do, from their fork to their end. None of them ever returns into the agent's code."""

import json
import os
import signal
import sys

from agent.processes import mark
from agent.settle import settle
from worker.meeting import serve_store
from worker.rank import run as be_rank

TEXT = 2000  # characters kept of an error


def describe(error):
    return ("%s: %s" % (type(error).__name__, error))[:TEXT]


def fork(name, let_go, pgid=0):
    """Fork into process group `pgid` (0: a new one): (pid, report, output, order) here, (0, report, order) in the
    child, which keeps nothing of the agent, neither its channel nor the pipes of other workers: `let_go` closes them.
    """
    report, tell = os.pipe()
    output, printed = os.pipe()
    hear, order = os.pipe()
    agent, pid = os.getpid(), os.fork()
    if pid:
        for fd in (tell, printed, hear):
            os.close(fd)
        try:
            os.setpgid(pid, pgid or pid)
        except OSError:
            pass  # it was faster
        return pid, report, output, order
    woken = signal.set_wakeup_fd(-1)
    if woken != -1:
        os.close(woken)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, pgid)
    mark(name, agent)
    let_go()
    for fd in (report, output, order):
        os.close(fd)
    null = os.open(os.devnull, os.O_RDONLY)
    for fd, place in ((null, 0), (printed, 1), (printed, 2)):
        os.dup2(fd, place)
    os.close(null)
    os.close(printed)
    return 0, tell, hear


def be_store(address, sock, report):
    """Serve the place where ranks meet, for as long as the agent lives."""
    try:
        keep = serve_store(address, sock)
        os.write(report, b"+")
        while keep:
            signal.pause()
    except BaseException as error:
        os.write(report, describe(error).encode())
    os._exit(1)


def be_worker(spec, environment, report, order):
    """Be a rank. Its environment, which `environment` returns, is set before anything of the vendor's is imported."""

    def say(event):
        os.write(report, json.dumps(event).encode() + b"\n")

    def wait_for_go():
        if spec["wait"] and not os.read(order, 1):
            os._exit(1)

    status = 1
    try:
        try:
            share_cores(spec["crowded"])
            os.environ.update(environment())
            os.environ.update(MASTER_ADDR=spec["store"][0], MASTER_PORT=str(spec["store"][1]))
            os.environ.update(RANK=str(spec["rank"]), WORLD_SIZE=str(spec["size"]), LOCAL_RANK=str(spec["device"]))
            be_rank(spec, say, wait_for_go)
            status = 0
        except BaseException as error:
            say({"at": "error", "error": describe(error)})
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Nor may what it has forked get back there, though nobody listens to it. The end frees the device.
        os._exit(status)


def share_cores(crowded):
    """Where ranks share cores, whoever gets a piece of data does not push its sender off the core: else every step of a
    ring costs several switches between processes, and small collectives take twice as long."""
    if crowded:
        try:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except OSError:
            pass  # a container may forbid it: slower, and as right


def be_waiting(devices, report):
    """Say when the devices' last jobs are gone."""
    try:
        held, error = settle(devices)
        os.write(report, json.dumps({"at": "settled", "held": held, "error": error}).encode())
    finally:
        os._exit(0)
