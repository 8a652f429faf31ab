"""Starter of the job's command on each node, run by srun or mpirun for `preflight exec`; it ends as the command ends.
Standard library only, Python 3.6 syntax.

The variables $PREFLIGHT_STEP_0, _1 … are, put together, base64 of zlib's of a JSON object:

    {"scripts": {NODE: TEXT}, "table": {"path", "text"} or null}

NODE is $SLURMD_NODENAME, or the first argument; its script is run by bash. A rank table is written before, for all
users to read, and removed after. A starter that is killed cannot remove its table. So each starter holds the lock of
its table, and removes tables that no process has locked.

An engine ends the step by SIGTERM if another node has failed. The command gets the signal, too, and has GRACE to end.
The exit code is then 1: engines report the highest code, and that is to be the first node's. For the same reason a
failure is reported a second after the start at the earliest, when this runs on all other nodes, too. Once the command
has ended by itself, its exit code stays, whatever signal arrives.
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
SIGNALLED = 0.5  # seconds until the same signal arrives here


def taken_out(environment):
    """Return the object, and remove its variables from the environment."""
    parts = []
    while "PREFLIGHT_STEP_%d" % len(parts) in environment:
        parts.append(environment.pop("PREFLIGHT_STEP_%d" % len(parts)))
    return json.loads(zlib.decompress(base64.b64decode("".join(parts))).decode("utf-8"))


def write(table):
    """Write the table, and return its file, which stays open and locked as long as this runs."""
    for path in glob.glob(re.sub(r"[0-9a-f]+(?=\.json$)", "*", table["path"])):
        try:
            remove_left(path)
        except OSError:  # another process's, or gone
            pass
    new_path = table["path"] + ".new"  # no other step takes this name for a table that was left, until it is locked
    file = os.fdopen(os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    os.fchmod(file.fileno(), 0o644)
    file.write(table["text"])
    file.flush()
    os.rename(new_path, table["path"])
    return file


def remove_left(path):
    """Remove a table that no process has locked.

    Any user may put anything there: a pipe, which would block until it has a writer, or a link.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    finally:
        os.close(fd)


def pass_signals_on():
    """Pass signals to end on to the command, and give it GRACE to end. Return the list of the signals so far."""
    signals = []

    def pass_on(number, _):
        signal.signal(number, signal.SIG_IGN)
        signals.append(number)
        os.killpg(0, number)
        signal.alarm(GRACE)

    for number in ENDING:
        signal.signal(number, pass_on)
    signal.signal(signal.SIGALRM, lambda *_: end_descendants(os.getpid()))
    return signals


def main():
    step = taken_out(os.environ)
    node = sys.argv[1] if len(sys.argv) > 1 else os.environ["SLURMD_NODENAME"]
    adopt_orphans()  # so that no process can fork away
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # signals reach the command and the processes that it started, and no others
    signals = pass_signals_on()
    table = write(step["table"]) if step["table"] else None
    try:
        code = subprocess.Popen(["bash", "-c", step["scripts"][node]], stdin=subprocess.DEVNULL).wait()
        if {-code, code - 128}.intersection(ENDING):
            time.sleep(SIGNALLED)  # an engine signals one process after another, and may begin with the command
        for number in ENDING:  # the exit code is known: a signal that arrives now must not replace it
            signal.signal(number, signal.SIG_IGN)
    finally:
        end_descendants(os.getpid())
        if table:
            with contextlib.suppress(OSError):  # the table may be gone already: the command's exit code counts
                os.unlink(step["table"]["path"])
    if code and not signals:
        time.sleep(max(0.0, STARTED + ALL_STARTED - time.monotonic()))
    sys.exit(1 if signals else code if code >= 0 else 128 - code)
