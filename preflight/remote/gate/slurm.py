"""Slurm's scripts on a node, by what Slurm does with their exit codes (measured on 22.05.8).

Prolog         1: Slurm drains the node and requeues the job; so the gate drains it first, with its reason, which stays
Epilog         anything but 0 drains the node; so always 0
TaskProlog     1: this task fails, and nothing else; runs as the job's user
HealthCheck    nobody looks at it; so the gate drains by itself

A node is drained only by evidence that it is broken (or by a policy that closes what is unknown), only where
preflight has not drained too many already, and only if it carries nobody else's reason. Where Slurm cannot be asked
that, the node stays: a Prolog that failed without asking would empty a cluster on the day that all hosts fail at once.
"""

import sys
import time

PLACE = "/etc/preflight/gate.json"
LIMIT = 256 * 1024  # bytes of it
SECONDS = 7.5  # of all that a script on a node takes; who looks at the host may have taken three of them
AT_MOST = {"nodes": None, "percent": 10}  # where gate.json does not say how many nodes may be out
NEVER_RETURNED = "PRB"  # reasons of these checks: they need other hosts, so a node alone cannot say that it is good


def run(context, decide, environment):
    """The exit code. `decide()` gives the Answer (answer.py). Slurm is asked nothing where the node is good."""
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
    if note:  # slurmd's log has what a Prolog that failed has said
        sys.stderr.write("preflight: %s; %s\n" % (answer.sentence, note))
        write({"context": context, "job": environment.get("SLURM_JOB_ID", ""), "node": name, "slurm": note})
    return code if context == "prolog" else 0


def rules(place=PLACE, owner=0):
    """How many nodes may be out, and whether one that is good again is given back."""
    from gate.files import NotBelieved, parsed

    try:
        found = parsed(place, LIMIT, owner) or {}
    except NotBelieved:
        found = {}
    drain = found.get("drain")
    return {"drain": drain if isinstance(drain, dict) else AT_MOST, "undrain": found.get("undrain") is True}


def task(answer):
    """What it prints goes to the task: a line that begins with "print" to its output."""
    if answer.open:
        return 0
    sys.stdout.write("print preflight: %s\n" % answer.sentence)
    return 1


def drained(answer, name, scontrol, limit):
    """Drain this node, if that may be. (1, or 0 where it stays in service; what to tell)"""
    from gate import slurm_nodes as slurm

    try:
        nodes = scontrol.nodes()
    except slurm.SlurmError as error:
        return 0, "not drained: %s" % error
    if name not in nodes:
        return 0, "not drained: Slurm knows no node %r" % name
    if nodes[name]:
        ours = "is drained already" if slurm.is_ours(nodes[name]) else "left as it is, its reason is not ours"
        return 1, "%s: %s" % (ours, nodes[name])
    first = answer.reasons[0] if answer.reasons else {"check": "gate", "summary": answer.sentence}
    why = slurm.take_out(scontrol, nodes, [name], slurm.reason(first["check"], first["summary"]), limit)
    return (0, why) if why else (1, "drained")


def taken_back(answer, name, scontrol):
    """Give the node back, if preflight has drained it, and for what it can see by itself and sees no trace of now."""
    from gate import slurm_nodes as slurm

    try:
        reason = scontrol.nodes(name).get(name, "")
        check = slurm.check_of(reason)
        still = {one["check"] for one in answer.reasons}
        if not check or check.startswith(NEVER_RETURNED) or check in still:
            return 0, ""
        scontrol.undrain([name])
    except slurm.SlurmError as error:
        return 0, "not taken back: %s" % error
    return 0, "good again, and given back; it was drained by: %s" % reason
