"""What the gate answered and why, a JSON object a line: /var/lib/preflight/gate.jsonl, and the older one beside it.

A line that cannot be written is lost, and the answer is the same. What a full disk cuts off is no
JSON: read past it."""

import os
import time

PLACE = "var/lib/preflight/gate.jsonl"
LIMIT = 1024 * 1024  # bytes, from which on the file becomes the older one
MOST = 2 * LIMIT  # from which on lines are lost
LINE = 4096  # bytes at most: a line is one write, so that two gates do not mix theirs


def record(answer, environment, root="/", **more):
    """Write the answer down, and what else there is to say of it: `seconds` that it took, a `note` of what was done."""
    import json

    fields = dict(answer.fields(), time=round(time.time(), 3), **more)
    job = environment.get("SLURM_JOB_ID", "")
    if job.isdecimal():
        fields["job"] = job[:20]
    line = json.dumps(fields)
    while len(line) >= LINE and fields["reasons"]:
        fields = dict(fields, reasons=fields["reasons"][: len(fields["reasons"]) // 2], cut=True)
        line = json.dumps(fields)
    append(os.path.join(root, PLACE), line.encode() + b"\n")


def append(path, line):
    """Without the folder, which preflight makes when it first changes something here, nothing is kept."""
    try:
        descriptor = opened(path)
        size = os.fstat(descriptor).st_size
        if size > LIMIT and renamed(path, descriptor):
            os.close(descriptor)
            descriptor = opened(path)
        elif size > MOST:  # whoever is renaming it does not get on
            line = b""
        os.write(descriptor, line)
        os.close(descriptor)
    except OSError:
        pass


def opened(path):
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def renamed(path, descriptor):
    """Make the full file the older one, unless another gate is doing so, or has."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
            os.rename(path, path + ".1")
    except OSError:
        return False
    return True
