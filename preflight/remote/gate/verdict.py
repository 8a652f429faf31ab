"""Verdict of check and probe on this host, /var/lib/preflight/verdict.json, and its validity."""

import json
import os

from gate.answer import FOUND, reason, span
from gate.files import UntrustedError, is_number, read_json
from gate.state import sha256, state, text

PLACE = "var/lib/preflight/verdict.json"
LIMIT = 1024 * 1024  # bytes
CLOCKS = 300  # seconds by which the writing machine's clock may be ahead of this host's
AGAIN = {"check": "preflight check --publish", "probe": "preflight probe --publish"}
CLEAR = "preflight gate clear --limit %s"
LONGEST = 300  # characters of a summary
OUTCOMES = ("pass", "warn", "fail", "unknown")


class HostVerdict:
    """Valid parts of a verdict.

    `looks`     {"check" or "probe": LOOK} of this host that are fresh, and of the running driver.
    `troubles`  Reasons of an unknown outcome.
    `rebooted`  True if the host has booted since it was checked, or was not checked at all.
    `failed`    {"check" or "probe": LOOK} that are outdated and failed. Their failures count until a newer run
                replaces them, or an operator clears them.
    """

    def __init__(self, looks, troubles, rebooted, failed):
        self.looks = looks
        self.troubles = troubles
        self.rebooted = rebooted
        self.failed = failed

    def age(self, now):
        """Return the seconds since the oldest run that counts, None where none does."""
        looks = (*self.looks.values(), *self.failed.values())
        return max((since(look, now) for look in looks), default=None)

    def problems(self, now, host):
        """Return the problems that count; a failure says how old it is, and which command clears it."""
        problems = [with_age(problem, look, now, host) for look in self.looks.values() for problem in of_look(look)]
        old = [with_age(problem, look, now, host) for look in self.failed.values() for problem in of_look(look)]
        return problems + [problem for problem in old if problem["outcome"] == "fail"]


def known(policy, now, root="/", owner=0):
    try:
        looks_read, trouble = load_any(policy, root, owner)
    except UntrustedError as error:
        return HostVerdict({}, [reason("verdict", "unknown", str(error))], True, {})
    if trouble:
        return HostVerdict({}, [reason("verdict", "unknown", trouble)], True, failures(looks_read))
    state_now = state(root)
    fresh_runs, failed_runs, troubles = by_age(policy, looks_read, now, state_now)
    troubles += missing(policy, looks_read)
    check_run = fresh_runs.get("check")
    rebooted = check_run is None or check_run["state"]["boot"] != state_now["boot"]
    if check_run and not rebooted:
        troubles += carriers(check_run["state"]["nics"], state_now["nics"])
    return HostVerdict(fresh_runs, troubles, rebooted, failed_runs)


def by_age(policy, looks, now, state_now):
    """Return (runs that are fresh, outdated runs that failed, reasons for outdated runs that are required)."""
    fresh_runs, failed_runs, troubles = {}, {}, []
    limits = {"check": policy.max_age, "probe": policy.probe_max_age}
    for name, look in sorted(looks.items()):
        trouble = outdated(name, look, limits[name], now, state_now)
        if not trouble:
            fresh_runs[name] = look
            continue
        if look["outcome"] == "fail":
            failed_runs[name] = look
        if name == "check" or policy.need_probe:
            troubles.append(reason("verdict", "unknown", "%s. Run %s" % (trouble, AGAIN[name])))
    return fresh_runs, failed_runs, troubles


def missing(policy, looks):
    """Return a reason for each required run that is not in the verdict."""
    required_runs = ("check", "probe") if policy.need_probe else ("check",)
    return [
        reason("verdict", "unknown", "no %s of this host is published. Run %s" % (name, AGAIN[name]))
        for name in required_runs
        if name not in looks
    ]


def of_look(look):
    """Return the problems of a run, or its outcome itself where no problem accounts for it."""
    problems = [problem for problem in look["problems"] if problem["outcome"] != "pass"]
    if look["outcome"] in ("fail", "unknown") and all(problem["outcome"] != look["outcome"] for problem in problems):
        problems.append(reason("verdict", look["outcome"], "run %s reported this without a reason" % look.get("run")))
    return problems


def since(look, now):
    return max(0, int(now - look["time"]))


def with_age(problem, look, now, host):
    if problem["outcome"] != "fail":
        return problem
    age = FOUND + "%s ago. Once fixed, run %s)" % (span(since(look, now)), CLEAR % host)
    return dict(problem, summary=problem["summary"][: LONGEST - len(age)] + age)


def failures(looks):
    """Return the runs that failed, which count even if the inventory has changed since."""
    return {name: look for name, look in looks.items() if look["outcome"] == "fail"}


def load_any(policy, root="/", owner=0):
    """Return {"check" or "probe": LOOK} of an intact verdict of this host, and the reason why no pass of it counts. The
    reason is "" if the verdict is of the host as it is configured. Raise UntrustedError."""
    path = os.path.join(root, PLACE)
    remedy = AGAIN["check"]
    verdict = read_json(path, LIMIT, owner)
    if verdict is None:
        raise UntrustedError("no result is published on this host. Run %s" % remedy)
    if verdict.pop("sha256", None) != digest(verdict):
        raise UntrustedError("%s is damaged: wrong checksum. Run %s" % (path, remedy))
    refuse_foreign(verdict, policy.host, text(root, "etc/machine-id"), path)
    looks = verdict.get("looks")
    if not isinstance(looks, dict) or not all(name in AGAIN and is_look(look) for name, look in looks.items()):
        raise UntrustedError("%s has an unknown format. Run preflight gate install" % path)
    if verdict.get("config") == policy.config:
        return looks, ""
    return looks, "the inventory has changed for this host. Run preflight gate install, then %s" % remedy


def refuse_foreign(verdict, host, own_machine, path):
    """Raise UntrustedError for a verdict of another version, host or machine."""
    remedy = AGAIN["check"]
    if verdict.get("schema") != "preflight.verdict/1":
        raise UntrustedError("%s has an unsupported version, %.40r. Run %s" % (path, verdict.get("schema"), remedy))
    if verdict.get("host") != host:
        raise UntrustedError("%s belongs to another host, %.80r. Run %s" % (path, verdict.get("host"), remedy))
    machine = verdict.get("machine")
    if machine and own_machine and machine != own_machine:
        raise UntrustedError("%s belongs to another machine (machine-id %.40r). Run %s" % (path, machine, remedy))


def digest(verdict):
    """Return the sha256 of a verdict without this key, as docs/gate.md defines it."""
    return sha256(json.dumps(verdict, sort_keys=True, separators=(",", ":")).encode())


def is_look(look):
    """Return whether a run's record has all fields that are used."""
    if not isinstance(look, dict) or look.get("outcome") not in OUTCOMES:
        return False
    problems = look.get("problems")
    return (
        is_number(look.get("time"))
        and is_number(look.get("expires"))
        and isinstance(look.get("checks"), dict)
        and isinstance(problems, list)
        and all(map(is_problem, problems))
        and is_state(look.get("state"))
    )


def is_state(state_then):
    return (
        isinstance(state_then, dict)
        and all(isinstance(state_then.get(name), str) for name in ("boot", "kernel", "driver"))
        and isinstance(state_then.get("nics"), dict)
        and all(type(count) is int for count in state_then["nics"].values())
    )


def is_problem(problem):
    return (
        isinstance(problem, dict)
        and isinstance(problem.get("check"), str)
        and problem.get("outcome") in OUTCOMES
        and isinstance(problem.get("summary"), str)
        and type(problem.get("device")) in (int, type(None))
    )


def outdated(name, look, max_age, now, state_now):
    """Return the reason why a run does not count any more, "" if it does."""
    state_then, age = look["state"], now - look["time"]
    if age < -CLOCKS:
        return "the time of the last %s is %s ahead of this host's clock" % (name, span(-age))
    if age > max_age or now > look["expires"]:
        valid_seconds = min(max_age, look["expires"] - look["time"])
        return "the last %s was %s ago and is valid for %s" % (name, span(age), span(valid_seconds))
    for part in ("kernel", "driver"):
        if state_then[part] != state_now[part]:
            return "the %s has changed since the last %s" % (part, name)
    return ""


def carriers(then, now):
    """Return reasons for NICs that have lost or regained their carrier since: a cable or a switch port may fail
    again."""
    return [
        reason("HST103", "warn", "%s: the carrier changed %d times since the last check" % (nic, now[nic] - count))
        for nic, count in sorted(then.items())
        if now.get(nic, count) > count
    ]
