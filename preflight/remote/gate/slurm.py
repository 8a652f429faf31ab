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

from gate import slurm_nodes as slurm

NEVER_RETURNED = "PRB"  # reasons of these checks: they need other hosts, so a node alone cannot say that it is good


def run(context, decide, environment):
    """The exit code. `decide()` gives the Answer (answer.py)."""
    if context == "controller":
        from gate import slurm_controller

        return slurm_controller.run(environment)
    answer = decide()
    if context == "task":
        return task(answer)
    if context == "epilog":
        return 0
    from gate.policy import slurm_rules

    rules = slurm_rules()
    name = environment.get("SLURMD_NODENAME", "")
    scontrol = slurm.Scontrol(environment)
    if context == "health":
        code, note = health(answer, name, scontrol, rules)
    else:
        code, note = prolog(answer, name, scontrol, rules["drain"])
    if note:
        tell(answer, note)
    return code


def prolog(answer, name, scontrol, limit):
    """(exit code, what to tell): 1 where the job must not start here."""
    return (0, "") if answer.open else drained(answer, name, scontrol, limit)


def drained(answer, name, scontrol, limit):
    """Drain this node, if that may be. (1, or 0 where it stays in service; what to tell)"""
    try:
        nodes = scontrol.nodes()
        if name not in nodes:
            return 0, "not drained: Slurm knows no node %r" % name
        if slurm.is_ours(nodes[name]):
            return 1, "is drained already: %s" % nodes[name]
        if nodes[name]:
            return 1, "left as it is, it has a reason that is not ours: %s" % nodes[name]
    except slurm.SlurmError as error:
        return 0, "not drained: %s" % error
    first = answer.reasons[0] if answer.reasons else {"check": "", "summary": answer.sentence}
    try:
        why = slurm.take_out(scontrol, nodes, [name], slurm.reason(first["check"], first["summary"]), limit)
    except slurm.SlurmError as error:
        return 1, "drained, as far as Slurm has said: %s" % error
    return (0, why) if why else (1, "drained")


def task(answer):
    """What it prints goes to the task: a line that begins with "print" to its output."""
    if answer.open:
        return 0
    sys.stdout.write("print preflight: %s\n" % answer.sentence)
    return 1


def health(answer, name, scontrol, rules):
    if not answer.open:
        return 0, drained(answer, name, scontrol, rules["drain"])[1]
    if not (rules["undrain"] and answer.outcome == "pass"):
        return 0, ""
    try:
        reason = scontrol.nodes(name).get(name, "")
        check = reason[len(slurm.MARK) :].strip()
        if not slurm.is_ours(reason) or check.startswith(NEVER_RETURNED):
            return 0, ""
        scontrol.undrain([name])
    except slurm.SlurmError as error:
        return 0, "not taken back: %s" % error
    return 0, "is good again, its drain was taken back: %s" % reason


def tell(answer, note):
    """slurmd's log has what a script that failed has said, the gate's own record all."""
    sys.stderr.write("preflight: %s; %s\n" % (answer.sentence, note))
    from gate.record import note as write

    write(answer, note)
