"""The agent's children, from their fork to their end. No child ever returns into the agent's code."""

import json
import os
import signal
import sys

from agent.events import describe
from agent.processes import mark
from agent.settle import settle
from worker.meeting import serve_store
from worker.rank import run as be_rank


def fork(name, let_go, pgid=0):
    """Fork a child into process group `pgid` (0: a new group).

    Return (pid, report, output, order) in the agent, and (0, report, order) in the child. The child keeps nothing of
    the agent, neither its channel nor the pipes of other workers: `let_go` closes them.
    """
    report, report_end = os.pipe()
    output, output_end = os.pipe()
    order_end, order = os.pipe()
    agent, pid = os.getpid(), os.fork()
    if pid:
        for fd in (report_end, output_end, order_end):
            os.close(fd)
        try:
            os.setpgid(pid, pgid or pid)
        except OSError:
            pass  # the child was faster
        return pid, report, output, order
    wakeup_fd = signal.set_wakeup_fd(-1)
    if wakeup_fd != -1:
        os.close(wakeup_fd)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, pgid)
    mark(name, agent)
    let_go()
    for fd in (report, output, order):
        os.close(fd)
    null = os.open(os.devnull, os.O_RDONLY)
    for fd, place in ((null, 0), (output_end, 1), (output_end, 2)):
        os.dup2(fd, place)
    os.close(null)
    os.close(output_end)
    return 0, report_end, order_end


def be_store(address, sock, report):
    """Serve the ranks' meeting place for as long as the agent lives."""
    try:
        store = serve_store(address, sock)
        os.write(report, b"+")
        while store:
            signal.pause()
    except BaseException as error:
        os.write(report, describe(error).encode())
    os._exit(1)


def be_worker(spec, environment, report, order):
    """Run as a rank. Its environment, which `environment` returns, is set before any of the vendor's libraries is
    imported."""

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
        # Processes that the worker has forked must not return there either, though their reports are not read. The end
        # frees the device.
        os._exit(status)


def share_cores(crowded):
    """Keep receivers from pushing their senders off the core, where ranks share cores.

    Otherwise every step of a ring costs several switches between processes, and small collectives take twice as long.
    """
    if crowded:
        try:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except OSError:
            pass  # a container may forbid it: slower, but correct


def be_waiting(devices, report):
    """Report when the devices' last jobs are gone."""
    try:
        held, error = settle(devices)
        os.write(report, json.dumps({"at": "settled", "held": held, "error": error}).encode())
    finally:
        os._exit(0)
