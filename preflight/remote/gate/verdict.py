"""What check and probe found on this host: /var/lib/preflight/verdict.json, and whether it still counts."""

import os

from gate.answer import FOUND, reason, span
from gate.files import NotBelieved, is_number, parsed
from gate.state import sha256, state, text

PLACE = "var/lib/preflight/verdict.json"
LIMIT = 1024 * 1024  # bytes
CLOCKS = 300  # seconds that the clock of the machine that wrote it may have been ahead of this host's
AGAIN = {"check": "preflight check --publish", "probe": "preflight probe --publish"}
CLEAR = "preflight gate clear --limit %s"
LONGEST = 300  # characters of a summary
OUTCOMES = ("pass", "warn", "fail", "unknown")


class Known:
    """What counts of a verdict.

    looks     {"check" or "probe": LOOK} that are this host's, fresh, and of the driver that runs
    troubles  reasons: why nobody knows
    rebooted  whether the host has booted since it was checked, or was not checked at all
    failed    {"check" or "probe": LOOK} that are not fresh any more and failed: their failures count until a newer one
              takes their place, or an operator clears them
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
        found = [dated(one, look, now, host) for look in self.looks.values() for one in of_look(look)]
        old = [dated(one, look, now, host) for look in self.failed.values() for one in of_look(look)]
        return found + [one for one in old if one["outcome"] == "fail"]


def known(policy, now, root="/", owner=0):
    try:
        found, trouble = load_any(policy, root, owner)
    except NotBelieved as error:
        return Known({}, [reason("verdict", "unknown", str(error))], True, {})
    if trouble:
        return Known({}, [reason("verdict", "unknown", trouble)], True, failures(found))
    here = state(root)
    looks, troubles, failed = {}, [], {}
    limits = {"check": policy.max_age, "probe": policy.probe_max_age}
    for name, look in sorted(found.items()):
        trouble = stale(name, look, limits[name], now, here)
        if not trouble:
            looks[name] = look
            continue
        if look["outcome"] == "fail":
            failed[name] = look
        if name == "check" or policy.need_probe:
            troubles.append(reason("verdict", "unknown", "%s; %s" % (trouble, AGAIN[name])))
    troubles += [
        reason("verdict", "unknown", "no %s of this host is published; %s" % (name, AGAIN[name]))
        for name in (("check", "probe") if policy.need_probe else ("check",))
        if name not in found
    ]
    checked = looks.get("check")
    rebooted = checked is None or checked["state"]["boot"] != here["boot"]
    if checked and not rebooted:
        troubles += carriers(checked["state"]["nics"], here["nics"])
    return Known(looks, troubles, rebooted, failed)


def of_look(look):
    """A look's problems; its outcome itself, where no problem accounts for it."""
    problems = [one for one in look["problems"] if one["outcome"] != "pass"]
    if look["outcome"] in ("fail", "unknown") and all(one["outcome"] != look["outcome"] for one in problems):
        problems.append(reason("verdict", look["outcome"], "run %s ended so, and does not say why" % look.get("run")))
    return problems


def since(look, now):
    return max(0, int(now - look["time"]))


def dated(problem, look, now, host):
    if problem["outcome"] != "fail":
        return problem
    age = FOUND + "%s ago; once fixed: %s)" % (span(since(look, now)), CLEAR % host)
    return dict(problem, summary=problem["summary"][: LONGEST - len(age)] + age)


def failures(looks):
    """Return the looks that failed, which count whatever the inventory says by now."""
    return {name: look for name, look in looks.items() if look["outcome"] == "fail"}


def load_any(policy, root="/", owner=0):
    """Return {"check" or "probe": LOOK} of a whole verdict of this host, and why no pass of it counts: "" where it is
    of the host as it is configured. Raises NotBelieved."""
    path = os.path.join(root, PLACE)
    again = AGAIN["check"]
    found = parsed(path, LIMIT, owner)
    if found is None:
        raise NotBelieved("nothing is published on this host; %s" % again)
    if found.pop("sha256", None) != digest(found):
        raise NotBelieved("%s is damaged: its checksum is another one; %s" % (path, again))
    if found.get("schema") != "preflight.verdict/1":
        raise NotBelieved("%s is of another version, %.40r; %s" % (path, found.get("schema"), again))
    if found.get("host") != policy.host:
        raise NotBelieved("%s is of another host, %.80r; %s" % (path, found.get("host"), again))
    machine, own = found.get("machine"), text(root, "etc/machine-id")
    if machine and own and machine != own:
        raise NotBelieved("%s is of another machine (machine-id %.40r); %s" % (path, machine, again))
    looks = found.get("looks")
    if not isinstance(looks, dict) or not all(name in AGAIN and is_look(look) for name, look in looks.items()):
        raise NotBelieved("%s is of a form that this gate does not know; preflight gate install" % path)
    if found.get("config") == policy.config:
        return looks, ""
    return looks, "the inventory says something else of this host by now; preflight gate install, then %s" % again


def digest(rest):
    """sha256 of a verdict without this key, as docs/gate.md has it."""
    import json

    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode())


def is_look(look):
    """Whether it has what is used of it."""
    if not isinstance(look, dict) or look.get("outcome") not in OUTCOMES:
        return False
    found, problems, checks = look.get("state"), look.get("problems"), look.get("checks")
    return (
        is_number(look.get("time"))
        and is_number(look.get("expires"))
        and isinstance(checks, dict)
        and isinstance(problems, list)
        and all(map(is_problem, problems))
        and isinstance(found, dict)
        and all(isinstance(found.get(name), str) for name in ("boot", "kernel", "driver"))
        and isinstance(found.get("nics"), dict)
        and all(type(count) is int for count in found["nics"].values())
    )


def is_problem(problem):
    return (
        isinstance(problem, dict)
        and isinstance(problem.get("check"), str)
        and problem.get("outcome") in OUTCOMES
        and isinstance(problem.get("summary"), str)
        and type(problem.get("device")) in (int, type(None))
    )


def stale(name, look, max_age, now, here):
    """Why a look does not count any more, "" where it does."""
    then, age = look["state"], now - look["time"]
    if age < -CLOCKS:
        return "the last %s is from the future (%s ahead of this host's clock)" % (name, span(-age))
    if age > max_age or now > look["expires"]:
        counted = min(max_age, look["expires"] - look["time"])
        return "the last %s was %s ago, and counts for %s" % (name, span(age), span(counted))
    for part in ("kernel", "driver"):
        if then[part] != here[part]:
            return "the %s is another one than at the last %s" % (part, name)
    return ""


def carriers(then, now):
    """NICs whose carrier has gone or come since: a cable or a switch port that may do it again."""
    return [
        reason("HST103", "warn", "%s: its carrier went or came %d times since the last check" % (nic, now[nic] - count))
        for nic, count in sorted(then.items())
        if now.get(nic, count) > count
    ]
