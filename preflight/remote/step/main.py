"""What `preflight exec` has srun or mpirun start on each node of the job: it starts the job's command there, and ends
as that ends. Standard library only, Python 3.6 syntax.

$PREFLIGHT_STEP_0, _1 … are, put together, base64 of zlib's of a JSON object:

    {"scripts": {NODE: TEXT}, "table": {"path", "text"} or null}

NODE is $SLURMD_NODENAME, or the first argument; its script is run by bash. A rank table is written before, for all
users to read, and removed after. Who is killed cannot do that: each holds the lock of its table, and removes those
that nobody holds.

Should the step be told to end (SIGTERM of an engine that has seen another node fail), the command is told, too, has
GRACE to end, and the exit code is 1: engines report the highest code, and that is to be the first node's. For the same
reason a failure is told a second after the start at the earliest, when this runs on all other nodes, too; and once the
command has ended by itself, its exit code stays, whatever signal comes.
"""

import base64
import contextlib
import fcntl
import glob
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import zlib

from agent.processes import adopt_orphans, end_descendants

STARTED = time.monotonic()
ALL_STARTED = 1.0  # seconds
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE = 20  # seconds; Slurm's own (KillWait) are 30


def taken_out(environment):
    """The object; its variables are gone after that."""
    parts = []
    while "PREFLIGHT_STEP_%d" % len(parts) in environment:
        parts.append(environment.pop("PREFLIGHT_STEP_%d" % len(parts)))
    return json.loads(zlib.decompress(base64.b64decode("".join(parts))).decode("utf-8"))


def write(table):
    """The file stays open, and locked, as long as this runs."""
    for path in glob.glob(re.sub(r"[0-9a-f]+(?=\.json$)", "*", table["path"])):
        try:
            remove_left(path)
        except OSError:  # somebody's, or gone
            pass
    new = table["path"] + ".new"  # which nobody takes for one that was left, until it is locked
    file = os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    os.fchmod(file.fileno(), 0o644)
    file.write(table["text"])
    file.flush()
    os.rename(new, table["path"])
    return file


def remove_left(path):
    """Anybody may put anything there: a pipe, whose opening would wait for somebody to write, or a link."""
    left = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if stat.S_ISREG(os.fstat(left).st_mode):
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    finally:
        os.close(left)


def main():
    told = taken_out(os.environ)
    node = sys.argv[1] if len(sys.argv) > 1 else os.environ["SLURMD_NODENAME"]
    adopt_orphans()  # so that nobody is left who forks away
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # what ends the command is for what it started, too, and for nobody else
    ended = []

    def pass_on(number, _):
        signal.signal(number, signal.SIG_IGN)
        ended.append(number)
        os.killpg(0, number)
        signal.alarm(GRACE)

    for number in ENDING:
        signal.signal(number, pass_on)
    signal.signal(signal.SIGALRM, lambda *_: end_descendants(os.getpid()))
    table = write(told["table"]) if told["table"] else None
    try:
        code = subprocess.Popen(["bash", "-c", told["scripts"][node]], stdin=subprocess.DEVNULL).wait()
        for number in ENDING:  # the exit code is known: a signal that comes now must not take its place
            signal.signal(number, signal.SIG_IGN)
    finally:
        end_descendants(os.getpid())
        if table:
            with contextlib.suppress(OSError):  # somebody may have cleaned up: the command's exit code counts
                os.unlink(told["table"]["path"])
    if code and not ended:
        time.sleep(max(0.0, STARTED + ALL_STARTED - time.monotonic()))
    sys.exit(1 if ended else code if code >= 0 else 128 - code)
