"""Decision from policy, verdict and live checks to one answer."""

import collections
import os
import time
from functools import partial

from gate.answer import GateAnswer, reason, unknown_answer, worst
from gate.files import UntrustedError
from gate.jobs import job_devices
from gate.live import CheckedHost, closed_nodes, device_nodes, free_ports, host_nic, leftovers, reserved_ports
from gate.policy import load
from gate.state import own_nics
from gate.verdict import LONGEST, known

MOST = 50  # reasons of an answer
VENDOR_SECONDS = 2.5  # for all calls of hccn_tool together: the report to Slurm takes time, too
LINKS = ("NPU107", "NPU101")  # the checks that start hccn_tool
AGAIN = ("PRT101", *LINKS)  # live checks as thorough as a run: the later result counts
PASSING = ("PRT103", "NPU114")  # a verdict shows these only at its time: a live check counts, or none


# Folder of the host's files, and the user who has to own preflight's. Tests have others.
Files = collections.namedtuple("Files", "root owner")
HOST = Files("/", 0)


def silent(**_):
    """Report no progress."""


def decide(context, environment, say=silent, files=HOST, now=None):
    """Return the answer.

    `say(host=…, opens=…)` is called once the policy is known, and `say(at=…)` with each step that begins. `files` and
    the time `now` are for tests.
    """
    now = time.time() if now is None else now
    host_name = environment.get("SLURMD_NODENAME") or os.uname()[1]
    say(at="the policy")
    try:
        policy, trouble = load(*files)
    except UntrustedError as error:
        return unknown_answer(context, host_name, str(error))
    say(host=policy.host, opens=policy.opens(context), at="the verdict")
    reasons = [reason("gate", "warn", trouble)] if trouble else []
    own_devices = None if context == "health" else job_devices(environment)
    host = CheckedHost(policy, devices_that_count(policy, own_devices), files.root)
    if context == "task":  # the Prolog has checked the host, and may have kept it in service for a reason
        return final_answer(context, policy, reasons + (closed_nodes(host) if own_devices else []), None)
    verdict = known(policy, now, *files)
    reasons += verdict.troubles + adapt_to_container(context, host, own_devices)
    problems = [problem for problem in verdict.problems(now, policy.host) if concerns(problem, own_devices)]
    reasons += current_reasons(context, host, verdict.rebooted, problems, say)
    return final_answer(context, policy, reasons, verdict.age(now))


def devices_that_count(policy, own_devices):
    """Return the policy's devices that are this job's, or all where the job's are not known."""
    return {device for device in policy.devices if own_devices is None or device in own_devices}


def adapt_to_container(context, host, own_devices):
    """Leave out the parts of the host that a container does not see. Return the reasons."""
    if context != "init":
        return []
    host.processes = False  # a container sees its own processes, unless it shares its node's
    if own_devices is None:  # its devices are those passed into it
        host.devices = {device for device in host.devices if os.path.exists(host.path(host.node(device)))}
    if own_nics(host.root):
        return []
    host.network = False
    summary = "this container has its own network, so the host's ports and NIC are not checked"
    return [reason("gate", "warn", summary)]


def current_reasons(context, host, rebooted, problems, say):
    """Return the reasons of the live checks, and the verdict's problems that these have not checked again."""
    links = rebooted or context == "health" or any(problem["check"] in LINKS for problem in problems)
    results = {}
    for check, run_check in live_checks(context, host, links):
        if not host.policy.leaves_out(check):
            say(at=check)
            results[check] = run_check()
    reasons = [entry for entries in results.values() for entry in entries]
    return reasons + [problem for problem in problems if not is_checked_again(problem["check"], results)]


def is_checked_again(check, results):
    """Return whether a live check that is as thorough as a run has a result."""
    return check in AGAIN and check in results and all(entry["outcome"] != "unknown" for entry in results[check])


def live_checks(context, host, links):
    """Yield (id, function) of the live checks for this context."""
    policy = host.policy
    has_devices = policy.product != "cpu" and bool(host.devices)
    checks = (
        ("PRT101", host.network and policy.reserved, reserved_ports),
        ("HST103", host.network and policy.nic, host_nic),
        ("NPU109", has_devices, device_nodes),
        ("PRT103", host.network and policy.free, free_ports),
        ("NPU114", has_devices and context != "health", leftovers),
    )
    for check, applies, run_check in checks:
        if applies:
            yield check, partial(run_check, host)
    if links and has_devices:
        yield from link_checks(host)


def link_checks(host):
    """Yield (id, function) of the checks that start hccn_tool. Only these load the modules for that."""
    if not host.policy.product.startswith("atlas-"):
        return
    from gate import vendor

    until = time.monotonic() + VENDOR_SECONDS
    yield "NPU107", partial(vendor.links, host.devices, until)
    if host.policy.addresses:
        yield "NPU101", partial(vendor.addresses, host.devices, host.policy.addresses, until)


def concerns(problem, own_devices):
    """Return whether a problem of a verdict still counts, and concerns this job."""
    concerns_job = problem["device"] is None or own_devices is None or problem["device"] in own_devices
    return concerns_job and problem["check"] not in PASSING


def final_answer(context, policy, reasons, age):
    entries = []
    for entry in reasons:
        check, outcome, summary = entry["check"], entry["outcome"], entry["summary"][:LONGEST]
        if summary.startswith(policy.host + ": "):  # as reports of many hosts begin
            summary = summary[len(policy.host) + 2 :]
        is_own = check in ("verdict", "gate")
        if not is_own and policy.leaves_out(check):
            continue
        if not is_own and outcome in ("fail", "unknown") and not policy.closes(check):
            outcome, summary = "warn", summary + " (%s, but not required)" % outcome
        entries.append(reason(check[:40], outcome, summary, entry["device"]))
    outcome = worst([entry["outcome"] for entry in entries])
    entries.sort(key=lambda entry: ("fail", "unknown", "warn").index(entry["outcome"]))
    answer = GateAnswer(context, policy.host, outcome, entries[:MOST], policy.opens(context))
    answer.age = age
    return answer
