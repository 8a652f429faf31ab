"""The probe's agent: one for each host, alive as long as its stdin. It starts workers, watches them and kills them in
time.

Stdin has one line of JSON (the hello), the line "go" once the job's ports may be bound, then one line for each command.
Empty lines anywhere are signs of life. Stdout has one line of JSON for each event. Each has the run's nonce, so that no
output of a login script or a library can pass for an event. End-of-file on stdin ends the agent and everything it
started. The modules of this package and of the workers' package are sent together, as text, and run by any Python from
3.6.

The agent has one thread and forks: torch is imported before, once, and never used in this process.

The end-of-file may never arrive, from a wrapper that forwards none or a machine without power. So the controller sends
an empty line every few seconds, and an agent that reads nothing for `silence` seconds ends itself. An agent that is
left even so is found by the next agent of the same user (agent.lease).

Commands:

- start: start a group of workers.
- go: let the group run its next test.
- stop: kill the group.
- settle: report when devices of killed workers are free again.
- end: end the agent.

Events:

- python: the agent runs.
- note: a message for the user.
- ready, failed: the agent has started, or has failed to start.
- stage: a worker has reached a stage.
- enter, result: the start and the result of a test.
- waits: a worker waits for missing ranks.
- killed: a worker got SIGKILL.
- end: a worker has ended.
- settled: devices are free again, or still held.
"""

import json
import os
import signal
import sys
import time

from agent.events import describe, line_of
from agent.lease import HostBusyError, Lease
from agent.processes import adopt_orphans, mark, outlive_parent
from agent.settle import settle
from worker.torch_import import import_torch

# Set before torch is imported. Neither torch_npu nor thread pools survive a fork, so torch must not load torch_npu by
# itself. Warnings of torch would be taken for the error message of a rank that died.
ENVIRONMENT = {
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def main():
    # Only empty lines come after the go-ahead until the agent is ready, so Python's buffer holds no command.
    hello = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    out = os.dup(1)
    os.dup2(2, 1)  # output of libraries is no event
    # The agent reads no stdin before it is ready. Until then it ends with its ssh session, or else by the alarm, even
    # where an import hangs.
    mark("preflight-agent", os.getppid())
    signal.alarm(int(hello["patience"]))
    os.environ.update(ENVIRONMENT)

    def say(event):
        os.write(out, line_of(event, hello["nonce"]))

    say({"at": "python"})
    stage, begin = "python", time.monotonic()
    lease = None
    try:
        lease = Lease(hello)
        waiting_pids = take_lease(lease, hello, say)
        versions = import_torch(hello["trains"])
        from agent.agent import Agent  # imports the workers' modules, and those use torch

        stage = "torch"
        for pid in waiting_pids:
            os.waitpid(pid, 0)
        await_go_ahead()
        agent = Agent(hello, out, lease)
        port = agent.serve_store()
    except BaseException as error:
        if lease:
            lease.give_back()
        busy = isinstance(error, HostBusyError)
        say({"at": "failed", "stage": stage, "error": str(error) if busy else describe(error), "busy": busy})
        os._exit(1)
    seconds = time.monotonic() - begin
    variables = {name: os.environ[name][:100] for name in hello["variables"] if name in os.environ}
    ready = {"nic": agent.nic, "address": agent.address, "store": port, "cores": os.cpu_count(), "seconds": seconds}
    say(dict(ready, at="ready", variables=variables, **versions))
    lease.renew()
    adopt_orphans()
    outlive_parent()  # from here on the agent notices the end of stdin itself, and ends everything it started
    try:
        agent.serve()
    except BrokenPipeError:
        agent.end()


def await_go_ahead():
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            os._exit(0)  # the controller is gone
        if line.strip():
            return


def take_lease(lease, hello, say):
    """Take the lease, and report the agents of other runs that were ended for it.

    Return the pids of children to wait for. They make sure that the devices of the ended agents are free.
    """
    try:
        ended = lease.take()
    except OSError as error:
        say(
            {
                "at": "note",
                "text": "cannot store the record of this probe, which the next probe needs after a crash: %s" % error,
            }
        )
        return []
    for record in ended:
        say({"at": "note", "text": "ended processes that an earlier probe left behind: %s" % record})
    if not ended or hello["backend"] != "hccl":
        return []
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        mark("preflight-wait", parent)
        settle(hello["devices"])
        os._exit(0)
    return [pid]
