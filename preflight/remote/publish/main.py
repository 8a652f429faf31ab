"""Writer of a run's results to this host's /var/lib/preflight/verdict.json, beside the results of other runs. Runs on
the host, as root; no module imports it. Standard library only, Python 3.6 syntax.

The rest of stdin is the request, a JSON object:

    marker   word that frames the answer
    host     the host's name in the inventory
    config   sha256 of the host's entry in the inventory
    looks    {"check" or "probe": LOOK (docs/gate.md) without time and state, with "max_age", seconds}
    clear    whether failed looks are removed, at an operator's request
    root     for tests: root of the host's files

The answer is `\\n<marker> <length>\\n<json>\\n`. Its "error" is the reason why nothing was written, in a sentence, or
"". Its "outdated" tells whether the gate here has the policy of another `config`. A reader of the file gets the old one
or the new one, whole, whenever this is killed or the power fails.
"""

import errno
import fcntl
import json
import os
import sys
import time

from gate.files import UntrustedError, others_write, read_json
from gate.state import state, text
from gate.verdict import digest, failures, load_any

POLICY, POLICY_LIMIT = "etc/preflight/gate.json", 256 * 1024  # bytes
FOLDER = "var/lib/preflight"
NAME, PARTIAL = "verdict.json", ".verdict.json.partial"
LOCK_SECONDS = 10.0  # for other runs that publish here
PAUSE = 0.05  # seconds between two attempts to have the lock
WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NotPublishedError(Exception):
    """Reason why nothing is written, in one sentence."""


class PolicyExcerpt:
    """The host and config of the verdict that is kept: as much of a policy as the gate needs to read a verdict."""

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
    """Return the file's text."""
    now, current = int(time.time()), state(root)
    looks = published_looks(request, root)
    if request.get("clear"):
        looks = {name: look for name, look in looks.items() if look["outcome"] != "fail"}
    for name, look in request["looks"].items():
        max_age = look.pop("max_age")
        looks[name] = dict(look, time=now, expires=now + int(max_age), state=current)
    document = {
        "schema": "preflight.verdict/1",
        "host": request["host"],
        "machine": text(root, "etc/machine-id"),
        "config": request["config"],
        "looks": looks,
    }
    document["sha256"] = digest(document)
    return json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n"


def open_folder(path):
    """Return a descriptor of the folder, for all access: no other process can put another folder in its place
    meanwhile."""
    if not os.path.lexists(path):
        os.makedirs(path, 0o700)
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise NotPublishedError("%s is not a regular folder. Remove it" % path) from None
        raise
    if others_write(os.fstat(folder), os.geteuid()):
        raise NotPublishedError("users other than root can write in %s, so the gate would reject its files" % path)
    return folder


def lock(folder):
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                sentence = "another run publishes here, and has not ended within %d s"
                raise NotPublishedError(sentence % LOCK_SECONDS) from None
        time.sleep(PAUSE)


def published_looks(request, root):
    """Return the file's looks that are of this host and of its present inventory entry, and failed looks from before a
    change.

    Looks that the gate would not believe are dropped.
    """
    try:
        looks, problem = load_any(PolicyExcerpt(request), root, os.geteuid())
    except UntrustedError:
        return {}
    return failures(looks) if problem else looks


def write(folder, content):
    try:
        os.unlink(PARTIAL, dir_fd=folder)  # left by a run that was killed
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
    except NotPublishedError as error:
        return str(error)
    except OSError as error:
        message = "/%s/%s cannot be written: %s. The previous file was kept" % (FOLDER, NAME, error.strerror)
        if isinstance(error, PermissionError) and os.geteuid() != 0:
            message += '. It needs root. Set ssh.user = "root" or ssh.sudo = true in the inventory'
        return message
    return ""


def outdated(request):
    try:
        policy = read_json(os.path.join(request.get("root", "/"), POLICY), POLICY_LIMIT, os.geteuid())
    except UntrustedError:
        return True
    return policy is not None and policy.get("config") != request["config"]


def main():
    os.umask(0o077)
    request = json.loads(sys.stdin.buffer.read().decode())
    answer = json.dumps({"error": why_not(request), "outdated": outdated(request)})
    sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(answer), answer))
