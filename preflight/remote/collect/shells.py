"""Environments of a program started here over ssh, and of a person's login. They may differ where a profile sets a
variable, or ~/.bashrc returns early unless it is interactive."""

import os
import pwd
import time

from collect.own import parent_of
from collect.tools import LookError, Start, as_user, command, read

MARK = "preflight-login"
SHELLS = ("bash", "zsh", "ksh", "mksh", "dash", "sh", "fish")  # shells that accept -l -i -c
LOGIN_SECONDS = 8.0
LONGEST = 8192  # characters kept of a value
# As in job_view.py.
SECRET = ("PASS", "PWD", "SECRET", "TOKEN", "CREDENTIAL", "AUTH", "LOGIN", "KEY")


def look_shells(request, deadline):
    """Return the variables of `prefixes`, and the paths of `programs`, for both kinds of login."""
    options = request["shells"]
    over_ssh = environment_over_ssh()
    account = pwd.getpwnam(over_ssh["SUDO_USER"]) if "SUDO_USER" in over_ssh else pwd.getpwuid(os.geteuid())
    if options["user"] not in ("", account.pw_name):
        users = (options["user"], account.pw_name)
        raise LookError("jobs run as %s, but sshd's environment is only known for %s, the login user" % users)
    facts = {
        "user": account.pw_name,
        "shell": account.pw_shell,
        "over_ssh": for_jobs(account, over_ssh, options, deadline),
    }
    try:
        facts["login"], facts["error"] = for_jobs(account, login(account, over_ssh, deadline), options, deadline), ""
    except LookError as error:
        facts["login"], facts["error"] = None, str(error)
    return facts


def environment_over_ssh():
    """Return the environment that sshd's command got from the login shell."""
    environment = dict(os.environ)
    if os.geteuid() == 0 and "SUDO_USER" in environment:
        environment = dict(environment_before_sudo(), SUDO_USER=environment["SUDO_USER"])
    if "SSH_CONNECTION" not in environment:
        raise LookError("preflight did not log in over ssh, so sshd's environment is unknown")
    return environment


def environment_before_sudo():
    """Return the environment of the sudo process that started this one: sudo has changed its child's."""
    pid = os.getpid()
    while pid > 1 and (read("/proc/%d/comm" % pid) or "").strip() != "sudo":
        pid = parent_of(pid)
    if pid <= 1:
        raise LookError("the environment before sudo could not be found")
    lines = (read("/proc/%d/environ" % pid) or "").split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def login(account, over_ssh, deadline):
    """Return the environment of an interactive login, which runs without a terminal and without input."""
    if os.path.basename(account.pw_shell) not in SHELLS:
        raise LookError("the login shell of %s is %s, which is not supported" % (account.pw_name, account.pw_shell))
    argv = [account.pw_shell, "-l", "-i", "-c", "echo; echo %s; exec /usr/bin/env -0" % MARK]
    environment = {name: value for name, value in over_ssh.items() if name != "SUDO_USER"}
    label = "an interactive login of " + account.pw_name
    until = min(deadline, time.monotonic() + LOGIN_SECONDS)
    start = Start(environment=dict(environment, TERM="dumb", HOME=account.pw_dir))
    answer = command(as_user(account, argv), until, called=label, start=start)
    _, mark, text = answer["out"].rpartition("\n%s\n" % MARK)
    if not mark:
        raise LookError("%s exited with %d and printed no environment" % (label, answer["code"]))
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


def for_jobs(account, environment, wanted, deadline):
    """Return the parts of an environment that matter to jobs. A value that may be a secret does not leave the host."""
    variables = {}
    for name, value in environment.items():
        is_secret = any(word in name.upper() for word in SECRET) or "@" in value.partition("://")[2]
        if name.startswith(tuple(wanted["prefixes"])) and not is_secret:
            variables[plain(name)] = plain(value)[:LONGEST]
    path = environment.get("PATH", "").split(":")
    programs = {name: on_path(name, path) for name in wanted["programs"]}
    mpirun = programs.get("mpirun")
    mpi_version = version(as_user(account, [mpirun, "--version"]), environment, deadline) if mpirun else ""
    return {"variables": variables, "programs": programs, "mpi": mpi_version}


def on_path(name, path):
    places = [os.path.join(folder, name) for folder in path if folder]
    return next((plain(place) for place in places if os.access(place, os.X_OK) and os.path.isfile(place)), "")


def version(argv, environment, deadline):
    """Return mpirun's version line, with the libraries that it finds there."""
    try:
        answer = command(argv, deadline, start=Start(environment=environment))
    except LookError as error:
        return str(error)
    lines = (answer["out"].strip() or answer["err"].strip()).splitlines()
    return lines[0][:200] if lines else "exited with %d" % answer["code"]


def plain(text):
    """Return the text without invalid characters, which JSON cannot carry."""
    return text.encode("utf-8", "replace").decode()
