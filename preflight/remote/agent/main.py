"""The probe's agent: one a host, alive as long as its stdin. Starts workers, watches them, kills them in time.

stdin: a line of JSON, the hello, the line "go" once the job's ports may be bound, then one line a command; empty lines
anywhere, as signs of life. stdout: one line of JSON an event, each with the run's nonce, so that nothing a login script
or a library prints can pass for one. End-of-file on stdin ends the agent and everything it started. The modules of this
package and of the workers' are sent together, as text, and run by any Python from 3.6.

The agent has one thread and forks: torch is imported before, once, and never used in this process.

An end that never gets here, from a wrapper that forwards none or a machine without power, is noticed, too: the
controller sends an empty line every few seconds, and an agent that hears nothing for `silence` of them ends itself.
What is left after all is found by the next agent of the same user (agent.lease).

Commands: start (a group of workers), go (it is the group's turn to run a test), stop (kill the group), settle (say when
devices whose workers were killed are free again), end.
Events: python (it runs), note (something to tell the user), ready, failed, stage, enter and result (of a test), killed
(a worker got SIGKILL), end (of a worker), settled.
"""

import json
import os
import signal
import sys
import time

from agent.agent import Agent, line_of
from agent.children import describe
from agent.lease import HostBusyError, Lease
from agent.processes import adopt_orphans, mark, outlive_parent
from agent.settle import settle

# Set before torch is imported. torch_npu does not survive a fork, so torch must not load it by itself; thread pools do
# not either. torch's warnings would be taken for the last words of a rank that died.
ENVIRONMENT = {
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def main():
    # But for empty lines, nothing comes after the go-ahead before the agent is ready: Python's buffer holds no command.
    hello = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not ours
    # Nobody reads stdin before the agent is ready: until then it ends when its ssh session does, or else by the alarm,
    # even where an import hangs.
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
        leaving = take(lease, hello, say)
        from worker.rank import prepare

        versions = prepare(hello["trains"])
        stage = "torch"
        for pid in leaving:
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
    outlive_parent()  # from here on the agent sees the end of stdin itself, and ends what it started
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


def take(lease, hello, say):
    """Take the lease and tell what became of others'; returns the pids of children to be waited for: they see to it
    that the devices of agents that had to be ended are free."""
    try:
        ended = lease.take()
    except OSError as error:
        say({"at": "note", "text": "no record of this probe is kept here, in case that it crashes: %s" % error})
        return []
    for record in ended:
        say({"at": "note", "text": "ended what a probe had left here: %s" % record})
    if not ended or hello["backend"] != "hccl":
        return []
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        mark("preflight-wait", parent)
        settle(hello["devices"])
        os._exit(0)
    return [pid]
