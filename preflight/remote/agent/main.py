"""The probe's agent: one a host, alive as long as its stdin. Starts workers, watches them, kills them in time.

stdin: a line of JSON, the hello, then one line a command. stdout: one line of JSON an event, each with the run's
nonce, so that nothing a login script or a library prints can pass for one. End-of-file on stdin ends the agent and
everything it started. The modules of this package are sent together, as text, and run by any Python from 3.6; the
workers' own text comes inside the hello.

The agent has one thread and forks: torch is imported before, once, and never used in this process.

Commands: start (a group of workers), go (it is the group's turn to run a test), stop (kill the group), settle (say when
devices whose workers were killed are free again), end.
Events: ready, failed, stage, enter and result (of a test), end (of a worker), settled.
"""

import json
import os
import sys
import time
import types

from agent.agent import Agent, describe, line_of
from agent.processes import mark, outlive_parent

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
    # Nothing is sent after the hello before the agent is ready, so that Python's buffer holds no more than this line.
    hello = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not ours
    # The import of torch may take long, or hang, and nobody reads stdin meanwhile: until then the kernel ends the agent
    # together with its ssh session.
    mark("preflight-agent", os.getppid())
    os.environ.update(ENVIRONMENT)

    def say(event):
        os.write(out, line_of(event, hello["nonce"]))

    stage, begin = "spawned", time.monotonic()
    try:
        worker_module = types.ModuleType("preflight_worker")
        exec(compile(hello["worker"], "preflight_worker", "exec"), worker_module.__dict__)
        versions = worker_module.prepare()
        stage = "torch"
        agent = Agent(hello, out, worker_module)
        port = agent.serve_store()
    except BaseException as error:
        say({"at": "failed", "stage": stage, "error": describe(error)})
        os._exit(1)
    seconds = time.monotonic() - begin
    variables = {name: os.environ[name][:100] for name in hello["variables"] if name in os.environ}
    ready = {"nic": agent.nic, "address": agent.address, "store": port, "cores": os.cpu_count(), "seconds": seconds}
    say(dict(ready, at="ready", variables=variables, **versions))
    outlive_parent()  # from here on the agent sees the end of stdin itself, and ends what it started
    try:
        agent.serve()
    except BrokenPipeError:
        agent.end()
