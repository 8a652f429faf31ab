"""From policy, verdict and live checks to one answer."""

import os
import time

from gate.answer import Answer, nobody_knows, reason, worst
from gate.files import NotBelieved
from gate.jobs import job_devices
from gate.live import Host, closed_nodes, device_nodes, free_ports, host_nic, leftovers, reserved_ports
from gate.policy import load
from gate.state import own_nics
from gate.verdict import LONGEST, known

MOST = 50  # reasons of an answer
VENDOR_SECONDS = 2.5  # for all calls of hccn_tool together: what Slurm is then to be told takes time, too
LINKS = ("NPU107", "NPU101")  # what hccn_tool is started for
AGAIN = ("PRT101", *LINKS)  # what the live checks look at as thoroughly as a look does: the later one counts
PASSING = ("PRT103", "NPU114")  # what a verdict says of these was so at that time, and is looked at again or not at all


def decide(context, environment, say=None, root="/", owner=0, now=None):
    """The answer. `say(host=…, opens=…)` is called once the policy is known, `say(at=…)` with what is looked at; for
    tests: `root`, where the host's files stand, `owner`, who has to own preflight's, and the time."""
    now = time.time() if now is None else now
    say = say or (lambda **_: None)
    here = environment.get("SLURMD_NODENAME") or os.uname()[1]
    say(at="the policy")
    try:
        policy, trouble = load(root, owner)
    except NotBelieved as error:
        return nobody_knows(context, here, str(error))
    say(host=policy.host, opens=policy.opens(context), at="the verdict")
    reasons = [reason("gate", "warn", trouble)] if trouble else []
    mine = None if context == "health" else job_devices(environment)
    devices = {device for device in policy.devices if mine is None or device in mine}
    host = Host(policy, devices, root)
    if context == "task":  # the Prolog has judged the host, and may have kept it in service for a reason
        return summed_up(context, policy, reasons + (closed_nodes(host) if mine else []), None)
    verdict = known(policy, now, root, owner)
    reasons += verdict.troubles
    if context == "init" and mine is None:  # a container's devices are those that it was given
        host.devices = {device for device in devices if os.path.exists(host.path(host.node(device)))}
    problems = [one for one in verdict.problems(now, policy.host) if counts(one, mine)]
    host.processes = context != "init"  # a container sees its own, unless it has its node's
    if context == "init" and not own_nics(root):
        host.network = False
        words = "this container has a network of its own: the host's ports and NIC are not looked at"
        reasons.append(reason("gate", "warn", words))
    links = verdict.rebooted or context == "health" or any(one["check"] in LINKS for one in problems)
    for check, look in looks(context, host, links):
        if not policy.leaves_out(check):
            say(at=check)
            found = look()
            reasons += found
            if check in AGAIN and all(one["outcome"] != "unknown" for one in found):
                problems = [one for one in problems if one["check"] != check]
    reasons += problems
    return summed_up(context, policy, reasons, verdict.age(now))


def looks(context, host, links):
    """(id, what looks) of the live checks that this context has."""
    policy = host.policy
    if policy.reserved and host.network:
        yield "PRT101", lambda: reserved_ports(host)
    if policy.nic and host.network:
        yield "HST103", lambda: host_nic(host)
    if policy.product != "cpu" and host.devices:
        yield "NPU109", lambda: device_nodes(host)
    if policy.free and host.network:
        yield "PRT103", lambda: free_ports(host)
    if policy.product != "cpu" and host.devices and context != "health":
        yield "NPU114", lambda: leftovers(host)
    if policy.product.startswith("atlas-") and host.devices and links:
        from gate import vendor

        until = time.monotonic() + VENDOR_SECONDS
        yield "NPU107", lambda: vendor.links(host.devices, until)
        if policy.addresses:
            yield "NPU101", lambda: vendor.addresses(host.devices, policy.addresses, until)


def counts(problem, mine):
    """Whether a problem of a verdict is none of a moment, and of this job."""
    about = problem["device"] is None or mine is None or problem["device"] in mine
    return about and problem["check"] not in PASSING


def summed_up(context, policy, reasons, age):
    judged = []
    for one in reasons:
        check, outcome, summary = one["check"], one["outcome"], one["summary"][:LONGEST]
        if summary.startswith(policy.host + ": "):  # as reports of many hosts begin
            summary = summary[len(policy.host) + 2 :]
        own = check in ("verdict", "gate")
        if not own and policy.leaves_out(check):
            continue
        if not own and outcome in ("fail", "unknown") and not policy.closes(check):
            outcome, summary = "warn", summary + " (%s, and not required)" % outcome
        judged.append(reason(check[:40], outcome, summary, one["device"]))
    outcome = worst([one["outcome"] for one in judged])
    judged.sort(key=lambda one: ("fail", "unknown", "warn").index(one["outcome"]))
    return Answer(context, policy.host, outcome, judged[:MOST], policy.opens(context), age)
