"""Slurm's scripts on a node, by Slurm's reaction to their exit codes (measured on 22.05.8).

    `Prolog`       1 makes Slurm drain the node and requeue the job. So the gate drains it first, and its reason stays.
    `Epilog`       Anything but 0 drains the node. So it is always 0.
    `TaskProlog`   1 makes this task fail, and nothing else. It runs as the job's user.
    `HealthCheck`  Slurm ignores it. So the gate drains the node itself.

A node is drained only by evidence that it is broken, or by a policy that closes unknown hosts. It is drained only if
preflight has not drained too many already, and if it carries no foreign reason. If Slurm does not answer these
questions, the node stays. A Prolog that failed without asking would empty a cluster on the day that all hosts fail at
once.
"""

import sys
import time

from gate.files import UntrustedError, read_json

PLACE = "/etc/preflight/gate.json"
LIMIT = 256 * 1024  # bytes of the file
SECONDS = 7.5  # for a whole script on a node; the checks of the host may take three of them
AT_MOST = {"nodes": None, "percent": 10}  # limit on drained nodes if gate.json has none


def run(context, decide, environment):
    """Return the exit code. `decide()` returns the GateAnswer (answer.py). Slurm is not called where the node is good:
    then its modules are not loaded either."""
    if context == "controller":
        from gate import slurm_controller

        return slurm_controller.run(environment)
    until = time.monotonic() + SECONDS
    answer = decide()
    if context == "task":
        return task(answer)
    returns = context == "health" and answer.outcome in ("pass", "warn") and rules()["undrain"]
    if context == "epilog" or (answer.open and not returns):
        return 0
    from gate import slurm_drain

    limit = None if returns else rules()["drain"]
    code = slurm_drain.act(context, answer, limit, environment, until)
    return code if context == "prolog" else 0


def rules(place=PLACE, owner=0):
    """Return the limit on drained nodes, and whether a node that is good again is returned to service."""
    try:
        settings = read_json(place, LIMIT, owner) or {}
    except UntrustedError:
        settings = {}
    drain = settings.get("drain")
    return {"drain": drain if isinstance(drain, dict) else AT_MOST, "undrain": settings.get("undrain") is True}


def task(answer):
    """Print the sentence for the task, and return the exit code. A line that begins with "print" goes to the task's
    output."""
    if answer.open:
        return 0
    sys.stdout.write("print preflight: %s\n" % answer.sentence)
    return 1
