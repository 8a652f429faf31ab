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

PLACE = "/etc/preflight/gate.json"
LIMIT = 256 * 1024  # bytes of the file
SECONDS = 7.5  # for a whole script on a node; the checks of the host may take three of them
AT_MOST = {"nodes": None, "percent": 10}  # limit on drained nodes if gate.json has none
NEVER_RETURNED = "PRB"  # checks that need other hosts, so that a node alone cannot prove that it is good


def run(context, decide, environment):
    """Return the exit code. `decide()` returns the Answer (answer.py). Slurm is not called where the node is good."""
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
    from gate.slurm_nodes import Scontrol
    from gate.slurm_record import write

    name, scontrol = environment.get("SLURMD_NODENAME", ""), Scontrol(environment, until)
    code, note = taken_back(answer, name, scontrol) if returns else drained(answer, name, scontrol, rules()["drain"])
    if note:  # slurmd's log has the output of a failed Prolog
        sys.stderr.write("preflight: %s; %s\n" % (answer.sentence, note))
        write({"context": context, "job": environment.get("SLURM_JOB_ID", ""), "node": name, "slurm": note})
    return code if context == "prolog" else 0


def rules(place=PLACE, owner=0):
    """Return the limit on drained nodes, and whether a node that is good again is returned to service."""
    from gate.files import NotBelieved, parsed

    try:
        settings = parsed(place, LIMIT, owner) or {}
    except NotBelieved:
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


def drained(answer, name, scontrol, limit):
    """Drain this node, if that is allowed. Return (code, note): 1, or 0 where the node stays in service."""
    from gate import slurm_nodes as slurm

    try:
        nodes = scontrol.nodes()
    except slurm.SlurmError as error:
        return 0, "not drained: %s" % error
    if name not in nodes:
        return 0, "not drained: Slurm knows no node %r" % name
    if nodes[name]:
        description = "is drained already" if slurm.is_ours(nodes[name]) else "left as it is, its reason is not ours"
        return 1, "%s: %s" % (description, nodes[name])
    first = answer.reasons[0] if answer.reasons else {"check": "gate", "summary": answer.sentence}
    refusal = slurm.take_out(scontrol, nodes, [name], slurm.reason(first["check"], first["summary"]), limit)
    return (0, refusal) if refusal else (1, "drained")


def taken_back(answer, name, scontrol):
    """Return the node to service if preflight has drained it, for a fault that the node itself can see and that is
    gone."""
    from gate import slurm_nodes as slurm

    try:
        reason = scontrol.nodes(name).get(name, "")
        check = slurm.check_of(reason)
        checks_left = {reason_left["check"] for reason_left in answer.reasons}
        if not check or check.startswith(NEVER_RETURNED) or check in checks_left:
            return 0, ""
        scontrol.undrain([name])
    except slurm.SlurmError as error:
        return 0, "not taken back: %s" % error
    return 0, "good again, and given back; it was drained by: %s" % reason
