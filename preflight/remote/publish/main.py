"""Writes what a run found to this host's /var/lib/preflight/verdict.json, beside what other runs have found. Runs on
the host, as root; imported by nobody. Standard library only, Python 3.6 syntax.

The rest of stdin is the request, a JSON object:

    marker   word that frames the answer
    host     the host's name in the inventory
    config   sha256 of what the inventory says of it
    looks    {"check" or "probe": a LOOK (docs/gate.md) without time and state, with "max_age", seconds}
    clear    whether looks that failed are taken away, which an operator says
    root     for tests: where the host's files stand

The answer is `\\n<marker> <length>\\n<json>\\n`: {"error": why nothing was written, in a sentence, or "", "outdated":
whether the gate here has the policy of another `config`}. Whoever reads the file meets the old one or the new one,
whole, whenever this is killed or the power goes.
"""

import errno
import fcntl
import json
import os
import sys
import time

from gate.files import NotBelieved, others_write, parsed
from gate.state import state, text
from gate.verdict import digest, failures, load_any

POLICY, POLICY_LIMIT = "etc/preflight/gate.json", 256 * 1024  # bytes
FOLDER = "var/lib/preflight"
NAME, PARTIAL = "verdict.json", ".verdict.json.partial"
LOCK_SECONDS = 10.0  # for others that publish here
PAUSE = 0.05  # seconds between two attempts to have the lock
WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):  # noqa: N818  (an answer, not a fault of ours)
    """Why nothing is written: one sentence."""


class Mine:
    """Whose verdict is kept beside this one: as much of a policy as the gate reads a verdict with."""

    def __init__(self, request):
        self.host, self.config = request["host"], request["config"]


def publish(request):
    root = request.get("root", "/")
    folder = open_folder(os.path.join(root, FOLDER))
    try:
        lock(folder)
        write(folder, verdict(request, root))
    finally:
        os.close(folder)


def verdict(request, root):
    """The file's text."""
    now, here = int(time.time()), state(root)
    looks = published(request, root)
    if request.get("clear"):
        looks = {name: look for name, look in looks.items() if look["outcome"] != "fail"}
    for name, look in request["looks"].items():
        max_age = look.pop("max_age")
        looks[name] = dict(look, time=now, expires=now + int(max_age), state=here)
    whole = {
        "schema": "preflight.verdict/1",
        "host": request["host"],
        "machine": text(root, "etc/machine-id"),
        "config": request["config"],
        "looks": looks,
    }
    whole["sha256"] = digest(whole)
    return json.dumps(whole, sort_keys=True, separators=(",", ":")) + "\n"


def open_folder(path):
    """A descriptor of the folder, through which all is done: nobody can put another one in its place meanwhile."""
    if not os.path.lexists(path):
        os.makedirs(path, 0o700)
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise Refused("%s is no folder of its own; remove it" % path) from None
        raise
    if others_write(os.fstat(folder), os.geteuid()):
        raise Refused("others than root can write in %s, so the gate would believe nothing there" % path)
    return folder


def lock(folder):
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise Refused("another run publishes here, and has not ended within %d s" % LOCK_SECONDS) from None
        time.sleep(PAUSE)


def published(request, root):
    """The looks that are there, of this host and as the inventory has it now, and those that failed before it changed;
    what the gate would not believe is not kept."""
    try:
        looks, trouble = load_any(Mine(request), root, os.geteuid())
    except NotBelieved:
        return {}
    return failures(looks) if trouble else looks


def write(folder, content):
    try:
        os.unlink(PARTIAL, dir_fd=folder)  # of a run that was killed
    except FileNotFoundError:
        pass
    with os.fdopen(os.open(PARTIAL, WRITE_NEW, 0o600, dir_fd=folder), "w", encoding="utf-8") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.rename(PARTIAL, NAME, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(PARTIAL, dir_fd=folder)
            raise
    os.fsync(folder)


def why_not(request):
    try:
        publish(request)
    except Refused as error:
        return str(error)
    except OSError as error:
        told = "/%s/%s cannot be written: %s; what was there is there still" % (FOLDER, NAME, error.strerror)
        if isinstance(error, PermissionError) and os.geteuid() != 0:
            told += '; it needs root: set ssh.user = "root" or ssh.sudo = true in the inventory'
        return told
    return ""


def outdated(request):
    try:
        policy = parsed(os.path.join(request.get("root", "/"), POLICY), POLICY_LIMIT, os.geteuid())
    except NotBelieved:
        return True
    return policy is not None and policy.get("config") != request["config"]


def main():
    os.umask(0o077)
    request = json.loads(sys.stdin.buffer.read().decode())
    answer = json.dumps({"error": why_not(request), "outdated": outdated(request)})
    sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(answer), answer))
