"""Record of the gate's answers and their reasons, a JSON object a line: /var/lib/preflight/gate.jsonl, and the older
one beside it.

A line that cannot be written is lost, and the answer is the same. A line cut off by a full disk is no JSON: readers
skip it.
"""

import fcntl
import json
import os
import time

PLACE = "var/lib/preflight/gate.jsonl"
LIMIT = 1024 * 1024  # bytes; a larger file becomes the older one
MOST = 2 * LIMIT  # bytes; lines for a larger file are lost
LINE = 4096  # most bytes: a line is one write, so that the lines of two gates do not mix


def record(answer, environment, root="/", **more):
    """Write the answer down, with its extra fields: the `seconds` that it took, a `note` on the actions."""
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
    """Append the line, or do nothing without the folder, which preflight makes with its first change here."""
    try:
        descriptor = open_log(path)
        size = os.fstat(descriptor).st_size
        if size > LIMIT and rename_full(path, descriptor):
            os.close(descriptor)
            descriptor = open_log(path)
        elif size > MOST:  # the gate that renames it makes no progress
            line = b""
        os.write(descriptor, line)
        os.close(descriptor)
    except OSError:
        pass


def open_log(path):
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def rename_full(path, descriptor):
    """Rename the full file to the older one, unless another gate does so. Return whether it has been renamed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
            os.rename(path, path + ".1")
    except OSError:
        return False
    return True
