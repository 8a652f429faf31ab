"""Journal of the runs on this host: a JSON object a line, on the disk before the next step begins.

`RUN.jsonl` is one run's journal, readable by root only:

    `start`    `owner`, `changes` (their number).
    `begin`    `step` or `undo`, `kind`, `target`, `area`, `phase`. `before`: the value found.
               `after`: the value wanted. `others`: [[kind, target, value], …] that may change besides.
    `end`      The same keys, and `state`, `found`, `message`. `others`: the same afterwards.
    `abandoned`, `confirmed`, `reverted`, `left`, `recovered`   See steps.py, guardian.py and recovery.py.
    `finish`   The end of the run.

`open` is a link that names the run which has begun and not finished. There is at most one: runs hold the host's lock.

A run that could not write a line counts as cut off there. It writes no further line and stays open for the next run,
which settles it. So the lines lost to a full disk are recovered as soon as there is room.
"""

import errno
import fcntl
import json
import os
import re
import time

from apply.files import sync_directory
from apply.kinds import MODULES
from apply.tools import StepError

OPEN = "open"
# Event → the fields that its reader needs.
FIELDS = {
    "start": ("owner",),
    "begin": ("kind", "target", "area", "before", "after", "others"),
    "end": ("kind", "target", "state", "found"),
    "left": ("target",),
}
STATES = ("already", "moved", "done", "failed", "did-not-stick")
AREAS = ("ports", "device-ips", "firewall", "environment")


def is_text(value):
    return isinstance(value, str)


def is_text_or_none(value):
    return value is None or isinstance(value, str)


def is_number(value):
    return isinstance(value, int)


def are_others(value):
    return isinstance(value, list) and all(
        isinstance(item, list)
        and len(item) == 3
        and item[0] in MODULES
        and is_text(item[1])
        and is_text_or_none(item[2])
        for item in value
    )


# Field → whether it may have this value.
VALUES = {
    "owner": is_text,
    "undoes": is_text,
    "target": is_text,
    "message": is_text,
    "before": is_text_or_none,
    "after": is_text_or_none,
    "found": is_text_or_none,
    "step": is_number,
    "undo": is_number,
    "kind": MODULES.__contains__,
    "area": AREAS.__contains__,
    "state": STATES.__contains__,
    "others": are_others,
}


def journal_path(directory, run):
    return os.path.join(directory, run + ".jsonl")


def open_run(directory):
    """Return the run that has begun here and not finished, or an empty text."""
    try:
        run = os.readlink(os.path.join(directory, OPEN))
    except OSError:
        return ""
    return run if re.match(r"[A-Za-z0-9_.-]+$", run) else ""


def close_run(directory):
    """Record that no run is open any more."""
    os.unlink(os.path.join(directory, OPEN))
    sync_directory(directory)


def hold_journal(directory, run):
    """Show other programs, to the end of this process, that the run is being confirmed."""
    try:
        handle = os.open(journal_path(directory, run), os.O_RDONLY)
    except FileNotFoundError:
        raise StepError("run %s did not change this host" % run) from None
    fcntl.flock(handle, fcntl.LOCK_EX)  # waits for a confirmation with a broken connection


def being_confirmed(directory):
    """Return whether a program confirms the open run right now. Its guardian then gives up the host's lock for that
    program, which is known by its lock on the journal."""
    try:
        handle = os.open(journal_path(directory, open_run(directory)), os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)


def records(directory, run):
    """Return the readable lines of a run's journal as records; None if there was no such run here."""
    lines = journal_lines(directory, run)
    return None if lines is None else list(filter(None, map(record_of, lines)))


def journal_lines(directory, run):
    try:
        with open(journal_path(directory, run), "rb") as file:
            return file.read().split(b"\n")
    except FileNotFoundError:
        return None


def record_of(line):
    """Return the record of a line, None if it was cut or damaged. A byte beyond ASCII or a value of another type shows
    damage: none is ever written."""
    try:
        record = json.loads(line.decode("ascii"))
        is_complete = all(name in record for name in FIELDS.get(record["event"], ()))
        is_sound = all(VALUES[name](value) for name, value in record.items() if name in VALUES)
        return record if is_complete and is_sound else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def count_damaged(directory, run):
    """Return the number of damaged lines in a run's journal. A line cut by a full disk or a crash is not counted: its
    step had not begun."""
    lines = journal_lines(directory, run) or ()
    return sum(record_of(line) is None and (line.endswith(b"}") or max(line) > 127) for line in filter(None, lines))


class Journal:
    def __init__(self, directory, run, handle):
        self.directory, self.run, self.handle = directory, run, handle
        self.path = journal_path(directory, run)
        self.optional = False  # true if steps go on that cannot be written down
        self.torn = False  # true if the last line was cut, by a full disk or a crash
        self.lost = None  # the error that kept a line from being written
        self.begun = {}  # (step, undo) → the `begin` record of each step without an end
        self.upset = {}  # (kind, target) that steps of this run changed besides → (value before, value after)

    @classmethod
    def create(cls, directory, run, **start):
        """Return the journal of a new run with its first line written. If that fails, nothing has begun."""
        os.makedirs(directory, 0o700, exist_ok=True)
        try:
            handle = os.open(journal_path(directory, run), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            message = "run %s was already on this host. Check whether the inventory lists the host under two names"
            raise StepError(message % run) from None
        journal = cls(directory, run, handle)
        os.symlink(run, os.path.join(directory, OPEN))
        sync_directory(directory)
        try:
            journal.note("start", **start)
        except StepError:
            close_run(directory)
            raise
        return journal

    @classmethod
    def resume(cls, directory, run):
        """Return the journal of a run that was on this host before, ready for further lines."""
        path = journal_path(directory, run)
        if not os.path.exists(path):
            raise StepError("run %s did not change this host" % run)
        journal = cls(directory, run, os.open(path, os.O_WRONLY | os.O_APPEND))
        with open(path, "rb") as file:
            journal.torn = file.read()[-1:] not in (b"", b"\n")
        for record in records(directory, run):
            journal.remember(record)
        return journal

    def note(self, event, sync=True, **more):
        """Write a line. One that need not be on the disk before the next action (`sync` off) gets there with the next
        line that must be."""
        record = dict(more, event=event, time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        try:
            if self.lost:
                raise self.lost
            self.write(record, sync)
        except OSError as error:
            self.lost = error
            if not self.optional:
                raise StepError("%s cannot be written: %s" % (self.path, error.strerror)) from None
        self.remember(record)

    def write(self, record, sync):
        line = (("\n" if self.torn else "") + json.dumps(record, sort_keys=True) + "\n").encode()
        bytes_written = os.write(self.handle, line)
        self.torn = 0 < bytes_written < len(line)
        if bytes_written < len(line):
            raise OSError(errno.ENOSPC, "the disk is full")
        if sync:
            os.fsync(self.handle)

    def remember(self, record):
        step_key = (record.get("step"), record.get("undo"))
        if record["event"] == "begin":
            self.begun[step_key] = record
        elif record["event"] == "end":
            self.begun.pop(step_key, None)
        for kind, target, value in record.get("others", ()):
            first_value, _ = self.upset.get((kind, target), (value, None))
            self.upset[kind, target] = (first_value, value)

    def finish(self):
        """Write the end of this run, unless some line of it is not written down."""
        if self.lost or self.begun:
            return
        self.optional = True  # the link shows the end as well
        self.note("finish")
        if open_run(self.directory) == self.run:
            close_run(self.directory)
