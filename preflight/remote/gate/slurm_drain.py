"""Draining of the own node, and its return to service."""

import sys

from gate import slurm_nodes, slurm_record

NEVER_RETURNED = "PRB"  # checks that need other hosts, so that a node alone cannot prove that it is good


def act(context, answer, limit, environment, until):
    """Drain this node, or return it to service where there is no `limit` of drained nodes. Return the exit code."""
    name, scontrol = environment.get("SLURMD_NODENAME", ""), slurm_nodes.Scontrol(environment, until)
    code, note = undrain(answer, name, scontrol) if limit is None else drain(answer, name, scontrol, limit)
    if note:  # slurmd's log has the output of a failed Prolog
        sys.stderr.write("preflight: %s. %s\n" % (answer.sentence, note))
        job = environment.get("SLURM_JOB_ID", "")
        slurm_record.write({"context": context, "job": job, "node": name, "slurm": note})
    return code


def drain(answer, name, scontrol, limit):
    """Drain this node, if that is allowed. Return (code, note): 1, or 0 where the node stays in service."""
    try:
        nodes = scontrol.nodes()
    except slurm_nodes.SlurmError as error:
        return 0, "not drained: %s" % error
    if name not in nodes:
        return 0, "not drained: Slurm has no node %r" % name
    if nodes[name]:
        is_ours = slurm_nodes.is_ours(nodes[name])
        description = "already drained" if is_ours else "left alone, because the drain reason is not preflight's"
        return 1, "%s: %s" % (description, nodes[name])
    first = answer.reasons[0] if answer.reasons else {"check": "gate", "summary": answer.sentence}
    reason = slurm_nodes.reason(first["check"], first["summary"])
    refusal = slurm_nodes.take_out(scontrol, nodes, [name], reason, limit)
    return (0, refusal) if refusal else (1, "drained")


def undrain(answer, name, scontrol):
    """Return the node to service if preflight has drained it, for a fault that the node itself can see and that is
    gone."""
    try:
        reason = scontrol.nodes(name).get(name, "")
        check = slurm_nodes.check_of(reason)
        checks_left = {reason_left["check"] for reason_left in answer.reasons}
        if not check or check.startswith(NEVER_RETURNED) or check in checks_left:
            return 0, ""
        scontrol.undrain([name])
    except slurm_nodes.SlurmError as error:
        return 0, "could not be returned to service: %s" % error
    return 0, "healthy again and returned to service. It was drained with the reason: %s" % reason
