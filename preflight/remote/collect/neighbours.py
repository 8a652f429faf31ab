"""ssh from this host to a few others, as a launcher uses it: without a question, and with the keys that are there."""

import os
import pwd
import random
import time

from collect.tools import LookError, Start, as_user, command, each, required

SECONDS = 6.0  # for one try
BUSY = ("kex_exchange_identification", "ssh_exchange_identification", "Connection reset by")
# These options learn, forward, share and ask for nothing; all others come from the user's configuration.
OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "ConnectTimeout=5",
    "ConnectionAttempts=1",
    "ControlMaster=no",
    "ControlPath=none",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "LogLevel=ERROR",
)


def look_neighbours(request, deadline):
    """Return the result of `ssh PLACE true` for each [host, place, port or 0] of `targets`, as the jobs' user."""
    settings = request["neighbours"]
    account = jobs_account(settings["user"])
    ssh = required("ssh")
    # The agent of preflight's user would open doors that are closed to a job.
    environment = {name: value for name, value in os.environ.items() if name not in ("SSH_AUTH_SOCK", "SSH_ASKPASS")}
    environment["LC_ALL"] = "C"
    options = [word for option in OPTIONS for word in ("-o", option)]

    def visit(position):
        host, place, port = settings["targets"][position]
        port_options = ["-p", str(port)] if port else []
        argv = as_user(account, [ssh, "-n", "-T", *options, *port_options, "--", place, "true"])
        return dict({"host": host, "place": place, "port": port}, **login_result(argv, place, environment, deadline))

    results = each(range(len(settings["targets"])), visit, deadline)
    return {"user": account.pw_name, "visits": [results[key] for key in sorted(results, key=int)]}


def login_result(argv, place, environment, deadline):
    """Return {"code", "err"} of ssh to a place, with {"trouble"} if it could not be run to its end."""
    while True:
        try:
            until = min(deadline, time.monotonic() + SECONDS)
            answer = command(argv, until, called="ssh " + place, start=Start(environment=environment))
        except LookError as error:
            return {"code": -1, "err": "", "trouble": str(error)}
        # All hosts try the first one: its sshd drops some of many unauthenticated connections (MaxStartups).
        busy = any(word in answer["err"] for word in BUSY)
        if not busy or time.monotonic() + SECONDS > deadline:
            return {"code": answer["code"], "err": answer["err"][-2000:]}
        time.sleep(random.uniform(0.3, 1.2))


def jobs_account(user):
    """Return the account of the jobs' user if one is named, else of the user that logged in."""
    own_account = pwd.getpwuid(os.geteuid())
    if own_account.pw_uid == 0:
        user = user or os.environ.get("SUDO_USER", "")
    if user in ("", own_account.pw_name):
        return own_account
    if own_account.pw_uid != 0:
        raise LookError(
            "jobs run as %s, and only root can try the ssh keys of that user, not %s" % (user, own_account.pw_name)
        )
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise LookError("jobs run as %s, but the host has no such user" % user) from None
