"""Decision from policy, verdict and live checks to one answer."""

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
VENDOR_SECONDS = 2.5  # for all calls of hccn_tool together: the report to Slurm takes time, too
LINKS = ("NPU107", "NPU101")  # the checks that start hccn_tool
AGAIN = ("PRT101", *LINKS)  # live checks as thorough as a run: the later result counts
PASSING = ("PRT103", "NPU114")  # a verdict shows these only at its time: a live check counts, or none


def decide(context, environment, say=None, root="/", owner=0, now=None):
    """Return the answer.

    `say(host=…, opens=…)` is called once the policy is known, and `say(at=…)` with each step that begins. For tests:
    `root` is the folder of the host's files, `owner` has to own preflight's, and `now` is the time.
    """
    now = time.time() if now is None else now
    say = say or (lambda **_: None)
    host_name = environment.get("SLURMD_NODENAME") or os.uname()[1]
    say(at="the policy")
    try:
        policy, trouble = load(root, owner)
    except NotBelieved as error:
        return nobody_knows(context, host_name, str(error))
    say(host=policy.host, opens=policy.opens(context), at="the verdict")
    reasons = [reason("gate", "warn", trouble)] if trouble else []
    own_devices = None if context == "health" else job_devices(environment)
    devices = {device for device in policy.devices if own_devices is None or device in own_devices}
    host = Host(policy, devices, root)
    if context == "task":  # the Prolog has checked the host, and may have kept it in service for a reason
        return summed_up(context, policy, reasons + (closed_nodes(host) if own_devices else []), None)
    verdict = known(policy, now, root, owner)
    reasons += verdict.troubles
    if context == "init" and own_devices is None:  # a container's devices are those passed into it
        host.devices = {device for device in devices if os.path.exists(host.path(host.node(device)))}
    problems = [problem for problem in verdict.problems(now, policy.host) if counts(problem, own_devices)]
    host.processes = context != "init"  # a container sees its own processes, unless it shares its node's
    if context == "init" and not own_nics(root):
        host.network = False
        summary = "this container has a network of its own: the host's ports and NIC are not looked at"
        reasons.append(reason("gate", "warn", summary))
    links = verdict.rebooted or context == "health" or any(problem["check"] in LINKS for problem in problems)
    for check, look in looks(context, host, links):
        if not policy.leaves_out(check):
            say(at=check)
            results = look()
            reasons += results
            if check in AGAIN and all(problem["outcome"] != "unknown" for problem in results):
                problems = [problem for problem in problems if problem["check"] != check]
    reasons += problems
    return summed_up(context, policy, reasons, verdict.age(now))


def looks(context, host, links):
    """Yield (id, function) of the live checks for this context."""
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
    """Return whether a problem of a verdict still counts, and concerns this job."""
    concerns_job = problem["device"] is None or mine is None or problem["device"] in mine
    return concerns_job and problem["check"] not in PASSING


def summed_up(context, policy, reasons, age):
    entries = []
    for entry in reasons:
        check, outcome, summary = entry["check"], entry["outcome"], entry["summary"][:LONGEST]
        if summary.startswith(policy.host + ": "):  # as reports of many hosts begin
            summary = summary[len(policy.host) + 2 :]
        is_own = check in ("verdict", "gate")
        if not is_own and policy.leaves_out(check):
            continue
        if not is_own and outcome in ("fail", "unknown") and not policy.closes(check):
            outcome, summary = "warn", summary + " (%s, and not required)" % outcome
        entries.append(reason(check[:40], outcome, summary, entry["device"]))
    outcome = worst([entry["outcome"] for entry in entries])
    entries.sort(key=lambda entry: ("fail", "unknown", "warn").index(entry["outcome"]))
    return Answer(context, policy.host, outcome, entries[:MOST], policy.opens(context), age)
